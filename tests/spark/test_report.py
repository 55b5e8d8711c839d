"""The report: whole from a trace's files, and needing nothing but itself."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from bench.report import analyze
from bench.report.analyze import SCHEMA, SUMMARY, Analysis, print_summary, report
from bench.report.beside import NOTHING
from bench.report.findings import findings
from bench.report.page import page
from bench.report.verdict import verdict
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import BlockRow, MultiRow, StallRow
from tests.spark.by_hand import TraceByHand
from tests.spark.write_behind_model import WriteBehindModel
from tests.unit.report.a_run import empty

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


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
    for shown in ("run-7", "CreateTopics", "topic create", "controller-3000 starts"):
        assert shown in html, shown
    [data] = re.findall(r'<script type="application/json">(.*?)</script>', html)
    drawn = json.loads(data)
    load = pq.read_table(Path(analysis.parquet) / "rate_summary").to_pylist()[0]
    rates = {one["name"]: sum(one["v"]) for one in drawn["rates"]}
    assert rates == {"due": load["intended"], "done": load["achieved"]}
    assert sum(len(one["t"]) for one in drawn["changes"]) > 100
    assert max(drawn["lag"][0]["v"]) == max(
        row["max_lag_records"]
        for row in pq.read_table(Path(analysis.parquet) / "lag_summary").to_pylist()
    )
    assert [one["name"] for one in drawn["multis"]][1:2] == ["multi refused or lost"]
    assert "event loop stalled" in [one["name"] for one in drawn["syncs"]]
    assert drawn["blocked"]
    summary = json.loads(analysis.html.with_name(SUMMARY).read_text())
    assert summary["schema"] == SCHEMA
    assert summary["verdict"][0]["measures"]["blocked_operations"] == sum(
        row["blocked_operations"]
        for row in pq.read_table(Path(analysis.parquet) / "blocking").to_pylist()
    )

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


def _page(tables: dict[str, list[dict[str, Any]]]) -> str:
    return page(tables, "nowhere", [verdict(tables, "r", NOTHING)])


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
    tables = empty() | {"blocking": [whole], "blocking_by_cause": [cause]}
    assert [found.says for found in findings(tables) if found.warning] == [
        "refused: parts miss the whole by 2.0%"
    ]
    assert "no multi in flight" not in _page(tables)
    tables["blocking"] = [whole | {"unexplained_share": 0.001}]
    assert "no multi in flight" in _page(tables)


def test_a_trace_that_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze, "session", lambda *_, **__: spark)
    monkeypatch.setattr(analyze, "end", lambda _: None)
    with pytest.raises(analyze.TraceUnreadableError, match="no-such-trace"):
        analyze.analyze(tmp_path / "no-such-trace", tmp_path / "out")
