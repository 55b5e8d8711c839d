"""A trace followed while it grows: at the end, the tables are those of the whole trace."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis import follow, mirror
from bench.analysis.follow import Follower, Idle, Live, interrupts
from bench.analysis.job import results
from bench.analysis.read import read
from bench.analysis.store import Store
from bench.analysis.synthetic import generate
from bench.analysis.whole import missing
from bench.report import analyze, findings
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.trace import rows
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

S = 1_000_000_000
_COMPARED = ("lag_summary", "blocking", "blocking_by_cause", "latency", "coalescing", "by_api")


def _move(trace: Path, growing: Path, files: list[Path], *, old: bool = False) -> None:
    for path in files:
        to = growing / path.relative_to(trace)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
        if old:
            os.utime(to, (1e9, 1e9))  # 2001


def test_files_that_come_late_and_a_crash_change_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, growing, out = tmp_path / "trace", tmp_path / "growing", str(tmp_path / "out")
    truth = generate(trace, 5_000, rate=20.0)
    files = sorted(trace.rglob("*.parquet"))
    late = [path for path in files if path.name.endswith("-00001.parquet")]
    last = [path for path in files if path.name.endswith("-00002.parquet")]
    assert late
    assert last
    _move(trace, growing, [path for path in files if path not in {*late, *last}])
    before = Follower(spark, str(growing), out).look()
    assert 0 < before.rows < truth.rows

    # A crash after rows were written, and before anything else is done.
    _move(trace, growing, last)
    with monkeypatch.context() as patch:
        patch.setattr(mirror, "_publish", _and_crash(mirror._publish))
        with pytest.raises(RuntimeError, match="a crash"):
            Follower(spark, str(growing), out).look()

    # Older than all the others, in its rows and by its date.
    _move(trace, growing, late, old=True)
    again = Follower(spark, str(growing), out)
    told: list[Live] = []
    ran: list[dict[str, DataFrame]] = []

    def tell(live: Live) -> None:
        told.append(live)
        if live.rows >= truth.rows and not stop.is_set():  # a second one ends it at once
            signal.raise_signal(signal.SIGINT)

    with interrupts() as stop:
        again.run_until(Idle(None), ran.append, tell, 0.1, stop)
    assert told[-1].rows == truth.rows
    assert told[-1].requests == truth.operations
    assert told[-1].blocked_operations == truth.blocked_operations > 0
    assert told[-1].blocked_total_ms == pytest.approx(truth.blocked_total_ms)
    assert told[-1].lag_records == 0

    found, expected = results(ran[-1]), results(read(spark, str(trace)))
    for name in _COMPARED:
        assertDataFrameEqual(found[name], expected[name])


def _and_crash(do: Callable[..., None]) -> Callable[..., None]:
    def crash(*given: Any) -> None:
        do(*given)
        raise RuntimeError("a crash")

    return crash


class Written:
    """A trace that is written portion by portion; its oldest files go as it has a limit."""

    def __init__(self, folder: Path, total_bytes: int, given: list[rows.Row]) -> None:
        limits = TraceLimits(block_rows=200, file_bytes=1, total_bytes=total_bytes)
        self.now = 0.0
        self.file = TraceFile(folder, "r 1", "c", limits=limits, clock=lambda: self.now)
        self._rows = iter(given)

    def write(self, count: int) -> bool:
        """Write so many rows, or its end; returns whether there were any."""
        portion = list(islice(self._rows, count))
        for row in portion:
            self.file.append(row)
        self.file.flush()
        self.now += 2.0
        if not portion:
            self.file.close()
        wait_for("the writer", self._is_written)
        return bool(portion)

    def _is_written(self) -> bool:
        """Whether all is in finished files, but what it says itself of files that it deleted."""
        writer = self.file._writer
        tables = [one for kind, one in writer._tables.items() if kind is not rows.GaugeRow]
        return writer.inbox.empty() and not any(one._stream_rows for one in tables)


@pytest.fixture
def follows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., analyze.Analysis]:
    monkeypatch.setattr(analyze, "session", lambda *_, **__: spark)
    monkeypatch.setattr(analyze, "end", lambda _: None)
    monkeypatch.setattr(follow, "GROWTH", 1e9)  # the first rows, and all of them at the end

    def run(trace: Path, on_state: Callable[[Live], None]) -> analyze.Analysis:
        return analyze.follow(
            trace, tmp_path / "the out", every_s=0.01, idle_s=0.5, on_state=on_state
        )

    return run


def test_what_the_limit_deletes_after_it_was_read_is_in_the_report(
    spark: SparkSession, tmp_path: Path, follows: Callable[..., analyze.Analysis]
) -> None:
    """At the end even the folder has gone. The report is that of the same rows without a limit."""
    given = WriteBehindModel(seconds=6.0, freeze_ms=(2000.0, 2500.0)).run()
    whole, limited = (tmp_path / name / "the trace" for name in ("whole", "limited"))
    unlimited = Written(whole, 0, given)
    while unlimited.write(400):
        pass
    trace = Written(limited, 150_000, given)
    assert trace.write(400)

    def goes_on(_: Live) -> None:
        if trace.file._thread.is_alive():
            trace.write(400)
        else:
            shutil.rmtree(limited, ignore_errors=True)

    done = follows(limited, goes_on)
    assert trace.file.deleted_bytes > 150_000
    assert not limited.exists()
    expected = analyze.report(spark, str(whole), tmp_path / "expected")
    for name in (*_COMPARED, "missing", "request_parts"):
        found, other = (spark.read.parquet(f"{one.parquet}/{name}") for one in (done, expected))
        assertDataFrameEqual(found, other)
    assert not [one for one in done.findings if one.about.startswith("gap")]


def test_what_was_deleted_before_it_was_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """By rows, seconds, process and table: in the middle, and files that were seen and are gone."""
    given = [rows.StallRow(at * S, at * S + 5) for at in range(1, 2_001)]
    run = rows.RunRow(rows.SCHEMA_VERSION, 0, 10**18, "h", "0", "3.9", "{}")
    folder = tmp_path / "the trace"
    trace = Written(folder, 0, [run, *given])
    assert trace.write(601)
    follower = Follower(spark, str(folder), str(tmp_path / "out"))
    follower.look()
    for _ in range(2):
        trace.write(400)
    for path in folder.glob("stalls/*/c-*-000000000[6-9]*.parquet"):
        path.unlink()
    assert trace.write(10**6)
    for path in folder.glob("stalls/*/c-*-000000001800.parquet"):
        path.write_bytes(b"")
    assert not trace.write(1)
    found = follower.tables()
    lacks = missing(*(found[name] for name in ("gauges", "requests", "runs", "files", "lost")))
    shown = {
        "missing": [row.asDict() for row in lacks.collect()],
        "runs": [row.asDict() for row in found["runs"].collect()],
    }
    middle, last = findings._missing(shown)
    assert middle.about == last.about == "gap in the trace of c"
    assert middle.says.startswith("in run r 1 400 rows of stalls within 401.0 s are missing, from ")
    assert "deleted before --follow read it" in middle.says
    lost = "in run r 1 the last rows of stalls (not known how many) are missing: "
    assert last.says.startswith(lost)


def test_looks_go_on_while_the_job_runs_and_change_nothing_in_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The limit takes nothing meanwhile; a job that waits for looks would wait for ever."""
    folder = tmp_path / "trace"
    trace = Written(folder, 60_000, [rows.StallRow(at, at + 5) for at in range(20_000)])
    trace.write(400)
    goes_on = threading.Event()
    looks: SimpleQueue[Live] = SimpleQueue()
    seen: list[int] = []

    def job(tables: dict[str, DataFrame]) -> None:
        before = tables["stalls"].count()
        if not seen:
            goes_on.set()
            for _ in range(4):
                looks.get(timeout=PATIENCE_S)
            goes_on.clear()
        assert tables["stalls"].count() == before
        seen.append(before)

    def write(live: Live) -> None:
        if goes_on.is_set():
            trace.write(400)
            looks.put(live)

    with interrupts() as stop:
        follower = Follower(spark, str(folder), str(tmp_path / "out"))
        follower.run_until(lambda _: bool(seen), job, write, 0.01, stop)
    trace.file.close()
    first, *_, last = seen
    assert trace.file.deleted_bytes > 0
    assert first + 4 * 400 <= last == trace.file.rows_total["stalls"]


