"""The writer of a trace: every row comes back, also after a crash, a restart or a full disk."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.io import trace_file
from emulator.io.trace_file import (
    TraceEnd,
    TraceFailedError,
    TraceFile,
    TraceLimits,
    TraceUnavailableError,
    stream_to_parquet,
)
from emulator.servers.waiting import wait_for
from emulator.trace import rows
from emulator.trace.metrics import TRACE_DELETED_BYTES, TRACE_MISSING_ROWS, TRACE_MISSING_S

BLOCK = 4096
_ROWS: list[rows.Row] = [
    rows.RequestRow(1, "CreateTopics", 7, "admin", 4, 90, received_ns=10, last_offset=5),
    rows.RangeRow(rows.PipelineStage.APPENDED, 3, 5, 20, no_op_records=1),
    rows.BlockRow(10, 20, rows.BlockCause.LAG_RECORDS, "CreateTopics", 1),
    rows.MultiRow(1, 2, 3, 400, 3, 5, "ok", (rows.MultiOperation("chain", 3, 400),)),
    rows.StallRow(1, 60_000_000),
    rows.GaugeRow(1, "kraft_bridge_zk_write_behind_lag_records", 7.0),
    rows.RunRow(rows.SCHEMA_VERSION, 1, 2, "host", "0.1.0", "3.9", "{}"),
]


def _read(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of finished files, without the one that says that its trace is whole."""
    found = pyarrow.dataset.dataset(folder / table, partitioning="hive").to_table()
    end = (TRACE_MISSING_ROWS.name, 0.0)
    return [
        dict(row)
        for row in found.to_pylist()
        if table != "gauges" or (row["gauge"], row["value"]) != end
    ]


