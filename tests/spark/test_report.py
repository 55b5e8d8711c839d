"""The report: whole from a trace's files, and needing nothing but itself."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from bench.report import analyze
from bench.report.analyze import print_summary, report
from bench.report.findings import findings
from bench.report.page import page
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import StallRow
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

_EMPTY = (
    "runs latency rate_summary rate_chart stage_latency lag_chart lag_summary gauge_agreement "
    "blocking blocking_by_cause blocked_per_operation blocked_chart request_parts by_operation "
    "by_api multi_latency coalescing stalls noisiest_seconds"
).split()


def test_report_of_a_trace(spark: SparkSession, tmp_path: Path) -> None:
    trace = TraceFile(tmp_path / "trace", "run-7", "controller-3000")
    for row in WriteBehindModel(seconds=2.0, freeze_ms=(500.0, 1500.0)).run():
        trace.append(row)
    trace.append(StallRow(0, 60_000_000))
    trace.close()
    analysis = report(spark, str(tmp_path / "trace"), tmp_path / "out")

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
    assert [finding.about for finding in analysis.findings if finding.warning] == [
        "event loop stalls (controller-3000)"
    ]
    assert spark.read.parquet(f"{analysis.parquet}/lag_series").count() > 100


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
