"""Measures of many runs: against the truth of runs made by hand, and against counting."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.analysis.sweep import job
from bench.analysis.sweep.conclusions import conclude
from bench.analysis.sweep.knee import Knee
from bench.load.figures import REPEATS
from bench.report.analyze import sweep_report
from tests.spark.sweep_runs import BEGIN, MS, SECOND, Made, write

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

RUNS = [
    *(Made(rate, repeat=repeat) for rate in (200.0, 400.0) for repeat in (0, 1)),
    # Two spans that overlap, one that begins in the warm-up, one that ends after the window.
    Made(800.0, blocked=((900, 1100), (2000, 2500), (2250, 2750), (5900, 6100))),
    Made(1600.0, blocked=((3000, 3001),)),
    Made(3200.0, 10_000.0, answers_per_s=2_000.0),
    Made(200.0, 300.0, outside=True, target="kafka"),
    Made(400.0, 300.0, outside=True, target="kafka"),
    Made(100.0, void="<script>alert(1)</script>"),
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sweep")
    write(folder / "bench", RUNS)
    job.run(spark, [str(folder / "bench")], str(folder / "out"))
    return job.records(spark, str(folder / "out"))


def _repeated(tables: dict[str, Any]) -> dict[str, Any]:
    """Each run as often as an interval takes."""
    return {
        name: [
            row | {"run_id": f"{row['run_id']}@{repeat}"}
            for row in rows
            for repeat in range(REPEATS)
        ]
        for name, rows in tables.items()
    }


def test_each_run_is_measured_in_its_window(tables: dict[str, Any]) -> None:
    measured = {row["run_id"]: row for row in tables["runs"]}
    assert measured.keys() == {run.run_id for run in RUNS}
    for run in RUNS:
        row = measured[run.run_id]
        assert row["seconds"] == 5.0
        if run.rate == 3200.0:
            begin, end = BEGIN + SECOND, BEGIN + 6 * SECOND
            due = [(at, answer) for _, at, answer in run.requests() if begin <= at < end]
            assert row["intended"] == len(due) < 5 * 3200  # the rest was not answered
            assert row["answered"] == sum(answer <= end + 50 * MS for _, answer in due)
            continue
        assert row["intended"] == row["answered"] == 5 * run.rate
        # Of 500 requests fewer than ten are slower than the p99.
        assert (row["p50_ms"], row["p99_ms"]) == (5.0, None if run.rate == 100.0 else 5.0)
        assert row["traced"] == (None if run.outside else True)
        # As it was read, every 50 ms.
        assert row["committed"] == pytest.approx(5 * run.rate, rel=0.011)
        if not run.outside:
            written = min(run.rate, run.capacity)
            assert row["records"] == pytest.approx(5 * written, abs=1)
            assert row["sync_ms"] == pytest.approx(min(5 * run.rate, 5000), abs=1)
            assert row["loop_share"] == pytest.approx(0.3)
            assert row["busy_ms"] == pytest.approx(5000 * written / run.capacity, abs=11)
    behind = [r["lag_records"] for r in tables["slices"] if r["run_id"] == RUNS[8].run_id]
    # By 100 a second, on average of each second from the second one on.
    assert sorted(behind) == pytest.approx([150, 250, 350, 450, 550], abs=6)


@pytest.mark.requirement("M09")
def test_blocked_time_is_exact_and_cut_at_the_window(tables: dict[str, Any]) -> None:
    blocked = {row["run_id"]: row for row in tables["runs"] if row["blocked_operations"]}
    assert blocked.keys() == {RUNS[4].run_id, RUNS[5].run_id}
    assert blocked[RUNS[4].run_id]["blocked_ms"] == pytest.approx(100 + 750 + 100)
    assert blocked[RUNS[4].run_id]["blocked_operations"] == 4
    assert blocked[RUNS[5].run_id]["blocked_ms"] == pytest.approx(1.0)
    slices = [row["blocked_ms"] for row in tables["slices"] if row["run_id"] == RUNS[4].run_id]
    assert sum(slices) == pytest.approx(950)


def test_the_knee_is_where_it_was_put(tables: dict[str, Any]) -> None:
    found = conclude(_repeated(tables))
    sweeps = {sweep.group.target: sweep for sweep in found.sweeps}
    ours = sweeps["kraft-bridge"]
    assert ours.knee == Knee(800.0, 800.0, 1600.0, REPEATS)
    assert [each.fails for each in ours.verdicts] == [(), (), (), ("lag",), ("achieved", "p99")]
    assert ours.cost is not None
    assert sweeps["kafka"].knee == Knee(200.0, 200.0, 400.0, REPEATS)
    # At 800/s something was blocked.
    assert found.headline == (
        "With the lag's p99 within 200 ms and nothing blocked, ZooKeeper keeps up with "
        "kraft-bridge at up to 400 changes/s (400.0/s carried out at least) at 2 ms of latency "
        "with a bound of 100 records, Kafka: up to 200 changes/s (200.0/s carried out at least)."
    )
    whats = {anomaly.what for anomaly in found.anomalies}
    assert whats == {"void: <script>alert(1)</script>"}


def test_the_report_of_a_sweep_needs_nothing_and_escapes_what_it_shows(
    spark: SparkSession, tables: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(*_: object) -> dict[str, Any]:
        return _repeated(tables)

    monkeypatch.setattr(job, "run", lambda *_: None)
    monkeypatch.setattr(job, "records", given)
    analysis = sweep_report(spark, ["out/sweep one"], tmp_path / "out")
    html = analysis.html.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<i>" not in html
    assert html.count("&lt;i&gt;$x$&lt;/i&gt;") >= 3  # above each chart, as it is
    assert "\\u003ci\\u003e$x$\\u003c/i\\u003e" in html  # and in the data of one
    assert "void: &lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "--out &lt;b&gt;x&lt;/b&gt;" in html
    assert "kraft-bridge analyze &#39;out/sweep one&#39; --out" in html
    assert not re.search(r"<(link|img|iframe)\b|@import|url\((?!#)", html)
    assert "default-src 'none'; script-src 'sha256-" in html
    assert analysis.findings[0].says in html.replace("&#39;", "'")
    # Blocked share at each rate: 950 and 1 ms of 5 s.
    row = re.search(r'<tr><th scope="row">2 ms</th>(.*?)</tr>', html)
    assert re.findall(r">([\d.]+) %", row[1]) == ["0.0", "0.0", "19.0", "0.0", "0.0"]
    assert "up to 800 changes/s; not at 1,600" in html
