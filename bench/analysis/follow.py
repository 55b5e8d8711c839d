"""A trace analysed while it grows: looks copy its new rows, the job runs over the copy.

Looks go on in a thread of their own while the job runs: a trace with a limit deletes its oldest
files, and what is in them must be copied before. Spark reads the copy (`bench.analysis.mirror`), in
which no file changes while the job runs. The whole job runs again whenever the trace has grown by
half, and at the end; so all runs together cost a few times what the last one does. Rows may come
late and in any order: nothing is dropped for its age.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from bench.analysis.lives import named_lives
from bench.analysis.mirror import Folder, Mirror, Source, life_of, run_id_of
from bench.analysis.read import TraceError, read
from bench.analysis.store import Store
from bench.analysis.tails import folder_of
from emulator.trace import rows

GROWTH: Final = 1.5
"""The whole job runs again when there are so many times the rows of its last run."""
LOST: Final = "run_id string, process string, table string, missing_rows long"
"""Files that were seen and could not be read, see `bench.analysis.whole.missing`."""
_ROWS, _STREAMS, _OF = "rows", "streams", "trace.txt"
_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Live:
    """What is known without running the job; times in ms.

    ``lag_records``: committed less acknowledged, of the rows so far; None before there is both.
    ``unread``: files that were seen and could not be read, and why.
    """

    rows: int
    processes: int
    requests: int
    errors: int
    blocked_operations: int
    blocked_total_ms: float
    lag_records: int | None
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line."""
        lag = "-" if self.lag_records is None else f"{self.lag_records:,}"
        more = f" and {len(self.unread) - 1:,} more" if len(self.unread) > 1 else ""
        return (
            f"{_several(self.rows, 'row')} of {_several(self.processes, 'process', 'processes')}: "
            f"{_several(self.requests, 'request')}, {self.errors:,} with an error; "
            f"{_several(self.blocked_operations, 'operation')} waited for ZooKeeper, "
            f"{self.blocked_total_ms:,.0f} ms summed; {lag} records behind"
            + (f"; {self.unread[0]}{more}" if self.unread else "")
        )


