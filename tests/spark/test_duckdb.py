"""The central measures again by DuckDB: another engine, other plans, the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.analysis.job import run
from bench.analysis.synthetic import generate

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

BLOCKED = """
with known as (
  select *, max(end_ns) over (order by begin_ns, end_ns rows between unbounded preceding
                              and 1 preceding) as covered_ns from blocks)
select count(*), sum(end_ns - begin_ns) / 1e6,
       sum(greatest(0, end_ns - greatest(begin_ns, coalesce(covered_ns, begin_ns)))) / 1e6
from known
"""
"""Operations, their summed ms, and the ms in which at least one was blocked."""

WAITS = """
with waits as (
  select 'server' as seen, (answered_ns - received_ns) / 1e6 as ms
  from requests where received_ns is not null
  union all
  select 'client response', if(error_code = 0, (answered_ns - intended_ns) / 1e6, 'inf'::double)
  from requests where intended_ns is not null),
ranked as (
  select seen, ms, row_number() over (partition by seen order by ms) as rank,
         count(*) over (partition by seen) as samples from waits)
select seen, samples, max(ms), max(ms) filter (rank = ceil(0.5 * samples)),
       max(ms) filter (rank = ceil(0.9 * samples)), max(ms) filter (rank = ceil(0.99 * samples))
from ranked group by all order by seen
"""
"""Of each side: samples, the greatest, and the nearest ranks of p50, p90, p99."""

LAG = """
with committed as (select * from ranges where stage = 'committed'),
acked as (select * from ranges where stage = 'zk_acked'),
instants as (
  select time_ns from committed union select time_ns from acked
  union select time_ns - 1 from acked),
known as (
  select time_ns, (select max(last_offset) from committed c where c.time_ns <= i.time_ns) as c,
         (select max(last_offset) from acked a where a.time_ns <= i.time_ns) as a
  from instants i)
select time_ns, greatest(c - a, 0), coalesce((time_ns - (
         select min(time_ns) from committed b where b.time_ns <= k.time_ns and b.last_offset > k.a
         and b.last_offset - b.first_offset + 1 > b.no_op_records)) / 1e6, 0)
from known k where a is not null order by time_ns
"""
"""At each instant: records committed and not acknowledged, and the age of the oldest in ms."""


@pytest.fixture(scope="module")
def both(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[duckdb.DuckDBPyConnection, Path]:
    """A trace in which ZooKeeper stood still twice, for DuckDB, and what Spark made of it."""
    folder = tmp_path_factory.mktemp("two engines")
    generate(folder / "trace", 9_000, rate=20.0)
    run(spark, str(folder / "trace"), str(folder / "out"))
    engine = duckdb.connect()
    for name in ("blocks", "requests", "ranges"):
        files = [str(path) for path in (folder / "trace" / name).rglob("*.parquet")]
        engine.read_parquet(files).create(name)
    return engine, folder / "out"


def _of_spark(out: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = pq.read_table(out / name, columns=list(columns), partitioning=None).to_pylist()
    return sorted(tuple(row[column] for column in columns) for row in found)


def test_how_long_zookeeper_blocked(both: tuple[duckdb.DuckDBPyConnection, Path]) -> None:
    engine, out = both
    [whole] = engine.sql(BLOCKED).fetchall()
    [found] = _of_spark(out, "blocking", "blocked_operations", "total_ms", "union_ms")
    assert found[0] > 10
    assert found == pytest.approx(whole)


def test_quantiles_of_what_was_waited(both: tuple[duckdb.DuckDBPyConnection, Path]) -> None:
    engine, out = both
    columns = ("seen", "samples", "max_ms", "p50_ms", "p90_ms", "p99_ms")
    shown = {row[0]: row[1:] for row in _of_spark(out, "latency", *columns)}
    expected = {row[0]: row[1:] for row in engine.sql(WAITS).fetchall()}
    assert {*expected} == {"client response", "server"}
    for seen, waits in expected.items():
        assert shown[seen] == pytest.approx(waits), seen


def test_lag_at_each_instant(both: tuple[duckdb.DuckDBPyConnection, Path]) -> None:
    engine, out = both
    expected = engine.sql(LAG).fetchall()
    found = _of_spark(out, "lag_series", "time_ns", "lag_records", "lag_ms")
    assert len(found) > 1_000
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected])
