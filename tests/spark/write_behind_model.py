"""A controller reduced to its write-behind, in virtual time: the source of traces whose truth is
known.

Requests of ``records`` records arrive every ``every_ms``; one multi is in flight at a time and
takes ``zk_ms``, unless ZooKeeper is frozen. An arrival that would put the lag above ``bound``
waits.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from emulator.trace import metrics, rows
from tests.spark.trace_frames import ms

_COMMIT_MS, _PLAN_MS, _ANSWER_MS = 1.0, 0.25, 0.125


@dataclass
class WriteBehindModel:
    every_ms: float = 10.0
    records: int = 2
    zk_ms: float = 3.0
    bound: int = 16
    seconds: float = 3.0
    freeze_ms: tuple[float, float] = (0.0, 0.0)
    no_op_every_ms: float = 500.0
    gauge_every_ms: float = 37.0
    trace: list[rows.Row] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._end = self._committed = self._sent = self._acked = 0
        self._no_ops: set[int] = set()
        self._commit_ms: dict[int, float] = {}
        self._waiting: deque[tuple[int, float]] = deque()
        self._in_flight = False

    def run(self) -> list[rows.Row]:
        """Run to the end and return every row."""
        parameters = msgspec.json.encode({"bound": self.bound, "rate": 1000 / self.every_ms})
        self.trace.append(
            rows.RunRow(rows.SCHEMA_VERSION, 0, 10**18, "host", "0", "3.9", parameters.decode())
        )
        total = self.seconds * 1000
        for index in range(int(total / self.every_ms)):
            self._at(1 + index * self.every_ms, partial(self._arrive, index))
        for index in range(int(total / self.no_op_every_ms)):
            self._at(5.5 + index * self.no_op_every_ms, lambda: self._append(1, None))
        for index in range(int(total / self.gauge_every_ms)):
            self._at(20.0625 + index * self.gauge_every_ms, self._read_gauges)
        while self._agenda:
            self.now, _, act = heapq.heappop(self._agenda)
            act()
        return self.trace

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._agenda, (time, self._sequence, act))

    def _arrive(self, index: int) -> None:
        if self._waiting or self._end - self._acked + self.records > self.bound:
            self._waiting.append((index, self.now))
        else:
            self._append(self.records, (index, self.now))

    def _append(self, count: int, request: tuple[int, float] | None) -> None:
        first, last = self._end + 1, self._end + count
        self._end = last
        no_ops = count if request is None else 0
        if request is None:
            self._no_ops.update(range(first, last + 1))
        self.trace.append(rows.RangeRow("appended", first, last, ms(self.now), no_ops))
        self._at(self.now + _COMMIT_MS, lambda: self._commit(first, last, no_ops, request))

    def _commit(
        self, first: int, last: int, no_ops: int, request: tuple[int, float] | None
    ) -> None:
        self._committed = last
        self._commit_ms.update(dict.fromkeys(range(first, last + 1), self.now))
        self.trace.append(rows.RangeRow("committed", first, last, ms(self.now), no_ops))
        if request is not None:
            index, received = request
            answered = self.now + _ANSWER_MS
            self.trace += [
                rows.RequestRow(
                    index,
                    "Envelope",
                    0,
                    "admin",
                    index,
                    ms(answered),
                    received_ns=ms(received),
                    first_offset=first,
                    last_offset=last,
                    inner_api="CreateTopics",
                ),
                rows.RequestRow(
                    index,
                    "CreateTopics",
                    7,
                    "admin",
                    index,
                    ms(answered + 1),
                    intended_ns=ms(received - 1),
                    sent_ns=ms(received - 0.5),
                ),
            ]
        self._write()

    def _write(self) -> None:
        if self._in_flight or self._sent == self._committed:
            return
        first, last = self._sent + 1, self._committed
        self._sent, self._in_flight = last, True
        begin, end = self.freeze_ms
        sent = self.now + _PLAN_MS
        answer = sent + self.zk_ms
        if begin < answer and sent < end:
            answer = end + self.zk_ms
        self.trace += [
            rows.RangeRow("planned", first, last, ms(sent)),
            rows.RangeRow("zk_sent", first, last, ms(sent)),
        ]
        self._at(answer, lambda: self._acknowledged(first, last, sent))

    def _acknowledged(self, first: int, last: int, sent: float) -> None:
        self._acked, self._in_flight = last, False
        work = last - first + 1
        kinds = (
            rows.MultiOperation("topic_create", work, 100 * work),
            rows.MultiOperation("chain", 3, 200),
        )
        self.trace += [
            rows.RangeRow("zk_acked", first, last, ms(self.now)),
            rows.MultiRow(
                ms(sent), ms(self.now), work + 3, 100 * work + 200, first, last, "ok", kinds
            ),
        ]
        while self._waiting and self._end - self._acked + self.records <= self.bound:
            index, since = self._waiting.popleft()
            self.trace.append(
                rows.BlockRow(ms(since), ms(self.now), "lag_records", "CreateTopics", index)
            )
            self._append(self.records, (index, since))
        self._write()

    def _read_gauges(self) -> None:
        if not self._acked:
            return
        unwritten = range(self._acked + 1, self._committed + 1)
        work = set(unwritten) - self._no_ops
        values = {
            metrics.ZK_WRITE_BEHIND_LAG: float(len(unwritten)),
            metrics.ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS: float(len(work)),
            metrics.ZK_WRITE_BEHIND_LAG_MS: (
                self.now - min(map(self._commit_ms.__getitem__, work), default=self.now)
            ),
        }
        for gauge, value in values.items():
            self.trace.append(rows.GaugeRow(ms(self.now), gauge.name, value))
