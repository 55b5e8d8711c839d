"""Trace rows to Parquet, off the hot path.

``append`` only puts a row into a list. A full block, or the rows since the last ``flush``, goes to
a writer thread, which turns rows into columns and columns into Parquet:
``<folder>/<table>/run_id=<run>/<process>-….parquet``, zstd, strings dictionary-encoded, the
schema's version in the file's metadata.

A Parquet file can be read only when its footer is written. So a file is written under a name
starting with ``_`` (Spark and pyarrow skip such names), finished after ``file_seconds`` or
``file_rows``, fsynced, and only then renamed. A crash at any time leaves complete files and loses
the rows of at most ``file_seconds`` and one interval of ``flush``.

A trace only observes: if it cannot be written, it ends, and the process goes on. Rows after that
are not kept; files that are not finished are removed. How much is missing is put into the
trace as a gauge (``TRACE_MISSING_S``) as soon as its disk takes that, and once more at the end.
"""

from __future__ import annotations

import contextlib
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
from emulator.trace.metrics import TRACE_MISSING_S
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
    """When blocks and files are finished."""

    block_rows: int = 1024
    """Rows made into columns at a time: 1 ms with the interpreter held; a step may take 5."""
    file_rows: int = 4_000_000
    file_seconds: float = 15.0


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
            limits: when blocks and files are cut.
            clock: seconds, monotonic; for the age of files.

        Raises:
            TraceUnavailableError: pyarrow is missing; the text names what to install.
        """
        limits = limits or TraceLimits()
        self._writer = _Writer(_Target(_pyarrow(), folder, run_id, process, limits, clock()))
        self._block_rows = limits.block_rows
        self._clock = clock
        self._handed_over_s = clock()
        self._given_up: TraceEnd | None = None
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

    def append(self, row: rows.Row) -> None:
        """Record a row; a full block is handed to the writer thread. Never waits, never fails."""
        kind = type(row)
        block = self._blocks[kind]
        block.append(row)
        if len(block) >= self._block_rows:
            self._hand_over(kind, block)

    def flush(self) -> None:
        """Hand over the rows so far; call it about once a second. Never waits, never fails."""
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
            self._writer.inbox.put(None)
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                self.give_up("its disk takes nothing")
        if self.ended is not None:
            raise TraceFailedError(f"the trace stopped: {self.ended.why}")

    def _hand_over(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        self._blocks[kind] = []
        if self._writer.inbox.qsize() >= _BACKLOG_BLOCKS:
            self.give_up("its disk is too slow")
        else:
            # An empty block is handed over too: it makes the thread check the age of its file.
            self._put(kind, block)

    def _put(self, kind: type[msgspec.Struct], block: list[rows.Row]) -> None:
        kept = [] if self.ended else block
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


class _Block(NamedTuple):
    """Rows of one table, handed over at ``now`` (seconds)."""

    kind: type[msgspec.Struct]
    rows: list[rows.Row]
    now: float


class _Writer:
    """The state of the thread: one open file per table."""

    def __init__(self, target: _Target) -> None:
        self.inbox: queue.SimpleQueue[_Block | TraceEnd | None] = queue.SimpleQueue()
        self.ended: TraceEnd | None = None
        self._target = target
        self._now = target.began_s
        self._mark_due = 0.0
        self._tables = {kind: _Table(target, kind) for kind in _KINDS}

    def run(self) -> None:
        """Write blocks until the end; after a failure only how much is missing."""
        for table in self._tables.values():
            self._attempt(table.create)
        while (taken := self.inbox.get()) is not None:
            if isinstance(taken, TraceEnd):
                self._finish()
                self.ended = self.ended or taken
                continue
            self._now = taken.now
            self._attempt(self._tables[taken.kind].add, taken)
            if self.ended is not None and self._now >= self._mark_due:
                self._mark()
        self._finish()
        if self.ended is not None:
            self._mark()

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

    def _mark(self) -> None:
        """Write into the trace what is missing by now, if its disk takes that."""
        assert self.ended is not None
        missing_s = self._now - self.ended.complete_until_s
        row = rows.GaugeRow(int(self._now * 1e9), TRACE_MISSING_S.name, missing_s)
        gauges = self._tables[rows.GaugeRow]
        try:
            gauges.add(_Block(rows.GaugeRow, [row], self._now))
            gauges.finish()
            self._mark_due = float("inf")
        except Exception:  # noqa: BLE001 - as above
            gauges.discard()
            self._mark_due = self._now + _MARK_AGAIN_S


class _Table:
    """The files of one table, one open at a time."""

    def __init__(self, target: _Target, kind: type[msgspec.Struct]) -> None:
        self._target = target
        self._arrow = target.arrow
        self._schema = arrow_schema(target.arrow, kind)
        self._nested = [column.kind == "list" for column in rows.columns(kind)]
        self._folder = target.folder / rows.TABLE_OF[kind] / f"{rows.RUN_ID_COLUMN}={target.run_id}"
        # A process started again in the same run must not replace what it wrote before.
        self._start = f"{target.process}-{os.getpid()}-{time.time_ns()}"
        self._files = 0
        self._file: Any = None
        self._path = Path()
        self._opened = 0.0
        self._batches: list[Any] = []
        self._batch_rows = self._file_rows = 0
        self.whole_until_s = self._seen_until_s = target.began_s
        """Rows that were handed over until then are in finished files."""

    def create(self) -> None:
        """Leave a file without rows, so that a reader finds every table from the start."""
        # Only now: with a folder that is removed later what was written before is gone.
        self._folder.mkdir(parents=True, exist_ok=True)
        self._open(0.0)
        self.finish()

    def add(self, block: _Block) -> None:
        """Add a block; finish the file when it is old or long enough."""
        if block.rows:
            if self._file is None:
                self._open(block.now)
            self._batches.append(self._columns(block.rows))
            self._batch_rows += len(block.rows)
            self._file_rows += len(block.rows)
            if self._batch_rows >= _ROW_GROUP_ROWS:
                self._write_group()
        self._seen_until_s = block.now
        limits = self._target.limits
        if self._file is None:
            self.whole_until_s = block.now
        elif self._file_rows >= limits.file_rows or block.now - self._opened >= limits.file_seconds:
            self.finish()

    def finish(self) -> None:
        """Finish the open file, make it durable, rename it."""
        if self._file is None:
            return
        self._write_group()
        self._file.close()
        self._file = None
        with self._path.open("rb") as written:
            os.fsync(written.fileno())
        self._path.rename(self._path.with_name(self._path.name.removeprefix("_")))
        self._file_rows = 0
        self.whole_until_s = self._seen_until_s

    def discard(self) -> None:
        """Give up the open file: it cannot be read, and a full disk needs its room."""
        file, self._file = self._file, None
        self._batches, self._batch_rows, self._file_rows = [], 0, 0
        if file is not None:
            with contextlib.suppress(Exception):
                file.close()
            file.is_open = False  # else it tries once more when it is collected, and says so
            with contextlib.suppress(Exception):
                file.file_handle.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _open(self, now: float) -> None:
        self._path = self._folder / f"_{self._start}-{self._files:05d}.parquet"
        self._files += 1
        self._file = self._arrow.parquet.ParquetWriter(
            self._path, self._schema, compression="zstd", use_dictionary=True
        )
        self._opened = now

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

    def _write_group(self) -> None:
        if self._batches:
            self._file.write_table(self._arrow.Table.from_batches(self._batches))
            self._batches, self._batch_rows = [], 0
