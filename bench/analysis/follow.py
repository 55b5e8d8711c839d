"""A trace analysed while it grows: Structured Streaming finds its new files, each exactly once.

One query a table reads files as they are finished. Its checkpoint and a ledger beside it (which
files came with which micro-batch) survive a restart; a micro-batch that is repeated replaces what
it wrote before. Each leaves a row a process of sums, from which the live line is made. The whole
job runs over the files of the ledger: at the end, and whenever the trace has grown by half, so that
all runs together cost a few times what the last one does. Files may come late and in any order:
nothing is dropped for its age.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses
from pyspark.sql.streaming.query import StreamingQuery

from bench.analysis.quantiles import ms
from bench.analysis.read import opened
from bench.analysis.schema import KEYS, struct_type
from bench.analysis.tails import Tails
from emulator.trace import rows

GROWTH: Final = 1.5
"""The whole job runs again when there are so many times the rows of its last run."""
_FOREVER: Final = "36500d"
_FILE: Final = "_file"
_SUMS: Final = (
    f"run_id string, process string, {_FILE} string, rows long, requests long, errors long, "
    "blocked_operations long, blocked_total_ms double, committed long, acked long"
)


@dataclass(frozen=True, slots=True)
class Live:
    """What is known without running the job; times in ms.

    ``lag_records``: committed less acknowledged, of the files so far; None before there is both.
    """

    rows: int
    files: int
    requests: int
    errors: int
    blocked_operations: int
    blocked_total_ms: float
    lag_records: int | None

    def __str__(self) -> str:
        """One line."""
        lag = "-" if self.lag_records is None else f"{self.lag_records:,}"
        return (
            f"{self.rows:,} rows in {self.files:,} files: {self.requests:,} requests, "
            f"{self.errors:,} with an error; {self.blocked_operations:,} operations waited for "
            f"ZooKeeper, {self.blocked_total_ms:,.0f} ms summed; {lag} records behind"
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

    def __init__(self, spark: SparkSession, trace: str, out: str) -> None:
        """Start a query for each table.

        Args:
            spark: a classic session; the queries call back into this process.
            trace: URI or path of the trace's folder, as Spark sees it.
            out: path for checkpoints, ledger, sums and copies of streams; of this trace only.

        Raises:
            AnalysisException: the trace has no folders of tables yet.
        """
        self._spark = spark
        self._trace = trace.rstrip("/")
        self._out = out.rstrip("/")
        self._streams = Path(self._out, "streams")
        self._rows_of_last_run = 0
        self._lock = threading.Lock()  # queries call back from threads of their own
        self._seen: dict[tuple[str, str, str, str], Row] = {}
        for name in rows.TABLES:
            self._recall(name)
        self._queries = [self._query(name) for name in rows.TABLES]

    def _query(self, name: str) -> StreamingQuery:
        found = (
            self._spark.readStream.schema(struct_type(rows.TABLES[name]))
            # The age of files is that of the newest one: late ones must not be left out for it.
            .option("maxFileAge", _FOREVER)
            .parquet(f"{self._trace}/{name}")
            .select("*", F.col("_metadata.file_path").alias(_FILE))
        )

        def take(batch: DataFrame, number: int) -> None:
            sums = file_sums(batch).collect()
            kept = self._spark.createDataFrame(sums, _SUMS).coalesce(1)
            kept.write.parquet(f"{self._out}/ledger/{name}/batch={number}", "overwrite")
            self._add(name, sums)

        return (
            found.writeStream.foreachBatch(take)
            .option("checkpointLocation", f"{self._out}/checkpoint/{name}")
            .trigger(processingTime="1 second")
            .start()
        )

    def _add(self, name: str, sums: Iterable[Row]) -> None:
        with self._lock:
            self._seen |= {(name, row[_FILE], row["run_id"], row["process"]): row for row in sums}

    def _recall(self, name: str) -> None:
        """What the ledger holds of a table from before a restart."""
        try:
            kept = self._spark.read.schema(_SUMS).parquet(f"{self._out}/ledger/{name}").collect()
        except AnalysisException:  # no micro-batch of it has ended yet
            return
        self._add(name, kept)

    def catch_up(self) -> None:
        """Wait until the files that are there now are in the ledger.

        Raises:
            StreamingQueryException: a query has failed.
        """
        for query in self._queries:
            query.processAllAvailable()

    def live(self) -> Live:
        """The sums so far."""
        with self._lock:
            seen = dict(self._seen)
        behind = []
        for process in {key[2:] for key in seen}:
            of_process = [row for key, row in seen.items() if key[2:] == process]
            committed = max((row["committed"] or -1 for row in of_process), default=-1)
            acked = [row["acked"] for row in of_process if row["acked"] is not None]
            behind += [max(0, committed - max(acked))] if acked else []
        total = {
            name: sum(row[name] for row in seen.values())
            for name in ("rows", "requests", "errors", "blocked_operations", "blocked_total_ms")
        }
        return Live(
            files=len({key[:2] for key in seen}), lag_records=max(behind, default=None), **total
        )

    def tables(self) -> dict[str, DataFrame]:
        """The tables of the trace, of the files in the ledger and of streams.

        Raises:
            OSError: a stream cannot be read.
            TraceVersionError: a process of the trace wrote another schema version.
        """
        tails = Tails(self._trace, self._streams)
        self.catch_up()
        with self._lock:
            files = sorted({key[:2] for key in self._seen})
        named = {
            name: self._files(name, [file for table, file in files if table == name])
            for name in rows.TABLES
        }
        return opened(self._spark, named, tails)

    def _files(self, name: str, paths: list[str]) -> list[DataFrame]:
        if not paths:
            return []
        reader = self._spark.read.schema(struct_type(rows.TABLES[name]))
        return [reader.option("basePath", f"{self._trace}/{name}").parquet(*paths)]

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
            on_state: called with each new state.
            every_s: seconds between two looks.
            stop: set from elsewhere, it ends the wait for the next look too.
        """
        try:
            while not self._look(over, job, on_state) and not stop.wait(every_s):
                pass
            job(self.tables())
        finally:
            self.close()

    def _look(
        self,
        over: Callable[[Live], bool],
        job: Callable[[dict[str, DataFrame]], None],
        on_state: Callable[[Live], None],
    ) -> bool:
        """Look once; returns whether it is over."""
        self.catch_up()
        live = self.live()
        on_state(live)
        if over(live):
            return True
        if live.rows > GROWTH * self._rows_of_last_run:
            job(self.tables())
            self._rows_of_last_run = live.rows
        return False

    def close(self) -> None:
        """Stop the queries; their checkpoints stay."""
        for query in self._queries:
            query.stop()


