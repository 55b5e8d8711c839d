"""Trace rows to a stream, the stream to Parquet, off the hot path.

``append`` only puts a row into a list. A full block, or the rows since the last ``flush``, goes to
a writer thread, which turns rows into columns and appends them to a stream at once:
``<folder>/<table>/run_id=<run>/_<process>-….arrows``, an Arrow IPC stream, one write a block. A
process that is killed leaves what it wrote: all but the rows of one interval of ``flush`` (of a
machine that fails nothing is promised: streams are not fsynced). While it lives it holds a lock
(``flock``) on its streams.

A stream is finished after ``file_seconds`` or ``file_bytes`` and at the end: it is written again as
Parquet (zstd, strings dictionary-encoded, the schema's version in the file's metadata) under a name
starting with ``_`` (Spark and pyarrow skip such names), fsynced, renamed; then it is removed. So of
a stream and a Parquet file of the same name the latter is whole. A name ends with the number of its
first row, counted from the start of the process: rows missing between two files are known.

A trace only observes: while it cannot be written, the process goes on, and rows are not kept. It is
tried again, after 10 s and later after up to 5 min; then streams that were open are finished, and
how much is missing is put into the trace as two gauges of one instant (``TRACE_MISSING_ROWS``,
``TRACE_MISSING_S``, up to then). The first one, as 0, is the last row of a trace that has an end:
one without it was cut, or is still written.

All files of a process in a folder, whatever run and life, take ``total_bytes`` at most; then the
oldest of all tables go, and the gauge ``TRACE_DELETED_BYTES`` says so in those that stay. What is
being written stays, and so does the row that describes a process while anything of it is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import importlib
import json
import os
import queue
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from emulator.config.words import install
from emulator.io.printable import sentence
from emulator.trace import rows
from emulator.trace.metric import Metric
from emulator.trace.metrics import TRACE_DELETED_BYTES, TRACE_MISSING_ROWS, TRACE_MISSING_S
from emulator.trace.rows import arrow_schema

_ROW_GROUP_ROWS: Final = 65_536
_BACKLOG_BLOCKS: Final = 2_000
_CLOSE_S: Final = 30.0
"""How long the end waits for a disk that takes nothing."""
_AGAIN_S: Final = 10.0
"""After it a trace that could not be written is tried again, twice as long after each failure."""
_AGAIN_MAX_S: Final = 320.0
_STREAMS: Final = 16
"""A stream takes at most one part in so many of what all files may take."""
_LEAST_STREAM: Final = 65_536
_MISSING: Final = f"writing a trace needs pyarrow; {install('spark')}"


class TraceUnavailableError(Exception):
    """There can be no trace: pyarrow is not installed, or the place cannot be written."""


class TraceFailedError(OSError):
    """What was recorded last could not be written."""


class TraceEnd(NamedTuple):
    """Why a trace is not written, and until when it is complete (``TraceFile.clock``)."""

    why: str
    complete_until_s: float


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """When blocks and streams are finished."""

    block_rows: int = 1024
    """Rows made into columns at a time: 1 ms with the interpreter held; a step may take 5."""
    file_bytes: int = 64 << 20
    file_seconds: float = 60.0
    total_bytes: int = 0
    """Of all files of the process in the folder, its earlier lives' too; 0: no limit."""

    @property
    def stream_bytes(self) -> int:
        """At which a stream is finished: a small share of all, as it is never deleted."""
        if not self.total_bytes:
            return self.file_bytes
        return min(self.file_bytes, max(_LEAST_STREAM, self.total_bytes // _STREAMS))


class TraceFile:
    """The trace of one process. All methods belong to one thread."""

    def __init__(
        self,
        folder: Path,
        run_id: str,
        process: str,
        *,
        limits: TraceLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the writer thread.

        Args:
            folder: the trace; several processes may write into one.
            run_id: the run: a folder of each table.
            process: the name of the writer, such as ``controller-3000``: a column, and part of each
                file's name.
            limits: when blocks and streams are cut.
            clock: seconds, monotonic; for the age of streams.

        Raises:
            TraceUnavailableError: pyarrow is missing; the text names what to install.
        """
        limits = limits or TraceLimits()
        start = f"{process}-{os.getpid()}-{time.time_ns()}"
        self._writer = _Writer(_Target(_pyarrow(), folder, run_id, process, limits, clock(), start))
        self._block_rows = limits.block_rows
        self._clock = clock
        self._handed_over_s = clock()
        self._given_up: TraceEnd | None = None
        self._behind: TraceEnd | None = None
        self._skipped = self._lost = 0
        self._blocks: dict[type[msgspec.Struct], list[rows.Row]] = {kind: [] for kind in _KINDS}
        self.rows_total = self._writer.rows_total
        """Rows that were written, by table."""
        self._thread = threading.Thread(target=self._writer.run, name="trace", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> TraceEnd | None:
        """Set while nothing can be written: the rows since then are missing."""
        return self._writer.ended or self._behind or self._given_up

    @property
    def for_good(self) -> bool:
        """Whether it is not tried again."""
        return self._given_up is not None

    @property
    def missing_s(self) -> float:
        """Seconds up to now that are not in the trace; 0 while it is written."""
        ended = self.ended
        return 0.0 if ended is None else max(0.0, self._clock() - ended.complete_until_s)

    @property
    def missing_rows(self) -> int:
        """Rows that were recorded and are not in the trace."""
        return self._writer.lost + self._lost

    @property
    def deleted_bytes(self) -> int:
        """Of older files, deleted as there is a limit."""
        return self._writer.deleted_bytes

    def append(self, row: rows.Row) -> None:
        """Record a row; a full block is handed to the writer thread. Never waits, never fails."""
        kind = type(row)
        block = self._blocks[kind]
        block.append(row)
        if len(block) >= self._block_rows:
            self._hand_over(kind, block)

    def flush(self) -> None:
        """Hand over the rows so far; call it twice a second. Never waits, never fails."""
        for kind, block in self._blocks.items():
            self._hand_over(kind, block)
        if self._behind is None and self._given_up is None:
            self._handed_over_s = self._clock()

    def give_up(self, why: str) -> None:
        """End the trace: what was handed over is written, rows from now on are missing."""
        if self._given_up is None:
            self._given_up = TraceEnd(why, self._handed_over_s)
            self._writer.inbox.put(self._given_up)

    def close(self) -> None:
        """Write everything, finish the files and end the thread. Waits; a second call does nothing.

        Raises:
            TraceFailedError: what was recorded last is missing.
        """
        if self._thread.is_alive():
            for kind, block in self._blocks.items():
                if self._behind is None:
                    self._put(kind, block)
                else:
                    self._skip(block)
            self._blocks = {kind: [] for kind in _KINDS}
            if (gap := self._gap()) is not None:
                self._writer.inbox.put(gap)
            self._writer.inbox.put(None)
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                self.give_up("its disk takes nothing")
        if self.ended is not None:
            raise TraceFailedError(f"the trace stopped: {self.ended.why}")

    def _hand_over(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        self._blocks[kind] = []
        waiting = self._writer.inbox.qsize()
        if self._behind is None and waiting >= _BACKLOG_BLOCKS:
            self._behind = TraceEnd("its disk is too slow", self._handed_over_s)
        elif self._behind is not None and waiting < _BACKLOG_BLOCKS // 2:
            self._writer.inbox.put(self._gap())
            self._behind = None
        if self._behind is None:
            # An empty block is handed over too: it makes the thread check the age of its stream.
            self._put(kind, block)
        else:
            self._skip(block)

    def _gap(self) -> _Gap | None:
        """What was skipped while the disk was too slow, to be put into the trace."""
        if self._behind is None:
            return None
        skipped, self._skipped = self._skipped, 0
        return _Gap(self._behind.complete_until_s, self._clock(), skipped)

    def _skip(self, block: list[rows.Row]) -> None:
        self._skipped += len(block)
        self._lost += len(block)

    def _put(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        self._writer.inbox.put(_Block(kind, block, self._clock()))


def run_row(release: str, parameters: Mapping[str, object]) -> rows.RunRow:
    """The row that describes this process, with both its clocks at this instant.

    Args:
        release: see ``RunRow``.
        parameters: what is told of it, for JSON.
    """
    return rows.RunRow(
        schema_version=rows.SCHEMA_VERSION,
        monotonic_ns=time.monotonic_ns(),
        wall_ns=time.time_ns(),
        host=socket.gethostname(),
        product_version=metadata.version("kraft-bridge"),
        release=release,
        parameters=json.dumps(parameters),
    )


_KINDS: Final = tuple(rows.TABLE_OF)


def _pyarrow() -> Any:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet")
    except ImportError as missing:
        raise TraceUnavailableError(_MISSING) from missing
    # The first conversion imports pandas where it is installed: half a second, not in the loop.
    arrow.array([0])
    return arrow


@dataclass(frozen=True, slots=True)
class _Target:
    """The destination of a trace, and the modules to write it."""

    arrow: Any
    folder: Path
    run_id: str
    process: str
    limits: TraceLimits
    began_s: float
    start: str
    """Begins the names of all files: a process started again must not replace what it wrote."""


class _Block(NamedTuple):
    """Rows of one table, handed over at ``now`` (seconds)."""

    kind: type[msgspec.Struct]
    rows: list[rows.Row]
    now: float


class _Gap(NamedTuple):
    """Rows that are missing between two instants (seconds)."""

    since_s: float
    until_s: float
    rows: int


class _Writer:
    """The state of the thread: one open file per table."""

    def __init__(self, target: _Target) -> None:
        self.inbox: queue.SimpleQueue[_Block | _Gap | TraceEnd | None] = queue.SimpleQueue()
        """None ends it."""
        self.ended: TraceEnd | None = None
        """While nothing can be written."""
        self.lost = 0
        """Rows that were handed over and not written."""
        self.deleted_bytes = 0
        self.rows_total: dict[str, int] = dict.fromkeys(rows.TABLE_OF.values(), 0)
        self._target = target
        self._now = target.began_s
        self._tables = {kind: _Table(target, kind) for kind in _KINDS}
        self._runs: list[rows.Row] = []
        self._missing = 0
        """Of these, since it could not be written any more."""
        self._wait_s = _AGAIN_S
        self._again_s, self._went_on_s = target.began_s, float("-inf")
        self._for_good = False
        self._used = 0
        self._room_due_s = target.began_s

    def run(self) -> None:
        """Write blocks until the end."""
        self._attempt(self._create)
        while True:
            taken = self.inbox.get()
            if isinstance(taken, _Block):
                self._take(taken)
            elif isinstance(taken, _Gap):
                self._attempt(self._mark, taken)
                self._missing += taken.rows if self.ended is not None else 0
            elif taken is not None:
                for table in self._tables.values():
                    self._attempt(table.finish)
                self.ended, self._for_good = self.ended or taken, True
            else:
                break
        self._end()

    def _create(self) -> None:
        for table in self._tables.values():
            table.create()
        self._make_room()

    def _take(self, block: _Block) -> None:
        self._now = block.now
        if block.kind is rows.RunRow:
            self._runs += block.rows
        if self.ended is not None and not self._for_good and self._now >= self._again_s:
            self._go_on()
        if self.ended is None:
            self._attempt(self._tables[block.kind].add, block)
        if self.ended is not None:
            if block.kind is not rows.RunRow:
                self.lost += len(block.rows)
                self._missing += len(block.rows)
            return
        self.rows_total[rows.TABLE_OF[block.kind]] += len(block.rows)
        self._attempt(self._rotate, self._tables[block.kind])

    def _rotate(self, table: _Table) -> None:
        self._used += table.rotate()
        if self._target.limits.total_bytes and self._now >= self._room_due_s:
            streams = sum(one.stream_bytes for one in self._tables.values())
            if self._used + streams > self._target.limits.total_bytes:
                self._make_room()

    def _attempt(self, work: Callable[..., object], *arguments: object) -> None:
        if self.ended is None:
            try:
                work(*arguments)
            except Exception as failure:  # noqa: BLE001 - whatever it is, only the trace ends
                whole = min(table.whole_until_s for table in self._tables.values())
                soon = self._now - self._went_on_s < 2 * self._wait_s
                self._wait_s = min(2 * self._wait_s, _AGAIN_MAX_S) if soon else _AGAIN_S
                self._again_s = self._now + self._wait_s
                self._missing = 0
                # Last: other threads read it at any time.
                self.ended = TraceEnd(sentence(failure) or type(failure).__name__, whole)

    def _go_on(self) -> None:
        """Try again: finish what was open, and put into the trace how much is missing."""
        assert self.ended is not None
        gap = _Gap(self.ended.complete_until_s, self._now, self._missing)
        try:
            for table in self._tables.values():
                table.create()
                # What was removed with a stream is known by the numbers of later rows.
                with contextlib.suppress(FileNotFoundError):
                    self._used += table.finish()
            self._make_room()
            if not self._tables[rows.RunRow].is_there():
                self._tables[rows.RunRow].add(_Block(rows.RunRow, self._runs, self._now))
            self._mark(gap)
        except Exception:  # noqa: BLE001 - as above
            self._wait_s = min(2 * self._wait_s, _AGAIN_MAX_S)
            self._again_s = self._now + self._wait_s
            return
        for table in self._tables.values():
            table.whole_until_s = self._now
        self._went_on_s = self._now
        self.ended = None

    def _mark(self, gap: _Gap) -> None:
        found = {TRACE_MISSING_S: gap.until_s - gap.since_s}
        if gap.rows:
            found[TRACE_MISSING_ROWS] = float(gap.rows)
        self._gauges(found, gap.until_s)

    def _gauges(self, values: Mapping[Metric, float], now_s: float) -> None:
        made: list[rows.Row] = [
            rows.GaugeRow(int(now_s * 1e9), gauge.name, value) for gauge, value in values.items()
        ]
        self._tables[rows.GaugeRow].add(_Block(rows.GaugeRow, made, self._now))

    def _end(self) -> None:
        """The end of the process: what is missing by then, and that it has ended."""
        if self.ended is not None and not self._for_good:
            self._go_on()
        ended, self.ended = self.ended, None
        if ended is not None:
            self._attempt(self._mark, _Gap(ended.complete_until_s, self._now, self._missing))
        self._attempt(self._gauges, {TRACE_MISSING_ROWS: 0.0}, self._now)
        for table in self._tables.values():
            self._attempt(table.finish)
        self.ended = ended or self.ended
        for table in self._tables.values():
            table.discard()

    def _make_room(self) -> None:
        """Delete the oldest files if all together take more than they may.

        Raises:
            OSError: one cannot be deleted, so nothing more must be written.
        """
        limit = self._target.limits.total_bytes
        if not limit:
            return
        self._room_due_s = self._now + _AGAIN_S / 10
        found = _files(self._target)
        streams = sum(table.stream_bytes for table in self._tables.values())
        self._used = sum(one.bytes for one in found)
        if self._used + streams <= limit:
            return
        before = self._used
        for one in found:
            if self._used + streams <= limit - limit // 8:
                break
            if not (one.describes and one.start == self._target.start) and one.delete():
                self._used -= one.bytes
                with contextlib.suppress(OSError):  # others may be in it
                    one.path.parent.rmdir()
        if self._used < before:
            self.deleted_bytes += before - self._used
            self._gauges({TRACE_DELETED_BYTES: float(self.deleted_bytes)}, self._now)


@dataclass(slots=True)
class _File:
    """A finished file of the process, or a stream that it left when it was killed."""

    path: Path
    start: str
    number: int
    """Of its first row, or of the file; -1: it has no rows."""
    bytes: int
    until: float
    """When it was finished, or one with earlier rows of its table, if that was later."""

    @property
    def describes(self) -> bool:
        """Whether it is of no use without the others of its life, nor they without it."""
        return self.number < 0 or self.path.parent.parent.name == rows.TABLE_OF[rows.RunRow]

    def delete(self) -> bool:
        """Delete it, unless another process writes it."""
        try:
            with self.path.open("rb") as opened:
                if self.path.suffix == rows.STREAM:
                    fcntl.flock(opened.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.path.unlink()
        except BlockingIOError:
            return False
        except FileNotFoundError:
            pass
        return True


def _files(target: _Target) -> list[_File]:
    """All files of the process in the folder but its open streams, the oldest first.

    Clocks may be set back: rows of one table and life keep their order. What describes a life is
    as old as its newest rows.
    """
    name = re.compile(
        rf"_?({re.escape(target.process)}-\d+-\d+)-(\d+|empty)(\.parquet|{re.escape(rows.STREAM)})"
    )
    lives: defaultdict[str, list[_File]] = defaultdict(list)
    for folder in _run_folders(target.folder):
        for entry in os.scandir(folder):
            match = name.fullmatch(entry.name)
            if match is None or (entry.name.startswith("_") and match[1] == target.start):
                continue
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                number = -1 if match[2] == "empty" else int(match[2])
                one = _File(Path(entry.path), match[1], number, _taken(found), found.st_mtime)
                lives[match[1]].append(one)
    for life in lives.values():
        _put_in_order(life)
    every = (one for life in lives.values() for one in life)
    return sorted(every, key=_age)


def _age(one: _File) -> tuple[float, bool, int]:
    return one.until, one.describes, one.number


def _taken(found: os.stat_result) -> int:
    return max(found.st_size, found.st_blocks * 512)


def _run_folders(folder: Path) -> Iterator[Path]:
    for table in rows.TABLES:
        yield from (folder / table).glob(f"{rows.RUN_ID_COLUMN}=*")


def _put_in_order(life: list[_File]) -> None:
    until: defaultdict[Path, float] = defaultdict(float)
    for one in sorted(life, key=lambda one: one.number):
        if not one.describes:
            one.until = until[one.path.parent] = max(one.until, until[one.path.parent])
    for one in life:
        if one.describes:
            one.until = max(one.until, *until.values(), 0.0)


class _Table:
    """The streams of one table, one open at a time."""

    def __init__(self, target: _Target, kind: type[msgspec.Struct]) -> None:
        self._target = target
        self._arrow = target.arrow
        self._schema = arrow_schema(target.arrow, kind)
        self._header = self._schema.serialize()
        self._nested = [column.kind == "list" for column in rows.columns(kind)]
        self._folder = target.folder / rows.TABLE_OF[kind] / f"{rows.RUN_ID_COLUMN}={target.run_id}"
        self._rows = 0
        self._fd: int | None = None
        self._path = Path()
        self._opened = 0.0
        self.stream_bytes = self._stream_rows = 0
        self.whole_until_s = target.began_s
        """Rows that were handed over until then are in a stream or in Parquet."""

    def create(self) -> None:
        """Leave a file without rows, so that a reader finds every table from the start."""
        # Only now: with a folder that is removed later what was written before is gone.
        self._folder.mkdir(parents=True, exist_ok=True)
        empty = self._folder / f"{self._target.start}-empty.parquet"
        if not empty.exists():
            _write_parquet(self._arrow, self._schema.empty_table(), empty)

    def is_there(self) -> bool:
        """Whether its folder holds any rows."""
        files = self._folder.glob(f"{glob.escape(self._target.start)}-[0-9]*.parquet")
        return self._fd is not None or any(files)

    def add(self, block: _Block) -> None:
        """Append a block to the stream."""
        if block.rows:
            if self._fd is None:
                self._open(block.now)
            self._write(self._message(self._columns(block.rows)))
            self._stream_rows += len(block.rows)
        self.whole_until_s = block.now

    def rotate(self) -> int:
        """Finish the stream if it is old or long enough; the bytes of the file.

        Raises:
            FileNotFoundError: the stream has been removed.
        """
        limits = self._target.limits
        if self._fd is not None and (
            self.stream_bytes >= limits.stream_bytes
            or self.whole_until_s - self._opened >= limits.file_seconds
            or not os.fstat(self._fd).st_nlink
        ):
            return self.finish()
        return 0

    def finish(self) -> int:
        """Write the open stream again as Parquet, and remove it; the bytes of the file.

        Raises:
            FileNotFoundError: the stream has been removed, and the rows in it are missing.
        """
        if self._fd is None:
            return 0
        made = rows.parquet_of(self._path)
        try:
            count = stream_to_parquet(self._path, made)
            self._path.unlink()
        except FileNotFoundError:
            # Later files have the numbers of later rows: these are known to be missing.
            self._rows += self._stream_rows
            self._close()
            raise
        self._rows += self._stream_rows
        self._close()
        with contextlib.suppress(FileNotFoundError):  # it may have been put together with others
            return _taken(made.stat()) if count else 0
        return 0

    def discard(self) -> None:
        """Write no more: a stream stays as it is, but not one without rows."""
        if self._fd is not None and not self._stream_rows:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._close()

    def _open(self, now: float) -> None:
        self._path = self._folder / f"_{self._target.start}-{self._rows:012d}{rows.STREAM}"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.stream_bytes = self._stream_rows = 0
        self._opened = now
        # A file system without locks: nobody can see that this process lives.
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(self._header)

    def _write(self, message: Any) -> None:
        """One message of the stream, all of it or nothing."""
        assert self._fd is not None
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.stream_bytes)
            raise
        self.stream_bytes += len(memoryview(message))

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        self.stream_bytes = self._stream_rows = 0
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _message(self, batch: Any) -> Any:
        """A block of the stream, with its checksum."""
        sink = self._arrow.BufferOutputStream()
        with self._arrow.ipc.new_stream(sink, self._schema) as stream:
            stream.write_batch(batch, custom_metadata=rows.checksum(self._schema, batch))
            end = sink.tell()
        # Without the schema before it, and the end of a stream behind it.
        return sink.getvalue()[self._header.size : end]

    def _columns(self, block: list[rows.Row]) -> Any:
        # zip over tuples turns rows into columns in C: 0.2 us a row.
        values = zip(*map(msgspec.structs.astuple, block), strict=True)
        arrays = [
            self._arrow.array(
                msgspec.to_builtins(column) if nested else column, self._schema.field(index).type
            )
            for index, (column, nested) in enumerate(zip(values, self._nested, strict=True))
        ]
        arrays.append(self._arrow.repeat(self._target.process, len(block)))
        return self._arrow.record_batch(arrays, schema=self._schema)


# Streams: what a process that was killed, or that still lives, has not written as Parquet.


def stream_to_parquet(stream: Path, parquet: Path) -> int:
    """Write the whole blocks of a stream as Parquet; the stream stays.

    Its end may be cut anywhere, and it may grow meanwhile.

    Args:
        stream: as this module writes it.
        parquet: takes the rows, at once; no file is made of a stream without rows.

    Returns:
        How many rows.

    Raises:
        OSError: the stream cannot be read, or the file not be written.
        TraceUnavailableError: pyarrow is missing.
    """
    arrow = _pyarrow()
    with arrow.OSFile(str(stream), "rb") as source:
        batches, _ = rows.whole_blocks(arrow, source)
    if not batches:
        return 0
    table = arrow.Table.from_batches(batches)
    _write_parquet(arrow, table, parquet)
    return int(table.num_rows)


def _write_parquet(arrow: Any, table: Any, path: Path) -> None:
    """Write a file, make it durable, and only then give it its name."""
    made = path.with_name(f"_{path.name}")
    try:
        arrow.parquet.write_table(
            table, made, row_group_size=_ROW_GROUP_ROWS, compression="zstd", use_dictionary=True
        )
        with made.open("rb") as written:
            os.fsync(written.fileno())
        made.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            made.unlink()
        raise
