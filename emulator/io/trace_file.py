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

A trace only observes: if it cannot be written, it ends, and the process goes on. Rows after that
are not kept; streams stay as they are. How much is missing is put into the trace as gauges
(``TRACE_MISSING_ROWS``, ``TRACE_MISSING_S``) as soon as its disk takes that, and at the end. The
first one is the last row of a whole trace too, as 0: one without it was cut, or is still written.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from emulator.config.extras import install
from emulator.io.printable import sentence
from emulator.trace import rows
from emulator.trace.metrics import TRACE_MISSING_ROWS, TRACE_MISSING_S
from emulator.trace.rows import arrow_schema

_ROW_GROUP_ROWS: Final = 65_536
_BACKLOG_BLOCKS: Final = 2_000
_CLOSE_S: Final = 30.0
"""How long the end waits for a disk that takes nothing."""
_MARK_AGAIN_S: Final = 10.0
_MISSING: Final = f"writing a trace needs pyarrow; {install('spark')}"


class TraceUnavailableError(Exception):
    """There can be no trace: pyarrow is not installed, or the place cannot be written."""


class TraceFailedError(OSError):
    """A block could not be written; recording has ended."""


class TraceEnd(NamedTuple):
    """Why a trace ended before its process, and until when it is complete (``TraceFile.clock``)."""

    why: str
    complete_until_s: float


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """When blocks and streams are finished."""

    block_rows: int = 1024
    """Rows made into columns at a time: 1 ms with the interpreter held; a step may take 5."""
    file_bytes: int = 64 << 20
    file_seconds: float = 60.0


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
        self._lost = 0
        self._blocks: dict[type[msgspec.Struct], list[rows.Row]] = {kind: [] for kind in _KINDS}
        self.rows_total: dict[str, int] = dict.fromkeys(rows.TABLE_OF.values(), 0)
        """Rows handed to the writer thread, by table."""
        self._thread = threading.Thread(target=self._writer.run, name="trace", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> TraceEnd | None:
        """Set once something could not be written: the rows since then are missing."""
        return self._writer.ended or self._given_up

    @property
    def missing_s(self) -> float:
        """Seconds up to now that are not in the trace; 0 while it is written."""
        ended = self.ended
        return 0.0 if ended is None else max(0.0, self._clock() - ended.complete_until_s)

    @property
    def missing_rows(self) -> int:
        """Rows that were recorded and are not in the trace."""
        return self._writer.lost + self._lost

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
        if not self._given_up:
            self._handed_over_s = self._clock()

    def give_up(self, why: str) -> None:
        """End the trace: what was handed over is written, rows from now on are missing."""
        if self.ended is None:
            self._given_up = TraceEnd(why, self._handed_over_s)
            self._writer.inbox.put(self._given_up)

    def close(self) -> None:
        """Write everything, finish the files and end the thread. Waits; a second call does nothing.

        Raises:
            TraceFailedError: the trace ended before.
        """
        if self._thread.is_alive():
            for kind, block in self._blocks.items():
                self._put(kind, block)
            self._blocks = {kind: [] for kind in _KINDS}
            self._writer.inbox.put(self._lost)
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                self.give_up("its disk takes nothing")
        if self.ended is not None:
            raise TraceFailedError(f"the trace stopped: {self.ended.why}")

    def _hand_over(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        self._blocks[kind] = []
        if self._writer.inbox.qsize() >= _BACKLOG_BLOCKS:
            self.give_up("its disk is too slow")
            self._lost += len(block)
        else:
            # An empty block is handed over too: it makes the thread check the age of its stream.
            self._put(kind, block)

    def _put(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        kept = [] if self.ended else block
        self._lost += len(block) - len(kept)
        self._writer.inbox.put(_Block(kind, kept, self._clock()))
        self.rows_total[rows.TABLE_OF[kind]] += len(kept)


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


class _Writer:
    """The state of the thread: one open file per table."""

    def __init__(self, target: _Target) -> None:
        self.inbox: queue.SimpleQueue[_Block | TraceEnd | int] = queue.SimpleQueue()
        """The last thing in it is a number: of the rows that were not handed over."""
        self.ended: TraceEnd | None = None
        self.lost = 0
        """Rows that were handed over and not written."""
        self._target = target
        self._now = target.began_s
        self._mark_due = 0.0
        self._tables = {kind: _Table(target, kind) for kind in _KINDS}

    def run(self) -> None:
        """Write blocks until the end; after a failure only how much is missing."""
        for table in self._tables.values():
            self._attempt(table.create)
        while not isinstance(taken := self.inbox.get(), int):
            if isinstance(taken, TraceEnd):
                self._finish()
                self.ended = self.ended or taken
                continue
            self._now = taken.now
            self._attempt(self._tables[taken.kind].add, taken)
            if self.ended is None:
                self._attempt(self._tables[taken.kind].rotate)
                continue
            self.lost += len(taken.rows)
            if self._now >= self._mark_due:
                self._mark(self.lost)
        if self.ended is None:
            end = rows.GaugeRow(int(self._now * 1e9), TRACE_MISSING_ROWS.name, 0.0)
            self._attempt(self._tables[rows.GaugeRow].add, _Block(rows.GaugeRow, [end], self._now))
        self._finish()
        if self.ended is not None:
            self._mark(self.lost + taken)

    def _finish(self) -> None:
        for table in self._tables.values():
            self._attempt(table.finish)

    def _attempt(self, work: Callable[..., None], *arguments: object) -> None:
        if self.ended is None:
            try:
                work(*arguments)
            except Exception as failure:  # noqa: BLE001 - whatever it is, only the trace ends
                whole = min(table.whole_until_s for table in self._tables.values())
                for table in self._tables.values():
                    table.discard()
                # Last: other threads read it at any time.
                self.ended = TraceEnd(sentence(failure) or type(failure).__name__, whole)

    def _mark(self, lost: int) -> None:
        """Write into the trace what is missing by now, if its disk takes that."""
        assert self.ended is not None
        found = {
            TRACE_MISSING_ROWS: float(lost),
            TRACE_MISSING_S: self._now - self.ended.complete_until_s,
        }
        marks: list[rows.Row] = [
            rows.GaugeRow(int(self._now * 1e9), one.name, value) for one, value in found.items()
        ]
        gauges = self._tables[rows.GaugeRow]
        try:
            gauges.add(_Block(rows.GaugeRow, marks, self._now))
            gauges.finish()
            self._mark_due = float("inf")
        except Exception:  # noqa: BLE001 - as above
            gauges.discard()
            self._mark_due = self._now + _MARK_AGAIN_S


class _Table:
    """The streams of one table, one open at a time."""

    def __init__(self, target: _Target, kind: type[msgspec.Struct]) -> None:
        self._target = target
        self._arrow = target.arrow
        self._schema = arrow_schema(target.arrow, kind)
        self._nested = [column.kind == "list" for column in rows.columns(kind)]
        self._folder = target.folder / rows.TABLE_OF[kind] / f"{rows.RUN_ID_COLUMN}={target.run_id}"
        self._rows = 0
        self._fd: int | None = None
        self._path = Path()
        self._opened = 0.0
        self._stream_bytes = self._stream_rows = 0
        self.whole_until_s = target.began_s
        """Rows that were handed over until then are in a stream or in Parquet."""

    def create(self) -> None:
        """Leave a file without rows, so that a reader finds every table from the start."""
        # Only now: with a folder that is removed later what was written before is gone.
        self._folder.mkdir(parents=True, exist_ok=True)
        _write_parquet(
            self._arrow,
            self._schema.empty_table(),
            self._folder / f"{self._target.start}-empty.parquet",
        )

    def add(self, block: _Block) -> None:
        """Append a block to the stream."""
        if block.rows:
            if self._fd is None:
                self._open(block.now)
            self._write(self._columns(block.rows).serialize())
            self._stream_rows += len(block.rows)
        self.whole_until_s = block.now

    def rotate(self) -> None:
        """Finish the stream if it is old or long enough."""
        limits = self._target.limits
        if self._fd is not None and (
            self._stream_bytes >= limits.file_bytes
            or self.whole_until_s - self._opened >= limits.file_seconds
        ):
            self.finish()

    def finish(self) -> None:
        """Write the open stream again as Parquet, and remove it."""
        if self._fd is None:
            return
        stream_to_parquet(self._path, rows.parquet_of(self._path))
        self._path.unlink()
        self._rows += self._stream_rows
        self._close()

    def discard(self) -> None:
        """Write no more: a stream stays as it is, but not one without rows."""
        if self._fd is not None and not self._stream_rows:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._close()

    def _open(self, now: float) -> None:
        self._path = self._folder / f"_{self._target.start}-{self._rows:012d}{rows.STREAM}"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._stream_bytes = self._stream_rows = 0
        self._opened = now
        # A file system without locks: nobody can see that this process lives.
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(self._schema.serialize())

    def _write(self, message: Any) -> None:
        """One message of the stream, all of it or nothing."""
        assert self._fd is not None
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._stream_bytes)
            raise
        self._stream_bytes += len(memoryview(message))

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        self._stream_bytes = self._stream_rows = 0
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

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
    batches = []
    with arrow.OSFile(str(stream), "rb") as source:
        try:
            for batch in arrow.ipc.open_stream(source):
                batch.validate(full=True)
                batches.append(batch)
        except arrow.ArrowException:
            pass
        except OSError as error:
            # A body that is cut is an error of the system without a number.
            if error.errno is not None:
                raise
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
