"""Spark says what counting by hand says, on random traces: each its own run of one DataFrame."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from bench.analysis import blocking, carry, lag, stages
from bench.analysis.quantiles import quantile_table
from bench.analysis.schema import struct_type
from emulator.trace import rows
from tests.spark import reference
from tests.spark.reference import MS

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

_RUNS = 25
_few = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)


@pytest.fixture(scope="module", autouse=True)
def _small_buckets() -> Iterator[None]:
    """Two offsets, or about two milliseconds, a bucket: these short traces fill many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carry, "OFFSET_BITS", 1)
        patch.setattr(carry, "TIME_BITS", 21)
        yield


def _frame(spark: SparkSession, runs: list[list[msgspec.Struct]], kind: type) -> DataFrame:
    values = [
        (*msgspec.to_builtins(msgspec.structs.astuple(row)), "c", f"r{index}")
        for index, run in enumerate(runs)
        for row in run
    ]
    return spark.createDataFrame(values, struct_type(kind))


@st.composite
def _log(draw: st.DrawFn) -> list[rows.RangeRow]:
    """Batches appended, committed in order, acknowledged later, cut anywhere."""
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    ranges, offset, now = [], 0, 0
    for size in sizes:
        now += draw(st.integers(0, 3))
        first, offset, no_op = offset + 1, offset + max(1, size), int(size == 0)
        ranges.append(rows.RangeRow("appended", first, offset, now * MS, no_op))
        now += draw(st.integers(0, 3))
        ranges.append(rows.RangeRow("committed", first, offset, now * MS, no_op))
    committed = [row for row in ranges if row.stage == "committed"]
    acked, at = 0, 0
    for _ in range(draw(st.integers(0, 5))):
        acked = draw(st.integers(acked, offset))
        ready = [row.time_ns // MS for row in committed if row.first_offset <= acked]
        at = max([at, *ready]) + draw(st.integers(0, 4))
        ranges.append(rows.RangeRow("zk_acked", 1, acked, at * MS))
    return ranges


@_few
@given(st.lists(_log(), min_size=_RUNS, max_size=_RUNS))
def test_lag_and_stages(spark: SparkSession, runs: list[list[rows.RangeRow]]) -> None:
    frame = _frame(spark, runs, rows.RangeRow).cache()
    series: dict[str, dict[int, tuple[int, int, float]]] = {}
    for row in lag.lag_series(frame).collect():
        found = (row.lag_records, row.lag_without_no_ops_records, row.lag_ms)
        series.setdefault(row.run_id, {})[row.time_ns] = found
    steps = {
        (row.run_id, row.last_offset): row.write_behind_ms
        for row in stages.batch_stages(frame).collect()
    }
    for index, run in enumerate(runs):
        moves = {row.time_ns for row in run if row.stage != "appended"}
        peaks = {row.time_ns - 1 for row in run if row.stage == "zk_acked"}
        wanted = {at: reference.lag(run, at) for at in moves | peaks}
        found_lag = series.get(f"r{index}", {})
        assert found_lag.keys() == {at for at, lag in wanted.items() if lag}
        for at, found in found_lag.items():
            assert found == pytest.approx(wanted[at]), (at, run)
        for row in run:
            if row.stage == "appended":
                expected = reference.write_behind_ms(run, row.last_offset)
                assert steps[f"r{index}", row.last_offset] == expected


_SPANS = st.tuples(st.integers(0, 20), st.integers(1, 9))


@_few
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(_SPANS, st.sampled_from(rows.BlockCause)), min_size=1, max_size=6),
            st.lists(_SPANS, max_size=4),
        ),
        min_size=_RUNS,
        max_size=_RUNS,
    )
)
def test_blocking(
    spark: SparkSession,
    runs: list[tuple[list[tuple[tuple[int, int], rows.BlockCause]], list[tuple[int, int]]]],
) -> None:
    blocks = [
        [
            rows.BlockRow(at * MS, (at + lasts) * MS, str(cause), "CreateTopics")
            for (at, lasts), cause in given_blocks
        ]
        for given_blocks, _ in runs
    ]
    multis = [
        [rows.MultiRow(at * MS, (at + lasts) * MS, 1, 1, 0, 0) for at, lasts in spans]
        for _, spans in runs
    ]
    block_frame = _frame(spark, blocks, rows.BlockRow).cache()
    multi_frame = _frame(spark, multis, rows.MultiRow)
    whole_frame = blocking.blocked_whole(block_frame)
    by_cause = blocking.blocking_by_cause(
        blocking.blocked_segments(block_frame, multi_frame)
    ).cache()
    checked = blocking.blocking_check(whole_frame, by_cause).collect()
    parts: dict[str, dict[tuple[str, bool], float]] = {}
    for row in by_cause.collect():
        key = (row.cause, row.zookeeper == "multi in flight")
        parts.setdefault(row.run_id, {})[key] = row.union_ms
    for row in checked:
        index = int(row.run_id[1:])
        union, total, expected = reference.blocked(blocks[index], multis[index])
        assert (row.union_ms, row.total_ms) == pytest.approx((union, total))
        assert row.unexplained_share < 1e-9
        assert parts[row.run_id] == pytest.approx(dict(expected))
    assert len(checked) == len(runs)


@_few
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([1, 5, 11]))
def test_quantiles(spark: SparkSession, few: list[float], times: int) -> None:
    values = few * times
    frame = spark.createDataFrame([(value,) for value in values], "wait_ms double")
    [row] = quantile_table(frame, "wait_ms", []).collect()
    assert row.samples == len(values)
    assert row.p999_ms is None
    assert row.accuracy == "exact"
    for fraction, found in ((0.5, row.p50_ms), (0.9, row.p90_ms), (0.99, row.p99_ms)):
        beyond = len(values) - max(1, math.ceil(round(fraction * len(values), 6)))
        assert found == (reference.quantile(values, fraction) if beyond >= 10 else None)


def test_the_last_per_mille_needs_ten_thousand_samples(spark: SparkSession) -> None:
    frame = spark.range(79_999).selectExpr(
        "case when id < 10000 then 'enough' when id < 19999 then 'few' else 'many' end as g",
        "cast(id as double) as wait_ms",
    )
    found = {row.g: row for row in quantile_table(frame, "wait_ms", ["g"]).collect()}
    assert (found["few"].samples, found["few"].p999_ms) == (9_999, None)
    assert (found["enough"].samples, found["enough"].p999_ms) == (10_000, 9_989.0)
    assert (found["enough"].accuracy, found["many"].samples) == ("exact", 60_000)
    assert found["many"].accuracy == "rank within 1/100000 of samples"
    assert found["many"].p999_ms == pytest.approx(19_999 + 59_939, abs=1)
