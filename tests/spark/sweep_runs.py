"""Runs of a bench whose truth is known: a queue in front of ZooKeeper with one rate of service."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from emulator.io.trace_file import TraceFile
from emulator.trace import rows
from emulator.trace.rows import CpuGauge

MS = 1_000_000
SECOND = 1_000 * MS
BEGIN = 7 * SECOND + 3  # not at a border of anything


@dataclass(frozen=True)
class Made:
    """One run to write: operations of one record at ``rate`` for ``seconds``, from ``BEGIN``.

    ``capacity``: records per second that ZooKeeper takes. ``response_ms``: of each request; the
    share ``lost`` of them is answered with an error, all at most at ``answers_per_s``, and none
    later than 2 s after the schedule. ``blocked``: spans in ms since ``BEGIN``.
    ``outside``: of a controller without a trace.
    """

    rate: float
    capacity: float = 1000.0
    response_ms: float = 5.0
    lost: float = 0.0
    answers_per_s: float = 1e9
    blocked: tuple[tuple[float, float], ...] = ()
    outside: bool = False
    target: str = "kraft-bridge"
    repeat: int = 0
    seconds: float = 6.0
    warm_up_s: float = 1.0
    latency_ms: float = 2.0
    void: str = ""
    pair: str | None = None

    @property
    def run_id(self) -> str:
        return f"sweep.{self.rate:g}-{self.latency_ms:g}.{self.target}.r{self.repeat}"

    def row(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "scenario": "<i>$x$</i>",
            "case": f"{self.rate:g}",
            "target": self.target,
            "repeat": self.repeat,
            "void": self.void,
            "pair": self.pair,
            "begin_ns": BEGIN,
            "end_ns": BEGIN + int((self.seconds + 2) * SECOND),  # the last answer
            "intended": int(self.rate * self.seconds),
            "warm_up_s": self.warm_up_s,
            "rate_per_s": self.rate,
            "latency_ms": self.latency_ms,
            "bound_records": 100,
            "partitions_per_topic": 1,
            "lag_p99_low_ms": 900.0 if self.rate > self.capacity else 1.0,
            "lag_p99_high_ms": 930.0 if self.rate > self.capacity else 30.0,
            "lag_gap_p99_ms": 12.0,
            "others_cores": 0.1,
            "command": "kraft-bridge bench run sweep.toml --out <b>x</b>",
            "versions": json.dumps({"kafka": "3.9.2"}),
            "machine": json.dumps({"cores": 2}),
        }

    def moves(self) -> list[rows.RangeRow]:
        """Appended when it arrives, committed 1 ms later; acknowledged one by one."""
        free, found = 0, []
        service = int(SECOND / self.capacity)
        for index in range(int(self.rate * self.seconds)):
            committed = BEGIN + int(index * SECOND / self.rate) + MS
            free = max(free, committed) + service
            found.append(rows.RangeRow("appended", index, index, committed - MS))
            found.append(rows.RangeRow("committed", index, index, committed))
            found.append(rows.RangeRow("zk_acked", index, index, free))
        return found

    def requests(self) -> Iterable[tuple[int, int, int]]:
        """Number, when it was due, when it was answered; only those that were."""
        free = 0
        for index in range(int(self.rate * self.seconds)):
            at = BEGIN + int(index * SECOND / self.rate)
            free = max(free + int(SECOND / self.answers_per_s), at + int(self.response_ms * MS))
            if free <= BEGIN + int((self.seconds + 2) * SECOND):
                yield index, at, free

    def trace(self) -> Iterable[tuple[str, rows.Row]]:
        """Process and row."""
        moves = self.moves()
        yield "load", rows.RunRow(rows.SCHEMA_VERSION, 0, 10**18, "h", "0", "load", "{}")
        for index, at, answered in self.requests():
            error = 41 if index % 100 < self.lost * 100 else 0
            yield (
                "load",
                rows.RequestRow(
                    index, "X", 0, "load", index, answered, None, error, intended_ns=at, sent_ns=at
                ),
            )
        gauges = {"committed": "bench_committed_offset", "zk_acked": "bench_zk_offset"}
        reached = {stage: [m.time_ns for m in moves if m.stage == stage] for stage in gauges}
        for at in range(BEGIN, max(reached["zk_acked"]) + 50 * MS, 50 * MS):
            for stage, gauge in gauges.items():
                offset = bisect.bisect_right(reached[stage], at) - 1
                yield "watch", rows.GaugeRow(at, gauge, float(offset))
        if self.outside:
            return
        for move in moves:
            yield "controller-3000", move
            if move.stage == "zk_acked":
                sent = move.time_ns - int(SECOND / self.capacity)
                yield (
                    "controller-3000",
                    rows.MultiRow(sent, move.time_ns, 4, 100, move.last_offset, move.last_offset),
                )
        for second in range(int(self.seconds) + 1):
            at = BEGIN + second * SECOND
            yield "controller-3000", rows.GaugeRow(at, CpuGauge.EVENT_LOOP, 7.0 + 0.3 * second)
        for begin, end in self.blocked:
            yield (
                "controller-3000",
                rows.BlockRow(
                    BEGIN + int(begin * MS), BEGIN + int(end * MS), "lag_records", "CreateTopics"
                ),
            )


def write(folder: Path, runs: Sequence[Made]) -> None:
    """The folder of a bench run."""
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([run.row() for run in runs]), folder / "rows.parquet")
    for run in runs:
        files: dict[str, TraceFile] = {}
        for process, row in run.trace():
            if process not in files:
                files[process] = TraceFile(folder / "trace", run.run_id, process)
            files[process].append(row)
        for file in files.values():
            file.close()
