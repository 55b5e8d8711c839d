"""The Parquet writer: every row comes back, also after a crash, a restart or a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset
import pyarrow.parquet
import pytest

from emulator.io import trace_file
from emulator.io.trace_file import TraceFailedError, TraceFile, TraceLimits, TraceUnavailableError
from emulator.trace import rows

_ROWS: list[rows.Row] = [
    rows.RequestRow(1, "CreateTopics", 7, "admin", 4, 90, received_ns=10, last_offset=5),
    rows.RangeRow(rows.Stage.APPENDED, 3, 5, 20, no_op_records=1),
    rows.BlockRow(10, 20, rows.BlockCause.LAG_RECORDS, "CreateTopics", 1),
    rows.MultiRow(1, 2, 3, 400, 3, 5, "ok", (rows.MultiOperation("chain", 3, 400),)),
    rows.StallRow(1, 60_000_000),
    rows.GaugeRow(1, "kraft_bridge_zk_write_behind_lag_records", 7.0),
    rows.RunRow(rows.SCHEMA_VERSION, 1, 2, "host", "0.1.0", "3.9", "{}"),
]


def _read(folder: Path, table: str) -> list[dict[str, Any]]:
    found = pyarrow.dataset.dataset(folder / table, partitioning="hive").to_table()
    return [dict(row) for row in found.to_pylist()]


def _files(folder: Path, table: str) -> list[int]:
    """Rows of each finished file that has any, oldest first."""
    found = sorted((folder / table).rglob("c-*.parquet"))
    return [count for count in (pyarrow.parquet.read_metadata(f).num_rows for f in found) if count]


def test_every_table_is_there_from_the_start(tmp_path: Path) -> None:
    TraceFile(tmp_path, "r1", "c").close()
    assert not any(_read(tmp_path, table) for table in rows.TABLES)


def test_rows_of_every_table_come_back(tmp_path: Path) -> None:
    trace = TraceFile(tmp_path, "r1", "controller-3000")
    for row in _ROWS:
        trace.append(row)
    trace.close()
    trace.close()
    for row in _ROWS:
        [found] = _read(tmp_path, rows.TABLE_OF[type(row)])
        plain = msgspec.json.decode(msgspec.json.encode(row))
        assert found == {**plain, "process": "controller-3000", "run_id": "r1"}
        for file in (tmp_path / rows.TABLE_OF[type(row)]).rglob("*.parquet"):
            metadata = pyarrow.parquet.read_schema(file).metadata
            assert metadata[trace_file.VERSION_KEY.encode()] == str(rows.SCHEMA_VERSION).encode()


def test_order_is_kept_over_blocks_and_files(tmp_path: Path) -> None:
    trace = TraceFile(
        tmp_path, "r1", "c", limits=TraceLimits(block_rows=3, file_rows=7, file_seconds=1e9)
    )
    for at in range(20):
        trace.append(rows.StallRow(at, at + 1))
    trace.close()
    assert [row["begin_ns"] for row in _read(tmp_path, "stalls")] == list(range(20))
    assert _files(tmp_path, "stalls") == [9, 9, 2]
    assert {table: n for table, n in trace.rows_total.items() if n} == {"stalls": 20}


def test_an_old_file_is_ended_by_flush_and_readable_before_close(tmp_path: Path) -> None:
    now = [0.0]
    trace = TraceFile(
        tmp_path, "r1", "c", limits=TraceLimits(file_seconds=15), clock=lambda: now[0]
    )
    trace.append(rows.StallRow(1, 2))
    trace.flush()
    now[0] = 15.0
    trace.append(rows.StallRow(3, 4))
    trace.flush()
    trace.append(rows.StallRow(5, 6))
    trace.close()
    assert _files(tmp_path, "stalls") == [2, 1]


_CRASHING = """
import os, sys, pathlib
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.trace.rows import StallRow
folder = pathlib.Path(sys.argv[1])
trace = TraceFile(folder, "r1", "c", limits=TraceLimits(block_rows=10, file_rows=50))
for at in range(95):
    trace.append(StallRow(at, at))
while len(list(folder.rglob("stalls/*/c-*.parquet"))) < 2:
    pass
os._exit(9)
"""


def test_a_killed_process_leaves_whole_files(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", _CRASHING, str(tmp_path)], check=False)
    assert dead.returncode == 9
    found = [row["begin_ns"] for row in _read(tmp_path, "stalls")]
    assert found[:50] == list(range(50))


def test_a_process_started_again_adds_to_the_run(tmp_path: Path) -> None:
    for at in (1, 2):
        trace = TraceFile(tmp_path, "r1", "c")
        trace.append(rows.StallRow(at, at))
        trace.close()
    assert {row["begin_ns"] for row in _read(tmp_path, "stalls")} == {1, 2}


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceUnavailableError, match=r"pip install '\.\[spark\]'"):
        TraceFile(tmp_path, "r1", "c")


def test_a_disk_that_refuses_is_reported_and_ends_the_trace(tmp_path: Path) -> None:
    (tmp_path / "stalls").write_text("in the way")
    trace = TraceFile(tmp_path, "r1", "c", limits=TraceLimits(block_rows=1))

    def write() -> None:
        trace.append(rows.StallRow(1, 2))  # the other thread may have met it at once
        trace.close()

    with pytest.raises(TraceFailedError, match="the trace stopped"):
        write()
    with pytest.raises(TraceFailedError):
        trace.flush()


def test_a_disk_too_slow_costs_rows_but_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_BACKLOG_BLOCKS", 0)
    trace = TraceFile(tmp_path, "r1", "c", limits=TraceLimits(block_rows=4))
    for at in range(9):
        trace.append(rows.StallRow(at, at))
    trace.close()
    assert trace.dropped_rows == 8
    assert trace.rows_total["stalls"] == 1
    assert [row["begin_ns"] for row in _read(tmp_path, "stalls")] == [8]
