"""``trace compact``: the same rows in few files, whatever ends it in between."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.verbs import trace_compact
from bench.verbs.trace_compact import compacted
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import wait_for
from emulator.trace import rows
from emulator.trace.rows import stream_of

FILES = 6
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
    whole = tmp_path / "whole"
    finished(whole)
    trace = written(whole, "dead", 1_000)
    (left,) = streams(whole)
    kept = left.read_bytes()
    trace.close()
    left.write_bytes(kept)  # killed before it removed what it had finished
    ended = 0
    for step in count():
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "whole", folder)
        steps = count()

        def but(place: Any, name: str, steps: Any = steps, step: int = step) -> None:
            real = getattr(place, name)

            def cut(*more: Any, **named: Any) -> Any:
                if next(steps) >= step:  # nothing is done after a kill
                    raise KilledError
                return real(*more, **named)

            monkeypatch.setattr(place, name, cut)

        for name in ("unlink", "rename", "replace"):
            but(Path, name)
        for name in ("fsync", "utime"):
            but(os, name)
        but(pyarrow.parquet.ParquetWriter, "write_table")
        try:
            compacted(folder)
        except KilledError:
            ended += 1
        else:
            break
        finally:
            monkeypatch.undo()
        compacted(folder)
        assert begins(folder) == [*ROWS, 1_000, 1_001], step
        assert len(files(folder)) == 2
        assert not list(folder.rglob("_*"))
    assert ended > 2 * FILES


def test_another_run_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path)
    real, said = trace_compact._merge, []

    def during(group: Any) -> Path:
        with pytest.raises(OSError, match="is being compacted already"):
            compacted(tmp_path)
        said.append(group)
        return real(group)

    monkeypatch.setattr(trace_compact, "_merge", during)
    compacted(tmp_path)
    assert len(said) == 1
    assert begins(tmp_path) == ROWS
    compacted(tmp_path)


def test_what_its_process_is_just_finishing_is_left_to_it(tmp_path: Path) -> None:
    """Killed after that, before it removes the stream, it leaves both."""
    finished(tmp_path)
    last = files(tmp_path)[-2]
    stream_of(last).touch()
    with stream_of(last).open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        compacted(tmp_path)
        assert last.exists()
        assert len(files(tmp_path)) == 2
    assert begins(tmp_path) == ROWS


def test_a_copy_of_a_stream_that_is_older_than_its_file_takes_nothing_away(tmp_path: Path) -> None:
    finished(tmp_path)
    trace = written(tmp_path / "other", "c", 0)
    (old,) = streams(tmp_path / "other")
    compacted(tmp_path)
    (whole,) = files(tmp_path)
    for number in (0, 7):
        shutil.copy(old, stream_of(whole.with_stem(f"{whole.stem[:-1]}{number}")))
    trace.close()
    compacted(tmp_path)
    assert begins(tmp_path) == ROWS
    assert not streams(tmp_path)


def test_what_is_damaged_or_goes_away_meanwhile_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path)
    files(tmp_path)[3].write_bytes(b"no Parquet, " * 99)
    done = compacted(tmp_path)
    assert done.unreadable == 1
    assert [path.stem[-3:] for path in files(tmp_path)] == ["000", "015", "020"]
    files(tmp_path)[1].unlink()
    assert begins(tmp_path) == [*ROWS[:15], *ROWS[20:]]
    cut = files(tmp_path)[0].with_name("_x-7-1700-000000000000.arrows")
    trace = written(tmp_path / "live", "x", 1_000)
    cut.write_bytes(streams(tmp_path / "live")[0].read_bytes() + b"not a block")
    trace.close()
    assert compacted(tmp_path).unreadable == 1
    assert begins(tmp_path)[-2:] == [1_000, 1_001]
    assert cut.with_name(f"{cut.name}.damaged").read_bytes().endswith(b"not a block")
    other = tmp_path / "other"
    finished(other)
    real = trace_compact._merge

    def deleted(group: list[Path]) -> Path:
        group[3].unlink()
        return real(group)

    with monkeypatch.context() as patch:
        patch.setattr(trace_compact, "_merge", deleted)
        assert compacted(other).unreadable == 0, "it has gone"
    compacted(other)
    assert begins(other) == [*ROWS[:15], *ROWS[20:]]
    assert not list(other.rglob("_*"))


def test_files_of_a_version_to_come_keep_what_they_hold(tmp_path: Path) -> None:
    finished(tmp_path)
    for path in files(tmp_path):
        found = pyarrow.parquet.read_table(path, partitioning=None)
        more = found.append_column("why", [["x"] * found.num_rows])
        metadata = {**found.schema.metadata, b"kraft_bridge.schema_version": b"99"}
        pyarrow.parquet.write_table(more.replace_schema_metadata(metadata), path)
    compacted(tmp_path)
    found = pyarrow.parquet.read_table(files(tmp_path)[0], partitioning=None)
    assert found["begin_ns"].to_pylist() == ROWS
    assert {*found["why"].to_pylist()} == {"x"}
    assert found.schema.metadata[b"kraft_bridge.schema_version"] == b"99"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["file", "stream", "both", "gone"]))),
    st.integers(1, 9_000),
)
def test_whatever_there_is_it_is_there_once_afterwards(
    parts: list[tuple[int, str]], greatest: int
) -> None:
    """Files of any size, streams, both, and holes, in a folder with a hostile name."""
    schema = rows.arrow_schema(pyarrow, rows.StallRow)
    with tempfile.TemporaryDirectory(prefix="my trace [1] é ") as made:
        folder = Path(made, "stalls", "run_id=r é")
        folder.mkdir(parents=True)
        Path(made, "runs").mkdir()
        first, wanted = 0, []
        for count, kind in parts:
            begins = list(range(first, first + count))
            table = pyarrow.table([begins, begins, ["p"] * count], schema=schema)
            path = folder / f"a p-7-1700-{first:012d}.parquet"
            if kind in {"file", "both"}:
                pyarrow.parquet.write_table(table, path)
            if kind in {"stream", "both"}:
                with pyarrow.ipc.new_stream(str(stream_of(path)), schema) as out:
                    for batch in table.to_batches():
                        out.write_batch(batch, custom_metadata=rows.checksum(schema, batch))
            wanted += begins if kind != "gone" else []
            first += count
        before = len(parts)
        for _ in range(2):
            compacted(Path(made), greatest)
            found = sorted(folder.iterdir())
            read = [pyarrow.parquet.read_table(path, partitioning=None) for path in found]
            assert [n for table in read for n in table["begin_ns"].to_pylist()] == wanted
            assert len(found) <= before
            before = len(found)


class KilledError(BaseException):
    """The process is killed here."""


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