def file_sums(batch: DataFrame) -> DataFrame:
    """What a micro-batch adds: a row per file and process, of ``_SUMS``.

    Args:
        batch: rows of one table, with the file of each.
    """
    has = set(batch.columns)
    none = F.lit(None).cast("long")
    received = F.col("received_ns").isNotNull() if "received_ns" in has else F.lit(False)
    error = (received & (F.col("error_code") != 0)) if "error_code" in has else F.lit(False)
    blocked = {"cause", "request_id", "begin_ns", "end_ns"} <= has
    stage = F.col("stage") if "stage" in has else F.lit("")
    offset = F.col("last_offset") if "last_offset" in has else none
    return batch.groupBy(*KEYS, _FILE).agg(
        F.count("*").alias("rows"),
        F.sum(received.cast("long")).alias("requests"),
        F.sum(error.cast("long")).alias("errors"),
        F.sum(F.lit(int(blocked))).cast("long").alias("blocked_operations"),
        (F.sum(ms("end_ns", "begin_ns")) if blocked else F.lit(0.0)).alias("blocked_total_ms"),
        F.max(F.when(stage == str(rows.Stage.COMMITTED), offset)).alias("committed"),
        F.max(F.when(stage == str(rows.Stage.ZK_ACKED), offset)).alias("acked"),
    )
