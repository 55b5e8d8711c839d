"""``kraft-bridge trace compact``: few files instead of many, and files of what was left over."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.config.words import install
from emulator.io.printable import sentence
from emulator.trace.rows import RUN_ID_COLUMN, STREAM, TABLES, stream_of, whole_blocks

GREATEST_BYTES: Final = 128 << 20
"""Files of one life are put together up to about this size."""
_ROW_GROUP_ROWS: Final = 65_536
_NAME: Final = re.compile(r"(.+-\d+-\d+)-(\d{12})\.parquet")
_MERGING, _MERGED, _DAMAGED = ".merging", ".merged", ".damaged"


@dataclass(slots=True)
class Compacted:
    """What was done."""

    before: int = 0
    """Files of finished rows, before."""
    after: int = 0
    streams: int = 0
    """Streams of processes that have ended, now files."""
    written: int = 0
    """Streams that processes still write."""
    unreadable: int = 0
    """Files and streams that are damaged, and stay; such a stream under another name."""


def compact(
    trace: Annotated[Path, typer.Argument(help="Folder of a trace.")],
) -> None:
    """Put the files of a trace together; what killed processes left becomes files too.

    Processes may write it meanwhile, and analyze --follow may read it; nothing else may.
    """
    if not (trace / "runs").is_dir():
        raise fail(f"{trace} is no trace (it has no folder runs)", ExitCode.WRONG)
    try:
        import pyarrow.parquet  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    try:
        done = compacted(trace)
    except OSError as error:
        raise fail(sentence(error)) from error
    typer.echo(
        f"{done.before:,} files are {done.after:,} now; {done.streams:,} streams of processes that "
        f"have ended became files; {done.written:,} are still written"
        + (f"; {done.unreadable:,} damaged files stay as they are" if done.unreadable else "")
    )


def compacted(trace: Path, greatest_bytes: int = GREATEST_BYTES) -> Compacted:
    """Compact a trace; a run that is cut is taken up by the next one.

    Args:
        trace: its folder.
        greatest_bytes: files are put together while they are smaller.

    Raises:
        OSError: something cannot be read or written, or another run is under way.
    """
    done = Compacted()
    with _alone(trace):
        for table in TABLES:
            for folder in sorted((trace / table).glob(f"{RUN_ID_COLUMN}=*")):
                _take_up(folder)
                for stream in sorted(folder.glob(f"_*{STREAM}")):
                    with _left_as_it_is(done):
                        _end(stream, done)
                done.before += _count(folder)
                for files in _groups(folder, greatest_bytes, done):
                    with _left_as_it_is(done):
                        _publish(_merge(files))
                _drop_empty(folder)
                done.after += _count(folder)
    return done


@contextlib.contextmanager
def _alone(trace: Path) -> Iterator[None]:
    folder = os.open(trace / "runs", os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(f"{trace} is being compacted already") from error
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def _left_as_it_is(done: Compacted) -> Iterator[None]:
    """What is damaged stays, and what its process deletes meanwhile, by its limit, has gone."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        pass
    except pa.ArrowException:
        done.unreadable += 1
    except OSError as error:
        # What cannot be decompressed is an error of the system without a number.
        if error.errno is not None:
            raise
        done.unreadable += 1


def _count(folder: Path) -> int:
    return len(list(folder.glob("[!_]*.parquet")))