def _streamed(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of streams that are left over."""
    found: list[dict[str, Any]] = []
    for stream in sorted((folder / table).rglob("_*.arrows")):
        with pyarrow.OSFile(str(stream)) as source:
            found += pyarrow.ipc.open_stream(source).read_all().to_pylist()
    return found


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
            assert metadata[rows.VERSION_KEY.encode()] == str(rows.SCHEMA_VERSION).encode()


def test_a_whole_trace_has_an_end_and_one_that_is_written_has_none(tmp_path: Path) -> None:
    trace = TraceFile(tmp_path, "r1", "c", limits=TraceLimits(file_bytes=1))
    trace.append(rows.StallRow(1, 1))
    trace.flush()
    wait_for("the writer", lambda: _files(tmp_path, "stalls"))
    assert not _files(tmp_path, "gauges")
    trace.close()
    found = pyarrow.dataset.dataset(tmp_path / "gauges", partitioning="hive").to_table()
    (end,) = found.to_pylist()
    assert (end["gauge"], end["value"]) == (TRACE_MISSING_ROWS.name, 0.0)


def test_order_is_kept_over_blocks_and_files(tmp_path: Path) -> None:
    trace = TraceFile(
        tmp_path, "r1", "c", limits=TraceLimits(block_rows=3, file_bytes=900, file_seconds=1e9)
    )
    for at in range(20):
        trace.append(rows.StallRow(at, at + 1))
    trace.close()
    assert [row["begin_ns"] for row in _read(tmp_path, "stalls")] == list(range(20))
    assert _files(tmp_path, "stalls") == [6, 6, 6, 2]
    names = sorted(path.stem for path in (tmp_path / "stalls").rglob("*.parquet"))
    assert [name.rpartition("-")[2] for name in names] == [
        *(f"{first:012d}" for first in (0, 6, 12, 18)),
        "empty",
    ], "each name has the number of the first row"
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
trace = TraceFile(folder, "r1", "c", limits=TraceLimits(block_rows=10, file_bytes=2_000))
for at in range(95):
    trace.append(StallRow(at, at))
for _ in range(2):
    trace.flush()
    while trace._writer.inbox.qsize():
        pass
trace.append(StallRow(95, 95))
os._exit(9)
"""


def test_a_killed_process_leaves_all_that_was_handed_over(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", _CRASHING, str(tmp_path)], check=False)
    assert dead.returncode == 9
    finished, streamed = _read(tmp_path, "stalls"), _streamed(tmp_path, "stalls")
    assert finished
    assert streamed
    assert [row["begin_ns"] for row in [*finished, *streamed]] == list(range(95))


def test_the_whole_blocks_of_a_stream_are_read_wherever_it_is_cut(tmp_path: Path) -> None:
    trace = TraceFile(tmp_path / "trace", "r1", "c", limits=TraceLimits(block_rows=3))
    for at in range(9):
        trace.append(rows.StallRow(at, at))
    wait_for("the writer", lambda: len(_streamed(tmp_path / "trace", "stalls")) == 9)
    [stream] = (tmp_path / "trace").rglob("stalls/*/_*.arrows")
    whole = stream.read_bytes()
    trace.close()
    found = set()
    for size in range(0, len(whole) + 1, 7):
        cut, made = tmp_path / "cut.arrows", tmp_path / "made.parquet"
        cut.write_bytes(whole[:size])
        count = stream_to_parquet(cut, made)
        assert made.exists() == bool(count)
        if count:
            begins = pyarrow.parquet.read_table(made)["begin_ns"].to_pylist()
            assert begins == list(range(count))
            made.unlink()
        found.add(count)
    assert found >= {0, 3, 6}
    cut.write_bytes(whole + b"no block" * 99)
    assert stream_to_parquet(cut, made) == 9


def test_a_stream_is_locked_while_its_process_lives(tmp_path: Path) -> None:
    trace = TraceFile(tmp_path, "r1", "c")
    trace.append(rows.StallRow(1, 1))
    trace.flush()
    wait_for("the writer", lambda: _streamed(tmp_path, "stalls"))
    [stream] = tmp_path.rglob("_*.arrows")
    with stream.open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        trace.close()
        fcntl.flock(other.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not stream.exists()


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
    with pytest.raises(TraceUnavailableError, match=r"pip install 'kraft-bridge\[spark\]'"):
        TraceFile(tmp_path, "r1", "c")


def in_the_way(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder)
    folder.write_text("no folder")


def removed(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder)


def full(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    write = os.write

    def half(fd: int, data: memoryview) -> int:
        if len(data) < 64:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: len(data) // 2])

    patch.setattr(trace_file.os, "write", half)


def broken(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    def sync(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    patch.setattr(trace_file.os, "fsync", sync)


def read_only(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    def rename(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    patch.setattr(Path, "rename", rename)


def no_memory(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    def write(*_: object, **__: object) -> None:
        raise MemoryError

    patch.setattr(pyarrow.parquet, "write_table", write)


class Clock:
    """Seconds, moved by the test."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def second(trace: TraceFile, clock: Clock) -> None:
    """A row, and a second later what a node does once a second."""
    trace.append(rows.StallRow(int(clock.now_s), int(clock.now_s)))
    clock.now_s += 1.0
    trace.flush()
    wait_for("the writer", lambda: not trace._writer.inbox.qsize())


def ended(trace: TraceFile, clock: Clock) -> TraceEnd:
    """Go on until the thread has met what is in its way."""
    for _ in range(100):
        if trace.ended is not None:
            return trace.ended
        second(trace, clock)
    raise AssertionError("it goes on")


LASTING = [in_the_way, full, broken, read_only, no_memory]
FAULTS = [*LASTING, removed]


@pytest.mark.parametrize("fault", LASTING, ids=[fault.__name__ for fault in LASTING])
def test_what_cannot_be_written_ends_the_trace_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    clock, folder = Clock(), tmp_path / "trace"
    trace = TraceFile(folder, "r1", "c", limits=TraceLimits(file_seconds=3), clock=clock)
    while not (folder / "stalls").exists() or len(_files(folder, "stalls")) < 2:
        second(trace, clock)
    assert trace.missing_s == 0
    fault(folder, monkeypatch)
    end = ended(trace, clock)
    before = dict(trace.rows_total)
    for _ in range(5):
        second(trace, clock)
    assert trace.rows_total == before, "nothing is kept for it"
    assert trace.missing_s == clock.now_s - end.complete_until_s > 5
    assert trace.missing_rows >= 5
    with pytest.raises(TraceFailedError, match=re.escape(end.why)):
        trace.close()
    assert gc.collect() is not None
    monkeypatch.undo()
    if fault is not in_the_way:
        found = {
            row["begin_ns"] for row in [*_read(folder, "stalls"), *_streamed(folder, "stalls")]
        }
        assert found >= set(range(1_000, int(end.complete_until_s))), "complete until then"
        assert not list(folder.rglob("_*.parquet")), "nobody could read them"


def missing(folder: Path) -> dict[str, list[float]]:
    """What the trace says is missing: gauge -> values."""
    found: dict[str, list[float]] = {}
    gauges = [*_read(folder, "gauges"), *_streamed(folder, "gauges")]
    for row in sorted(gauges, key=lambda row: row["time_ns"]):
        found.setdefault(row["gauge"], []).append(row["value"])
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_it_goes_on_by_itself_and_says_how_much_is_missing(
    tmp_path: Path, fault: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    clock, folder = Clock(), tmp_path / "trace"
    trace = TraceFile(folder, "r1", "c", limits=TraceLimits(file_seconds=3), clock=clock)
    trace.append(_ROWS[-1])
    for _ in range(5):
        second(trace, clock)
    gaps = []
    for number in range(2):
        with pytest.MonkeyPatch.context() as patch:
            fault(folder, patch)
            since_s = ended(trace, clock).complete_until_s
            for _ in range(5):
                second(trace, clock)
            assert trace.ended is not None
            if fault is in_the_way:
                folder.unlink()
        clock.now_s += 30
        for _ in range(100):
            second(trace, clock)
            if trace.ended is None:
                break
        assert trace.ended is None, "it goes on"
        gaps.append(clock.now_s - since_s)
        for _ in range(5):
            second(trace, clock)
        assert trace.missing_s == 0, number
    given = int(clock.now_s - 1_000 - 60)
    trace.close()
    marks = missing(folder)
    taken = gaps if fault not in {in_the_way, removed} else gaps[1:]
    assert marks[TRACE_MISSING_S.name] == pytest.approx(taken, abs=1.01)
    kept = [row["begin_ns"] for row in _read(folder, "stalls")]
    assert len(kept) == len({*kept})
    if fault not in {in_the_way, removed}:
        assert sum(marks[TRACE_MISSING_ROWS.name]) == trace.missing_rows
        assert len(kept) + trace.missing_rows == given
    assert [row["host"] for row in _read(folder, "runs")] == ["host"], "it is known what it is"
    assert not list(folder.rglob("_*"))
    files = sorted((folder / "stalls").rglob("c-*0*.parquet"))
    numbers = [int(path.stem.rpartition("-")[2]) for path in files if "empty" not in path.name]
    ends = [
        number + pyarrow.parquet.read_metadata(path).num_rows
        for number, path in zip(numbers, files, strict=False)
    ]
    assert numbers[1:] == ends[:-1], "nothing but what is named is missing"


def test_a_folder_that_is_removed_is_seen_within_a_second(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "trace"
    trace = TraceFile(folder, "r1", "c", clock=clock)
    second(trace, clock)
    shutil.rmtree(folder)
    second(trace, clock)
    assert trace.ended is not None
    clock.now_s += 30
    trace.close()
    assert _read(folder, "runs") == []
    assert missing(folder)[TRACE_MISSING_S.name]


@pytest.mark.slow
def test_a_fault_that_comes_back_is_tried_more_and_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun = Clock(), []
    trace = TraceFile(tmp_path, "r1", "c", clock=clock)

    def never(*_: object) -> None:
        begun.append(clock.now_s)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trace_file, "_write_parquet", never)
    monkeypatch.setattr(trace_file._Table, "_open", never)
    for _ in range(100):
        second(trace, clock)
        clock.now_s += 9.0
    begun = [at - begun[0] for at in begun]
    assert begun == [0, 10, 30, 70, 150, 310, 630, 950]
    with pytest.raises(TraceFailedError):
        trace.close()
    assert trace.missing_rows == 100


def test_a_disk_too_slow_ends_the_trace_and_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_BACKLOG_BLOCKS", 0)
    trace = TraceFile(tmp_path, "r1", "c", limits=TraceLimits(block_rows=4))
    for at in range(9):
        trace.append(rows.StallRow(at, at))
    assert "too slow" in trace.ended.why
    with pytest.raises(TraceFailedError, match="too slow"):
        trace.close()
    assert trace.rows_total["stalls"] == 0
    assert not _read(tmp_path, "stalls")
    assert missing(tmp_path)[TRACE_MISSING_ROWS.name] == [9.0]


def test_a_disk_that_was_too_slow_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    trace = TraceFile(tmp_path, "r1", "c", limits=TraceLimits(block_rows=4), clock=clock)
    second(trace, clock)
    with monkeypatch.context() as slow:
        slow.setattr(trace_file, "_BACKLOG_BLOCKS", 0)
        for at in range(9):
            trace.append(rows.StallRow(at, at))
        assert trace.ended is not None
        clock.now_s += 7
    second(trace, clock)
    assert trace.ended is None
    trace.close()
    assert missing(tmp_path)[TRACE_MISSING_ROWS.name] == [8.0]
    assert missing(tmp_path)[TRACE_MISSING_S.name] == [8.0]
    assert len(_read(tmp_path, "stalls")) == 3


def test_the_end_does_not_wait_for_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, hangs = threading.Event(), threading.Event()

    def write(*_: object, **__: object) -> None:
        hangs.set()
        taken.wait()

    monkeypatch.setattr(trace_file, "_CLOSE_S", 0.05)
    monkeypatch.setattr(pyarrow.parquet, "write_table", write)
    trace = TraceFile(tmp_path, "r1", "c")
    trace.append(rows.StallRow(1, 2))
    try:
        with pytest.raises(TraceFailedError, match="takes nothing"):
            trace.close()
        assert hangs.wait(60)
    finally:
        taken.set()
        trace._thread.join()


# All files together.


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_all_files_take_no_more_than_they_may_and_the_newest_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_LEAST_STREAM", 1)
    clock, folder, limit = Clock(), tmp_path / "my trace [1] é", 50 * BLOCK
    dead = TraceFile(folder, "r0", "c 1", clock=clock)
    dead.append(_ROWS[-1])
    second(dead, clock)
    dead.close()
    other = TraceFile(folder, "r1", "c", clock=clock)
    second(other, clock)
    limits = TraceLimits(file_bytes=1, total_bytes=limit)
    trace = TraceFile(folder, "r1", "c 1", limits=limits, clock=clock)
    trace.append(_ROWS[-1])
    begin = int(clock.now_s)
    for number in range(100):
        second(trace, clock)
        mine = used(folder) - sum(
            path.stat().st_blocks * 512 for path in folder.rglob("*c-*") if path.is_file()
        )
        assert mine <= limit + 2 * BLOCK, number
    assert not list(folder.glob("*/run_id=r0")), "an earlier life goes first, and its folders"
    trace.close()
    other.close()
    kept = [row["begin_ns"] for row in _read(folder, "stalls") if row["process"] == "c 1"]
    assert kept == list(range(begin + 100 - len(kept), begin + 100)), "the oldest rows are gone"
    assert 10 < len(kept) < 50
    assert [row["host"] for row in _read(folder, "runs")] == ["host"]
    [deleted] = {max(missing(folder)[TRACE_DELETED_BYTES.name])}
    assert deleted == trace.deleted_bytes > 50 * BLOCK
    for table in rows.TABLES:
        assert list((folder / table).rglob("*c 1*.parquet")), "every table is still there"
    assert [row["process"] for row in _read(folder, "stalls")].count("c") == 1, "another's stays"


def test_what_describes_a_process_stays_however_little_room_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_LEAST_STREAM", 1)
    clock = Clock()
    limits = TraceLimits(file_bytes=1, total_bytes=1)
    trace = TraceFile(tmp_path, "r1", "c", limits=limits, clock=clock)
    trace.append(_ROWS[-1])
    for _ in range(5):
        second(trace, clock)
    assert len(_files(tmp_path, "stalls")) <= 1, "it is looked at once a second"
    trace.close()
    assert [row["host"] for row in _read(tmp_path, "runs")] == ["host"]
    assert len(list(tmp_path.rglob("*-empty.parquet"))) == len(rows.TABLES)


def test_what_another_process_of_the_same_name_writes_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes with one id and one folder; what of it was left by a killed one goes."""
    monkeypatch.setattr(trace_file, "_LEAST_STREAM", 1)
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    (tmp_path / "real").mkdir()
    clock, folder = Clock(), tmp_path / "link"
    other = TraceFile(folder, "r1", "c", clock=clock)
    second(other, clock)
    [living] = list(folder.rglob("stalls/*/_*.arrows"))
    dead = living.with_name("_c-7-1700-000000000000.arrows")
    shutil.copy(living, dead)
    limits = TraceLimits(file_bytes=1, total_bytes=20 * BLOCK)
    trace = TraceFile(folder, "r1", "c", limits=limits, clock=clock)
    for _ in range(40):
        second(trace, clock)
    assert not dead.exists()
    assert living.exists()
    second(other, clock)
    other.close()
    trace.close()
    assert trace.ended is None
    assert other.missing_rows == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stalls", "runs", "gauges"]),
            st.sampled_from(["c-7-1700", "c-9-1800"]),
            st.integers(-1, 6),
            st.integers(0, 9),
        ),
        unique_by=lambda one: one[:3],
    )
)
def test_whatever_the_clock_does_rows_of_one_table_are_deleted_in_their_order(
    files: list[tuple[str, str, int, int]],
) -> None:
    life = [
        trace_file._File(
            Path(table, "run_id=r", f"{start}-{number}.parquet"), start, number, 1, float(until)
        )
        for table, start, number, until in files
    ]
    for start in {one.start for one in life}:
        ordered = [one for one in life if one.start == start]
        trace_file._put_in_order(ordered)
        ordered.sort(key=trace_file._age)
        of_table: dict[Path, list[int]] = {}
        for one in ordered:
            if not one.describes:
                of_table.setdefault(one.path.parent, []).append(one.number)
        assert all(numbers == sorted(numbers) for numbers in of_table.values())
        what = [one.describes for one in ordered]
        assert what == sorted(what), "what describes a life goes with its last rows"


def test_a_file_that_cannot_be_deleted_ends_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_LEAST_STREAM", 1)
    clock = Clock()
    limits = TraceLimits(file_bytes=1, total_bytes=20 * BLOCK)
    trace = TraceFile(tmp_path, "r1", "c", limits=limits, clock=clock)

    def never(_path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(trace_file._File, "delete", never)
    assert "not permitted" in ended(trace, clock).why
    for _ in range(40):
        second(trace, clock)
    assert used(tmp_path) <= 24 * BLOCK
    with pytest.raises(TraceFailedError):
        trace.close()
