"""Reads a row from outside: how far the log is, and how far ZooKeeper.

It works with every controller: DescribeQuorum has the high watermark, ``/migration`` the offset up
to which ZooKeeper holds everything.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, Final

from kazoo.client import KazooClient

from bench.runs.blocking import BlockingClient
from emulator.trace.distribution import enough, percentile
from emulator.trace.rows import GaugeRow

COMMITTED: Final = "bench_committed_offset"
IN_ZOOKEEPER: Final = "bench_zk_offset"
READ_MS: Final = "bench_read_ms"
PERIOD_S: Final = 0.01
LOOK_S: Final = 0.005
"""Between two looks at ``/migration`` of a close watch: how exactly it is known when ZooKeeper held
all. Each look costs the process some 0.5 ms, and the load's client runs in it too."""
_INSTANT_NS: Final = 1_000_000
_INSTANTS: Final = 100_000
"""At so many instants a lag is computed at most: those of 100 s, a millisecond apart."""


def offset_of(data: bytes) -> int:
    """The offset that ``/migration`` holds."""
    return int(json.loads(data)["kraft_metadata_offset"])


@dataclass(frozen=True, slots=True)
class Held:
    """An answer of ZooKeeper: what ``/migration`` held at some instant of the reading."""

    begin_ns: int
    end_ns: int
    offset: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: ZooKeeper's last answer, then the last committed record.

    ``committed``: its offset, at some instant from ``asked_ns`` to ``time_ns``.
    """

    held: Held
    asked_ns: int
    time_ns: int
    committed: int

    @property
    def in_zookeeper(self) -> int:
        """Offset of the last record that ZooKeeper holds."""
        return self.held.offset

    @property
    def lag(self) -> int:
        """Records by which ZooKeeper is behind at most: it may have taken some meanwhile."""
        return max(0, self.committed - self.in_zookeeper)


def lag_low(samples: Sequence[Sample]) -> int | None:
    """The greatest number of records by which ZooKeeper was behind for certain; None: no readings.

    ZooKeeper held no more, when a record was known to be committed, than a reading that began later
    found. A slow ZooKeeper answers late, so that :attr:`Sample.lag` counts what it took meanwhile.

    Args:
        samples: in the order in which they were read.
    """
    begun = [one.held.begin_ns for one in samples]
    lows = [0 for _ in samples[:1]]
    for one in samples:
        later = bisect_left(begun, one.time_ns)
        if later < len(samples):
            lows.append(one.committed - samples[later].in_zookeeper)
    return max(lows, default=None)


@dataclass(frozen=True, slots=True)
class LagMs:
    """The lag in ms over a span of time: its p99 is between two values, by what was read.

    ``gap_ms``: 99 % of the time lies between readings that are no farther apart. None: too few
    readings, or the lag is older than the first of them.
    """

    low_ms: float | None
    high_ms: float | None
    gap_ms: float | None


def lag_ms(samples: Sequence[Sample], begin_ns: int, end_ns: int) -> LagMs:
    """The p99, each instant counting alike, of the age of the oldest record not in ZooKeeper.

    A reading holds for some instant between its begin and its end. So at an instant ZooKeeper
    holds what was read before it at least, and what is read after it at most; a record was
    committed after the begin of the last reading without it, before the end of the first with it.

    Args:
        samples: in the order in which they were read.
        begin_ns: of the span.
        end_ns: of the span.
    """
    inside = [one.time_ns for one in samples if begin_ns <= one.time_ns < end_ns]
    if not enough(len(inside), 0.99):
        return LagMs(None, None, None)
    ends = [begin_ns, *inside, end_ns]
    gaps = sorted((b - a for a, b in pairwise(ends)), reverse=True)
    beyond, at = 0, 0
    while at < len(gaps) - 1 and (beyond := beyond + gaps[at]) <= 0.01 * (end_ns - begin_ns):
        at += 1
    step_ns = max(_INSTANT_NS, (end_ns - begin_ns) // _INSTANTS)
    ages = _ages(samples, range(begin_ns, end_ns, step_ns))
    low, high = (percentile(values, 0.99) for values in zip(*ages, strict=True))
    return LagMs(low, None if high == inf else high, gaps[at] / 1e6)


def _ages(samples: Sequence[Sample], instants: range) -> list[tuple[float, float]]:
    """At each instant the least and the greatest age that readings allow, ms."""
    held_begin = [one.held.begin_ns for one in samples]
    held_end = [one.held.end_ns for one in samples]
    committed = [one.committed for one in samples]
    found = []
    for now_ns in instants:
        before, after = bisect_right(held_end, now_ns), bisect_left(held_begin, now_ns)
        low, high = 0.0, inf
        if after < len(samples):
            first = bisect_right(committed, samples[after].in_zookeeper)
            if first < len(samples):
                low = max(0.0, (now_ns - samples[first].time_ns) / 1e6)
        if before:
            first = bisect_right(committed, samples[before - 1].in_zookeeper)
            if first:
                high = max(0.0, (now_ns - samples[first - 1].asked_ns) / 1e6)
        found.append((low, high))
    return found


class Watch:
    """Samples in a thread until ``close``.

    While ZooKeeper does not answer, the last offset that was read counts.

    Args:
        port: of the controller.
        client: of ZooKeeper.
        brokers: the controller names each when it is asked: of more than 100 it is asked less
            often, 10 times a second of 1,000.
        closely: look at ``/migration`` every 5 ms from the beginning, not once for each sample.
    """

    def __init__(
        self, port: int, client: KazooClient, *, brokers: int = 3, closely: bool = False
    ) -> None:
        self.samples: list[Sample] = []
        self.problem: Exception | None = None
        """Why the watch ended early; None while it works."""
        self._quorum = BlockingClient(port)
        self._client = client
        self._pending: Any = None
        self._asked_ns = 0
        """When the answer was asked for that is awaited."""
        self._held: Held | None = None
        self._steps: list[tuple[int, int]] = []
        """When ``/migration`` was seen to hold another offset, and which."""
        self._period_s = PERIOD_S * max(1, brokers // 100)
        self._between_s = LOOK_S if closely else self._period_s
        self._over = False
        self._wake = threading.Event()
        """Ends a wait between two looks."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End; samples stay."""
        self._over = True
        self._wake.set()
        self._thread.join()
        self._quorum.close()

    def drained(self, offset: int, timeout_s: float) -> int | None:
        """Wait until ZooKeeper holds an offset; returns when it did, None if it does not.

        From now on it looks closely.
        """
        self._between_s = LOOK_S
        self._wake.set()
        end = time.monotonic() + timeout_s
        while self.problem is None:
            for time_ns, reached in self._steps:
                if reached >= offset:
                    return time_ns
            if time.monotonic() > end:
                break
            time.sleep(LOOK_S)
        return None

    def lag_at(self, time_ns: int) -> int:
        """The largest lag of the samples of a second around a time."""
        near = [one.lag for one in self.samples if abs(one.time_ns - time_ns) < 1e9]
        return max(near, default=0)

    def committed_at(self, time_ns: int) -> int:
        """Offset of the last record committed at a time, as far as was sampled."""
        before = [one.committed for one in self.samples if one.time_ns <= time_ns]
        return before[-1] if before else -1

    def rows(self) -> list[GaugeRow]:
        """Rows of the trace."""
        return [
            row
            for one in self.samples
            for row in (
                GaugeRow(one.time_ns, COMMITTED, float(one.committed)),
                GaugeRow(one.time_ns, IN_ZOOKEEPER, float(one.in_zookeeper)),
                GaugeRow(one.time_ns, READ_MS, (one.time_ns - one.held.begin_ns) / 1e6),
            )
        ]

    def _run(self) -> None:
        due_s = sampled_s = time.monotonic()
        try:
            while not self._over:
                due_s = max(time.monotonic(), due_s + self._between_s)
                self._wake.wait(due_s - time.monotonic())
                self._wake.clear()
                self._look_at_zookeeper()
                late_s = time.monotonic() - sampled_s
                # A close watch looks twice as often as it samples.
                if late_s >= self._period_s - self._between_s / 2 and self._held is not None:
                    sampled_s = time.monotonic()
                    # ZooKeeper first: what it holds then was committed before.
                    held, asked_ns = self._held, time.monotonic_ns()
                    committed = self._quorum.high_watermark() - 1
                    self.samples.append(Sample(held, asked_ns, time.monotonic_ns(), committed))
        except (OSError, ValueError, KeyError) as error:
            self.problem = error

    def _look_at_zookeeper(self) -> None:
        if self._pending is None:
            self._asked_ns = time.monotonic_ns()
            self._pending = self._client.get_async("/migration")
        self._pending.wait(self._between_s)
        if not self._pending.ready():
            return
        pending, self._pending = self._pending, None
        if pending.successful():
            offset = offset_of(pending.value[0])
            self._held = Held(self._asked_ns, time.monotonic_ns(), offset)
            if not self._steps or self._steps[-1][1] != offset:
                self._steps.append((self._held.end_ns, offset))
