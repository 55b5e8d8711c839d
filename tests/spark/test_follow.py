"""A trace followed while it grows: at the end, the tables are those of the whole trace."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis import follow
from bench.analysis.follow import Follower, Idle, Live, interrupts
from bench.analysis.job import results
from bench.analysis.read import read
from bench.analysis.synthetic import generate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

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

    follower = Follower(spark, str(growing), out)
    follower.catch_up()
    before = follower.live()
    assert 0 < before.rows < truth.rows
    follower.close()

    # A crash after a micro-batch was written, and before Spark knows that it was.
    _move(trace, growing, last)
    monkeypatch.setattr(Follower, "_add", _crash_in(Follower._add))
    crashed = Follower(spark, str(growing), out)
    with pytest.raises(StreamingQueryException, match="a crash"):
        crashed.catch_up()
    crashed.close()
    monkeypatch.undo()

    # Older than all the others, in its rows and by its date.
    _move(trace, growing, late, old=True)
    again = Follower(spark, str(growing), out)
    told: list[Live] = []
    ran: list[dict[str, DataFrame]] = []

    def tell(live: Live) -> None:
        told.append(live)
        if live.rows >= truth.rows or len(told) > 50:
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


def _crash_in(add: Callable[..., None]) -> Callable[..., None]:
    def crash(*given: Any) -> None:
        if threading.current_thread() is not threading.main_thread():  # a query calls back
            raise RuntimeError("a crash")
        add(*given)

    return crash


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
    for now, count in ((0.0, 1), (4.0, 1), (6.0, 2), (10.0, 2), (11.0, 2)):  # noqa: B007
        live = Live(count, 1, 0, 0, 0, 0.0, None)
        seen.append(idle(live))
        assert not never(live)
    assert seen == [False, False, False, False, True]