class Idle:
    """Over when no row has come for a time; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._rows = -1
        self._since = 0.0

    def __call__(self, live: Live) -> bool:
        """Whether it is over, by a new state."""
        now = time.monotonic()
        if live.rows != self._rows:
            self._rows, self._since = live.rows, now
        return self._seconds is not None and now - self._since >= self._seconds


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that the first SIGINT sets; the second one raises KeyboardInterrupt.

    pyspark's own handler calls Java even while another call to Java is under way. Only the main
    thread may use this.
    """
    stop = threading.Event()

    def handle(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class Follower:
    """Follows one trace into one folder; a new one goes on where the last one stopped."""

    def __init__(
        self, spark: SparkSession, trace: str, out: str, shared: str | None = None
    ) -> None:
        """Take up what was read before.

        Args:
            spark: a classic session.
            trace: URI or path of the trace's folder.
            out: path of a folder for the copy of its rows; of this trace only.
            shared: URI of a folder that all workers see, for the same rows; None: they see ``out``.

        Raises:
            TraceError: another trace was followed into that folder.
            OSError: the folder cannot be written.
        """
        self._spark = spark
        self._out = Path(out)
        _check_same(self._out, trace)
        self._sums = Sums()
        self._lock = threading.Lock()
        self._mirror = Mirror(self._source(trace), self._out / _ROWS, self._sums.add)
        self._shared = None if shared is None else Store(spark, shared, self._out)

    def _source(self, trace: str) -> Source:
        folder = folder_of(trace)
        pattern = folder is not None and any(mark in trace for mark in "*?[{")
        if folder is None or (pattern and not folder.exists()):
            return Store(self._spark, trace, self._out)
        return Folder(folder)

    def look(self) -> Live:
        """Copy what is new; the sums of all that was copied.

        Raises:
            OSError: the trace cannot be listed, or the copy not be written.
        """
        with self._lock:
            self._mirror.take()
            unread = self._mirror.unread.items()
            return self._sums.live(
                tuple(sorted(f"{'/'.join(key)} {one.why}" for key, one in unread))
            )

    def tables(self) -> dict[str, DataFrame]:
        """The tables of all rows so far; rows that come later change nothing in them.

        Returns:
            as `bench.analysis.read.read`, and ``lost``: columns ``LOST``.

        Raises:
            TraceError: as ``read``.
            OSError: as ``look``.
        """
        with self._lock:
            self._mirror.take()
            self._mirror.seal()
            lost = self._lost()
        place = str(self._mirror.folder)
        if self._shared is not None:
            place = self._shared.put_all(self._mirror.folder)
        found = read(self._spark, place, self._out / _STREAMS)
        return {**found, "lost": self._spark.createDataFrame(lost, LOST)}

    def _lost(self) -> list[tuple[str, str, str, int | None]]:
        lives = named_lives(
            Path(found.place).as_uri() for found in Folder(self._mirror.folder).files()
        )
        made = []
        for table, run, name, count in self._mirror.lost():
            life = life_of(name) or name
            process = lives.get(life, life.rsplit("-", 2)[0])
            made.append((run_id_of(run), process, table, count))
        return made

    def run_until(
        self,
        over: Callable[[Live], bool],
        job: Callable[[dict[str, DataFrame]], None],
        on_state: Callable[[Live], None],
        every_s: float,
        stop: threading.Event,
    ) -> None:
        """Follow until ``over`` or ``stop``, then run the job over everything.

        Args:
            over: asked after each look.
            job: what to run over the tables.
            on_state: called with each new state, from another thread.
            every_s: seconds between two looks.
            stop: set from elsewhere, it ends the wait for the next look too.
        """
        looks = _Looks(self.look, over, on_state, every_s)
        done = 0
        looks.start()
        try:
            while not (stop.wait(_AGAIN_S) or looks.ended.is_set()):
                if looks.rows > GROWTH * done:
                    done = looks.rows
                    job(self.tables())
        finally:
            looks.stop()
        if looks.failed is not None:
            raise looks.failed
        job(self.tables())


class _Looks(threading.Thread):
    """Looks, one after the other."""

    def __init__(
        self,
        look: Callable[[], Live],
        over: Callable[[Live], bool],
        on_state: Callable[[Live], None],
        every_s: float,
    ) -> None:
        super().__init__(name="looks", daemon=True)
        self.ended = threading.Event()
        """No look comes any more."""
        self.failed: Exception | None = None
        self.rows = 0
        """By the last look."""
        self._look = look
        self._over = over
        self._on_state = on_state
        self._every_s = every_s

    def run(self) -> None:
        """Look until it is over."""
        try:
            while not self.ended.is_set():
                live = self._look()
                self._on_state(live)
                self.rows = live.rows
                if self._over(live) or self.ended.wait(self._every_s):
                    break
        except Exception as error:  # noqa: BLE001 - raised where the result is waited for
            self.failed = error
        self.ended.set()

    def stop(self) -> None:
        """End it; returns when it has ended."""
        self.ended.set()
        self.join()


@dataclass(slots=True)
class Sums:
    """Sums over the rows of all processes and tables; its size grows with the processes only."""

    rows: int = 0
    requests: int = 0
    errors: int = 0
    blocked_operations: int = 0
    blocked_total_ms: float = 0.0
    offsets: dict[tuple[str, str], dict[str, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By run and process: the greatest offset that reached a stage."""

    def add(self, table: str, run_id: str, new: pa.Table) -> None:
        """Add rows of a table."""
        self.rows += new.num_rows
        for process in pc.unique(_column(new, rows.PROCESS_COLUMN)).to_pylist():
            self.offsets[run_id, str(process)]  # enters a process that is new
        if table == "requests":
            received = pc.is_valid(_column(new, "received_ns"))
            wrong = pc.not_equal(pc.fill_null(_column(new, "error_code"), 0), 0)
            self.requests += _sum(received)
            self.errors += _sum(pc.and_(received, wrong))
        elif table == "blocks":
            self.blocked_operations += new.num_rows
            waited = pc.subtract(_column(new, "end_ns"), _column(new, "begin_ns"))
            self.blocked_total_ms += (pc.sum(waited).as_py() or 0) / 1e6
        elif table == "ranges":
            self._reached(run_id, new)

    def _reached(self, run_id: str, new: pa.Table) -> None:
        keys = [rows.PROCESS_COLUMN, "stage"]
        of = pa.table({name: _column(new, name) for name in (*keys, "last_offset")})
        for row in of.group_by(keys).aggregate([("last_offset", "max")]).to_pylist():
            known = self.offsets[run_id, str(row[rows.PROCESS_COLUMN])]
            known[row["stage"]] = max(known.get(row["stage"], -1), row["last_offset_max"] or -1)

    def live(self, unread: tuple[str, ...] = ()) -> Live:
        """All of them."""
        behind = [
            max(0, known.get(rows.PipelineStage.COMMITTED, -1) - known[rows.PipelineStage.ZK_ACKED])
            for known in self.offsets.values()
            if rows.PipelineStage.ZK_ACKED in known
        ]
        return Live(
            self.rows,
            len(self.offsets),
            self.requests,
            self.errors,
            self.blocked_operations,
            self.blocked_total_ms,
            max(behind, default=None),
            unread,
        )


def _several(count: int, noun: str, plural: str = "") -> str:
    # Not `emulator.config.words`: an analysis shares no code with what it judges.
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _column(table: pa.Table, name: str) -> Any:
    return table[name] if name in table.column_names else pa.nulls(table.num_rows, pa.int64())


def _sum(truths: Any) -> int:
    return int(pc.sum(truths).as_py() or 0)


def _check_same(out: Path, trace: str) -> None:
    """See that a folder is of this trace, and say so there.

    Raises:
        TraceError: it is of another.
    """
    place = trace if "://" in trace else str(Path(trace).absolute())
    out.mkdir(parents=True, exist_ok=True)
    of = out / _OF
    before = of.read_text(encoding="utf-8") if of.exists() else place
    if before != place:
        raise TraceError(f"{out} holds what was read of {before}: give another --out")
    of.write_text(place, encoding="utf-8")
