"""The report: whole from a trace's files, and needing nothing but itself."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from bench.report import analyze
from bench.report.analyze import Analysis, print_summary, report
from bench.report.findings import findings
from bench.report.page import page
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import BlockRow, MultiRow, StallRow
from tests.spark.by_hand import TraceByHand
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

_EMPTY = (
    "runs latency rate_summary rate_chart stage_latency lag_chart lag_summary gauge_agreement "
    "blocking blocking_by_cause blocked_per_operation blocked_chart request_parts by_operation "
    "by_api multi_latency coalescing stalls noisiest_seconds missing"
).split()


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Analysis]:
    """A trace in which ZooKeeper stood still, and its report."""
    folder = tmp_path_factory.mktemp("report")
    trace = TraceFile(folder / "trace", "run-7", "controller-3000")
    for row in WriteBehindModel(seconds=2.0, freeze_ms=(500.0, 1500.0)).run():
        trace.append(row)
    trace.append(StallRow(0, 60_000_000))
    trace.append(MultiRow(0, 9_000_000, 1, 1, 1, 0, "lost"))
    trace.append(
        BlockRow(600_000_000, 650_000_000, "session_lost", "AlterPartition", 1, "timed_out")
    )
    trace.close()
    return folder / "trace", report(spark, str(folder / "trace"), folder / "out")


def test_every_number_is_the_one_counted_by_hand(made: tuple[Path, Analysis]) -> None:
    """Over the Parquet of the trace, in plain Python."""
    trace, analysis = made
    for name, expected in TraceByHand(trace).numbers().items():
        shown = pq.read_table(Path(analysis.parquet) / name).to_pylist()
        assert len(shown) == len(expected), name
        for cells in expected:
            same = [
                row
                for row in shown
                if all(row[k] == v for k, v in cells.items() if _word(v) or k == "second")
            ]
            assert len(same) == 1, (name, cells)
            assert {k: same[0][k] for k in cells} == pytest.approx(cells), name


def test_the_summary_has_these_numbers(made: tuple[Path, Analysis]) -> None:
    """With the load and the bound beside what waited."""
    trace, analysis = made
    numbers = {name: rows[0] for name, rows in TraceByHand(trace).numbers().items()}
    said = {one.about: one.says for one in analysis.findings}
    lag, load = numbers["lag_summary"], numbers["rate_summary"]
    assert said["write-behind lag (controller-3000)"].startswith(
        f"at most {lag['max_lag_records']} records ({lag['max_lag_records'] / 10_000:.1%} of the "
        f"bound of 10,000); at most {lag['max_lag_ms'] / 1000:.3g} s; "
        f"behind {lag['behind_share']:.1%} of the time; "
        f"{lag['last_lag_records']} records at the end"
    )
    assert said["open-loop load"] == (
        f"{load['achieved']} of {load['intended']} intended requests answered without error, "
        f"{load['achieved_per_s']:.1f} each second of {load['due_per_s']:.1f} due"
    )
    blocking = numbers["blocking"]
    assert f"{blocking['blocked_operations']} operations" in " ".join(said.values())
    assert "1 gave up" in said["ZooKeeper blocking KRaft (controller-3000)"]
    assert (
        f"{numbers['coalescing']['multis']} carried {numbers['coalescing']['records']} records"
        in (said["multis (controller-3000)"])
    )


def _word(value: object) -> bool:
    return isinstance(value, str)


def test_report_of_a_trace(made: tuple[Path, Analysis]) -> None:
    _, analysis = made
    html = analysis.html.read_text(encoding="utf-8")
    assert html.count("<svg") == html.count("</svg>") >= 6
    addresses = set(re.findall(r"https?://[^\"' )<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", html)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids)) > 6
    for shown in ("run-7", "lag_records", "multi in flight", "CreateTopics", "topic_create"):
        assert shown in html, shown

    out = io.StringIO()
    print_summary(analysis, Console(file=out, width=120, no_color=True))
    text = out.getvalue()
    assert "ZooKeeper blocking KRaft (controller-3000)" in text
    assert "200 of 200 intended requests answered without error" in text
    assert str(analysis.html) in text
    # Request 1 had been answered long before the wait that is planted above in its name.
    assert [finding.about for finding in analysis.findings if finding.warning] == [
        "what limited this run",
        "event loop stalls (controller-3000)",
        "parts of CreateTopics",
    ]
    series = pq.read_table(Path(analysis.parquet) / "lag_series")
    assert series.num_rows > 100


def test_a_run_without_rows_still_makes_a_page() -> None:
    html = page({name: [] for name in _EMPTY}, "nowhere")
    assert "not known: the trace holds no change of a controller" in html


def test_an_attribution_off_by_more_than_one_percent_is_refused() -> None:
    whole = {
        "run_id": "r",
        "process": "c",
        "blocked_operations": 1,
        "timed_out_operations": 0,
        "total_ms": 10.0,
        "union_ms": 10.0,
        "unexplained_share": 0.02,
    }
    cause = {
        "run_id": "r",
        "process": "c",
        "cause": "lag_ms",
        "zookeeper": "no multi in flight",
        "union_ms": 9.8,
        "total_ms": 10.0,
    }
    tables = {name: [] for name in _EMPTY} | {"blocking": [whole], "blocking_by_cause": [cause]}
    assert [found.says for found in findings(tables) if found.warning] == [
        "refused: parts miss the whole by 2.0%"
    ]
    assert "no multi in flight" not in page(tables, "nowhere")
    tables["blocking"] = [whole | {"unexplained_share": 0.001}]
    assert "no multi in flight" in page(tables, "nowhere")


def test_a_trace_that_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze, "session", lambda *_: spark)
    monkeypatch.setattr(analyze, "end", lambda _: None)
    with pytest.raises(analyze.TraceUnreadableError, match="no-such-trace"):
        analyze.analyze(tmp_path / "no-such-trace", tmp_path / "out")
