"""Whole analysis over a trace whose truth is known from the model that made it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.analysis.job import results
from tests.spark.trace_frames import frames
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def frozen(spark: SparkSession) -> dict[str, DataFrame]:
    """ZooKeeper stands still from 1.0 to 2.0 s of 3 s."""
    return results(frames(spark, WriteBehindModel(freeze_ms=(1000.0, 2000.0)).run()))


def test_the_jobs_lag_is_the_gauges(frozen: dict[str, DataFrame]) -> None:
    readings = frozen["lag_against_gauge"].collect()
    assert len(readings) > 200
    assert {reading.gauge for reading in readings if reading.gauge_value > 0} == {
        "kraft_bridge_zk_write_behind_lag_records",
        "kraft_bridge_zk_write_behind_lag_without_no_ops_records",
        "kraft_bridge_zk_write_behind_lag_ms",
    }
    for reading in readings:
        assert reading.trace_value == pytest.approx(reading.gauge_value, abs=1e-5), reading


def test_a_zookeeper_frozen_for_one_second_shows_as_one_second_blocked(
    frozen: dict[str, DataFrame],
) -> None:
    [whole] = frozen["blocking"].collect()
    assert whole.union_ms == pytest.approx(1000, rel=0.1)
    assert whole.unexplained_share < 0.01
    # A hundred arrivals a second wait, on average, half of it, and the last of them to be drained.
    assert whole.blocked_operations > 95
    assert whole.total_ms > 40 * whole.union_ms
    by_cause = frozen["blocking_by_cause"].collect()
    assert {(row.cause, row.zookeeper) for row in by_cause} >= {("lag_records", "multi in flight")}
    assert sum(row.union_ms for row in by_cause) == pytest.approx(whole.union_ms, rel=0.01)
    [lag] = frozen["lag_summary"].collect()
    assert lag.max_lag_ms == pytest.approx(1000, rel=0.1)
    assert lag.max_lag_records <= 16 + 1
    assert lag.last_lag_records == 0


def test_blocked_share_of_each_second_adds_up_to_the_union(frozen: dict[str, DataFrame]) -> None:
    [whole] = frozen["blocking"].collect()
    shares = {row.second: row.blocked_share for row in frozen["blocked_per_second"].collect()}
    assert sum(shares.values()) * 1000 == pytest.approx(whole.union_ms, rel=1e-6)
    assert shares[1] > 0.9


def test_parts_of_a_requests_latency_add_up(frozen: dict[str, DataFrame]) -> None:
    [parts] = frozen["request_parts"].collect()
    assert (parts.api, parts.requests) == ("CreateTopics", 300)
    assert (parts.out_of_order, parts.uncommitted) == (0, 0)
    assert parts.blocked_ms == pytest.approx(frozen["blocking"].collect()[0].total_ms)
    assert parts.commit_ms == pytest.approx(300 * 1.0)
    assert parts.answer_ms == pytest.approx(300 * 0.125)


def test_every_client_request_finds_the_servers_row(frozen: dict[str, DataFrame]) -> None:
    found = {row.seen: row for row in frozen["latency"].collect()}
    assert {row.samples for row in found.values()} == {300}
    assert found["outside the controller"].p50_ms == pytest.approx(1.5)
    assert found["client response"].max_ms == pytest.approx(found["server"].max_ms + 2.0)


def test_without_a_freeze_nothing_is_blocked(spark: SparkSession) -> None:
    found = results(frames(spark, WriteBehindModel(seconds=0.3).run()))
    assert found["blocking"].count() == 0
    [lag] = found["lag_summary"].collect()
    assert lag.max_lag_ms == pytest.approx(3.25, abs=0.5)
