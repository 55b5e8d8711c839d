"""What a trace lacks is named, by rows, seconds and process; lives of a process are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.analysis.read import read
from bench.analysis.whole import missing
from emulator.io import trace_file
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import wait_for
from emulator.trace import rows
from emulator.trace.metrics import TRACE_DELETED_BYTES, TRACE_MISSING_ROWS, TRACE_MISSING_S

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

S = 1_000_000_000
WALL_NS = 1_700_000_000 * S


@pytest.fixture(autouse=True)
def wall(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seconds on the wall clock of the next life."""
    now = [0]
    monkeypatch.setattr(trace_file.time, "time_ns", lambda: WALL_NS + now[0] * S)
    return now


def life(
    folder: Path,
    process: str,
    seconds: Sequence[int],
    wall: list[int],
    *more: rows.Row,
    ends: bool = True,
) -> None:
    """A life with a stall each second, five of them in a file, and ``more``."""
    wall[0] = seconds[0]
    limits = TraceLimits(block_rows=5, file_bytes=1)
    trace = TraceFile(folder, "r 1", process, limits=limits, clock=lambda: float(seconds[-1]))
    begun = seconds[0] * S
    trace.append(rows.RunRow(rows.SCHEMA_VERSION, begun, WALL_NS + begun, "h", "0", "3.9", "{}"))
    for row in more:
        trace.append(row)
    for at in seconds:
        trace.append(rows.StallRow(at * S - 5, at * S))
    trace.flush()
    if ends:
        trace.close()
    inbox = trace._writer.inbox
    wait_for("the writer", lambda: not (inbox.qsize() or list(folder.rglob("_*.arrows"))))


def gaps(spark: SparkSession, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    tables = read(spark, str(folder / "trace"), folder / "streams")
    of_files = (tables[name] for name in ("gauges", "requests", "runs", "files"))
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in missing(*of_files).collect():
        one = (row.why, row.table, row.missing_rows, row.missing_s)
        found.setdefault(row.process, []).append(one)
    return found


def test_files_that_are_not_there_are_counted(
    spark: SparkSession, tmp_path: Path, wall: list[int]
) -> None:
    trace = tmp_path / "trace"
    life(trace, "whole", range(10, 30), wall)
    life(trace, "holed", range(10, 30), wall)
    assert gaps(spark, tmp_path) == {}
    first, second, third, _last = sorted(trace.rglob("stalls/*/holed-*0*.parquet"))[:4]
    first.unlink()
    third.unlink()
    assert sorted(gaps(spark, tmp_path)["holed"]) == [
        ("file missing", "stalls", 5, 5.0),
        ("file missing", "stalls", 5, 6.0),
    ]
    second.rename(second.with_name(second.name.replace("005.parquet", "000.parquet")))
    assert ("file missing", "stalls", 10, 6.0) in gaps(spark, tmp_path)["holed"]


def test_lives_are_apart_and_one_without_an_end_is_named(
    spark: SparkSession, tmp_path: Path, wall: list[int]
) -> None:
    trace = tmp_path / "trace"
    life(trace, "c", range(10, 20), wall, ends=False)
    life(trace, "c", range(30, 40), wall)
    life(trace, "c", range(50, 60), wall, ends=False)
    life(trace, "load", range(10, 66), wall)
    assert gaps(spark, tmp_path) == {
        "c life 1": [("no end", None, None, 11.0)],
        "c life 3": [("no end", None, None, 6.0)],
    }
    stalls = read(spark, str(trace), tmp_path / "streams")["stalls"]
    found = {(row.process, row["count"]) for row in stalls.groupBy("process").count().collect()}
    assert found == {("c life 1", 10), ("c life 2", 10), ("c life 3", 10), ("load", 56)}


def test_what_was_not_written_and_what_was_deleted_is_named_each_by_itself(
    spark: SparkSession, tmp_path: Path, wall: list[int]
) -> None:
    """Gaps in the middle of a life; rows of any life that went as there is a limit."""
    trace = tmp_path / "trace"
    said = {TRACE_MISSING_S: (14, 3.0), TRACE_MISSING_ROWS: (14, 7.0)}
    marks = [rows.GaugeRow(at * S, gauge.name, value) for gauge, (at, value) in said.items()]
    again = [
        rows.GaugeRow(18 * S, TRACE_MISSING_S.name, 1.5),
        rows.GaugeRow(20 * S, TRACE_MISSING_S.name, 3.5),
    ]
    life(trace, "c", range(10, 30), wall, *marks, *again)
    life(trace, "killed", range(10, 28), wall, *marks, ends=False)
    life(trace, "full", range(10, 20), wall)
    limit = rows.GaugeRow(59 * S, TRACE_DELETED_BYTES.name, 9.0)
    life(trace, "full", range(40, 60), wall, limit)
    for path in sorted(trace.rglob("stalls/*/full-*0*.parquet")):
        if path.stem[-3:] in {"000", "010"}:
            path.unlink()
    assert gaps(spark, tmp_path) == {
        "c": [("not written", None, 7, 3.0), ("not written", None, None, 3.5)],
        "killed": [("not written", None, 7, 3.0), ("no end", None, None, 32.0)],
        "full life 1": [("deleted", None, 5, 5.0)],
        "full life 2": [("file missing", "stalls", 5, 6.0), ("deleted", None, 5, 5.0)],
    }
