"""``trace compact``: the same rows in few files, whatever ends it in between."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest

from bench.verbs import trace_compact
from bench.verbs.trace_compact import compacted
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import wait_for
from emulator.trace import rows

FILES = 12
ROWS = list(range(5 * FILES))


def finished(folder: Path) -> None:
    """A trace with five rows in a file."""
    trace = TraceFile(folder, "r", "c", limits=TraceLimits(block_rows=5, file_bytes=1))
    for at in ROWS:
        trace.append(rows.StallRow(at, at))
    trace.close()


def written(folder: Path, process: str, begin: int) -> TraceFile:
    """A trace with two rows in a stream."""
    trace = TraceFile(folder, "r", process)
    for at in (begin, begin + 1):
        trace.append(rows.StallRow(at, at))
    trace.flush()
    wait_for("the writer", lambda: any(path.stat().st_size > 600 for path in streams(folder)))
    return trace


def files(folder: Path) -> list[Path]:
    return sorted((folder / "stalls" / "run_id=r").glob("*.parquet"))


def streams(folder: Path) -> list[Path]:
    return sorted((folder / "stalls" / "run_id=r").glob("*.arrows"))


def begins(folder: Path) -> list[int]:
    found: Any = pyarrow.dataset.dataset(folder / "stalls", partitioning="hive").to_table()
    return sorted(found["begin_ns"].to_pylist())


def test_files_are_put_together_and_streams_of_the_dead_become_files(tmp_path: Path) -> None:
    finished(tmp_path)
    trace = written(tmp_path, "lives", 1_000)
    (stream,) = streams(tmp_path)
    shutil.copy(stream, stream.with_name("_dead-7-1700-000000000000.arrows"))
    assert len(files(tmp_path)) == FILES + 2
    done = compacted(tmp_path)
    assert (done.streams, done.written) == (1, 1)
    assert begins(tmp_path) == [*ROWS, 1_000, 1_001]
    assert [path.name.split("-")[0] for path in files(tmp_path)] == ["c", "dead"]
    assert streams(tmp_path) == [stream]
    for table in rows.TABLES:
        assert list((tmp_path / table).rglob("*.parquet")), "every table is still there"
    trace.append(rows.StallRow(2_000, 2_000))
    trace.close()
    assert begins(tmp_path) == [*ROWS, 1_000, 1_000, 1_001, 1_001, 2_000]
    assert compacted(tmp_path).after <= done.after + 2


def test_what_is_missing_stays_missing_and_files_stay_small(tmp_path: Path) -> None:
    finished(tmp_path)
    files(tmp_path)[4].unlink()
    compacted(tmp_path)
    assert [path.stem[-3:] for path in files(tmp_path)] == ["000", "025"]
    assert begins(tmp_path) == [*ROWS[:20], *ROWS[25:]]
    other = tmp_path / "other"
    finished(other)
    greatest = 3 * files(other)[0].stat().st_size
    compacted(other, greatest)
    assert len(files(other)) == FILES / 3
    assert begins(other) == ROWS


def test_an_end_anywhere_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "whole")
    ended = 0
    for step in count():
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "whole", folder)
        steps = count()

        def but(name: str, steps: Any = steps, step: int = step) -> None:
            real = getattr(Path, name)

            def cut(self: Path, *more: Any, **named: Any) -> Any:
                if next(steps) == step:
                    raise InterruptedError
                return real(self, *more, **named)

            monkeypatch.setattr(Path, name, cut)

        for name in ("unlink", "rename", "replace"):
            but(name)
        try:
            compacted(folder)
        except InterruptedError:
            ended += 1
        else:
            break
        finally:
            monkeypatch.undo()
        compacted(folder)
        assert begins(folder) == ROWS, step
        assert len(files(folder)) == 1
        assert not list(folder.rglob("_*"))
    assert ended > FILES


def test_without_locks_a_stream_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = written(tmp_path, "c", 0)

    def none(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(trace_compact.fcntl, "flock", none)
    with pytest.raises(OSError, match="no locks"):
        compacted(tmp_path)
    assert streams(tmp_path)
    trace.close()