def test_a_trace_that_lies_elsewhere_is_followed_and_its_copy_put_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By Hadoop's file systems, as a store is; here that of this machine."""
    folder = tmp_path / "the trace"
    trace = Written(folder, 0, [rows.StallRow(at, at + 5) for at in range(1_000)])
    trace.write(400)
    shared = tmp_path / "the shared"
    store = Store(spark, f"file:{folder}", tmp_path)
    copy = mirror.Mirror(store, tmp_path / "copy", lambda *_: None)
    sent = Store(spark, f"file:{shared}", tmp_path)
    for expected in (400, 800, 1_000):
        copy.take()
        place = sent.put_all(copy.folder)
        tables = read(spark, place)
        assert tables["stalls"].count() == expected
        trace.write(400)
    [gone] = [found for found in store.files() if found.name.endswith("000000000400.parquet")]
    Path(gone.place.removeprefix("file:")).unlink()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        store.local(gone)


def test_the_second_interrupt_ends_it_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_it_is_idle_when_no_row_has_come_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(follow.time, "monotonic", lambda: now)
    idle, never = Idle(5.0), Idle(None)
    seen = []
    for now, rows_ in ((0.0, 1), (4.0, 1), (6.0, 2), (10.0, 2), (11.0, 2)):  # noqa: B007
        live = Live(rows_, 1, 0, 0, 0, 0.0, None)
        seen.append(idle(live))
        assert not never(live)
    assert seen == [False, False, False, False, True]