def _end(stream: Path, done: Compacted) -> None:
    """Make a file of a stream whose process has ended."""
    from emulator.io.trace_file import stream_to_parquet
    from emulator.trace.rows import parquet_of

    with stream.open("r+b") as opened:
        try:
            fcntl.flock(opened.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            done.written += 1
            return
        if stream.exists():  # it may have been finished just now
            made = parquet_of(stream)
            written = os.fstat(opened.fileno()).st_mtime_ns
            if not _has_rows_of(made):
                stream_to_parquet(stream, made)
                with contextlib.suppress(FileNotFoundError):  # it had no rows
                    os.utime(made, ns=(written, written))
            if _is_damaged(stream):
                stream.rename(stream.with_name(f"{stream.name}{_DAMAGED}"))
                done.unreadable += 1
            else:
                stream.unlink()
                done.streams += 1


def _is_damaged(stream: Path) -> bool:
    """Whether it holds more than its whole blocks."""
    import pyarrow as pa

    with pa.OSFile(str(stream), "rb") as source:
        _, whole = whole_blocks(pa, source)
        return not whole and source.size() > 0


def _has_rows_of(made: Path) -> bool:
    """Whether a file of the same life has the rows from a number on.

    So it is if a process was killed after it had finished a stream, before it could remove that, or
    if a folder holds copies of two instants.
    """
    import pyarrow.parquet as pq

    if (mine := _NAME.fullmatch(made.name)) is None:
        return made.exists()
    for path in made.parent.glob("[!_]*.parquet"):
        match = _NAME.fullmatch(path.name)
        if match is not None and match[1] == mine[1] and int(match[2]) <= int(mine[2]):
            with _left_as_it_is(Compacted()):
                if int(mine[2]) < int(match[2]) + pq.read_metadata(path).num_rows:
                    return True
    return False


def _groups(folder: Path, greatest_bytes: int, done: Compacted) -> Iterator[list[Path]]:
    """Files of one life without a row missing between them."""
    import pyarrow.parquet as pq

    lives: defaultdict[str, list[tuple[int, Path]]] = defaultdict(list)
    for path in folder.glob("[!_]*.parquet"):
        # One that is there as a stream too is being finished.
        if (match := _NAME.fullmatch(path.name)) and not stream_of(path).exists():
            lives[match[1]].append((int(match[2]), path))
    for files in lives.values():
        group: list[Path] = []
        size = expected = 0
        for first, path in sorted(files):
            count = None
            with _left_as_it_is(done):
                taken, count = path.stat().st_size, pq.read_metadata(path).num_rows
            if group and (count is None or first != expected or size + taken > greatest_bytes):
                yield from [group] * (len(group) > 1)
                group, size = [], 0
            if count is not None:
                group.append(path)
                size += taken
                expected = first + count
        yield from [group] * (len(group) > 1)


def _merge(files: Sequence[Path]) -> Path:
    """Write the rows of files again, in their order, beside the first one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = files[0].with_name(f"_{files[0].name}{_MERGING}")
    waiting: list[Any] = []
    try:
        with pq.ParquetWriter(made, pq.read_schema(files[0]), compression="zstd") as out:
            for path in files:
                waiting.append(pq.read_table(path, partitioning=None))
                if sum(table.num_rows for table in waiting) >= _ROW_GROUP_ROWS or path is files[-1]:
                    out.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_ROWS)
                    waiting.clear()
        written = files[-1].stat().st_mtime_ns
        os.utime(made, ns=(written, written))
        with made.open("rb") as opened:
            os.fsync(opened.fileno())
        merged = made.rename(made.with_suffix(_MERGED))
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    _make_durable(merged.parent)
    return merged


def _make_durable(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _publish(merged: Path) -> None:
    """Put a merged file in the place of those it has the rows of, by the numbers in their names."""
    import pyarrow.parquet as pq

    first = merged.with_name(merged.name.removeprefix("_").removesuffix(_MERGED))
    match = _NAME.fullmatch(first.name)
    assert match is not None
    begin = int(match[2])
    end = begin + pq.read_metadata(merged).num_rows
    for path in merged.parent.glob("[!_]*.parquet"):
        other = _NAME.fullmatch(path.name)
        if other is not None and other[1] == match[1] and begin < int(other[2]) < end:
            path.unlink()
    merged.replace(first)


def _take_up(folder: Path) -> None:
    """Finish what a run that was cut had begun."""
    for path in folder.glob(f"_*{_MERGING}"):
        path.unlink()
    for path in folder.glob(f"_*{_MERGED}"):
        _publish(path)


def _drop_empty(folder: Path) -> None:
    """Files without rows only show that there is such a table."""
    empty = sorted(folder.glob("[!_]*-empty.parquet"))
    if _count(folder) == len(empty):
        del empty[:1]
    for path in empty:
        path.unlink()
