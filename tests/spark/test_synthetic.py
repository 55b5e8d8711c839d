"""Synthetic traces: the columns of real ones, and a truth that the analysis finds."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.analysis import carry
from bench.analysis.job import LONG, run
from bench.analysis.synthetic import generate
from bench.analysis.thin import POINTS
from emulator.io.trace_file import TraceFile
from emulator.trace import rows
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


def test_the_columns_are_those_of_a_real_trace(tmp_path: Path) -> None:
    real = TraceFile(tmp_path / "real", "r", "c")
    for row in WriteBehindModel(seconds=0.2).run():
        real.append(row)
    real.close()
    generate(tmp_path / "made", 500)
    for table in rows.TABLES:
        schemas = [
            {pq.read_schema(path) for path in (tmp_path / made / table).rglob("*.parquet")}
            for made in ("real", "made")
        ]
        assert schemas[0] == schemas[1], table
        assert len(schemas[0]) == 1


@pytest.mark.parametrize("wanted", [1, 100, 5_000])
def test_it_has_as_many_rows_as_asked_for(tmp_path: Path, wanted: int) -> None:
    truth = generate(tmp_path, wanted)
    found = sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet"))
    assert truth.rows == found
    assert wanted <= found < wanted + 50


@pytest.mark.requirement("M09")
def test_the_job_finds_the_truth_of_a_trace_in_many_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "OFFSET_BITS", 6)
    monkeypatch.setattr(carry, "TIME_BITS", 30)
    truth = generate(tmp_path / "trace", 12_000, rate=50.0)
    names = run(spark, str(tmp_path / "trace"), str(tmp_path / "out"))
    tables = {
        name: spark.read.parquet(f"{tmp_path}/out/{name}").collect()
        for name in names
        if name not in LONG
    }
    [blocking] = tables["blocking"]
    assert truth.blocked_operations == blocking.blocked_operations > 0
    assert blocking.total_ms == pytest.approx(truth.blocked_total_ms)
    assert blocking.union_ms == pytest.approx(truth.blocked_union_ms)
    assert blocking.unexplained_share < 1e-9
    [multis] = tables["coalescing"]
    assert (multis.multis, multis.records) == (truth.multis, truth.records)
    felt = {row.seen: row for row in tables["latency"]}["client response"]
    assert (felt.samples, felt.max_ms) == (truth.operations, pytest.approx(truth.max_response_ms))
    [lag] = tables["lag_summary"]
    assert lag.last_lag_records == 0
    chart = {row.wall_ns: row.lag_records for row in tables["lag_chart"]}
    assert max(chart.values()) == lag.max_lag_records
    assert len(chart) <= POINTS
    for gauge in tables["gauge_agreement"]:
        assert gauge.readings == gauge.agreeing > 100
        assert gauge.greatest_difference < 1e-3, gauge
    assert len(tables["gauge_agreement"]) == 3
    steps = {row.step: row for row in tables["stage_latency"]}
    assert steps["commit_ms"].samples == truth.operations
    assert steps["commit_ms"].max_ms == 1.0
    [parts] = tables["request_parts"]
    assert (parts.out_of_order, parts.uncommitted) == (0, 0)
