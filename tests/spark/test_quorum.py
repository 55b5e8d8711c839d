"""Leaders of a quorum, one after the other, on hosts with clocks of their own: one lag."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.analysis import job
from bench.analysis.lag import lag_series
from bench.analysis.quorum import QUORUM, clocks, leaders, led_by_several, lives, one_log
from bench.analysis.schema import struct_type
from emulator.trace import rows

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

S = 1_000_000_000
WALL_NS = 1_700_000_000 * S
AHEAD_S = {"a life 1": -70, "a life 2": -70, "b": 40_000}
"""By how much the monotonic clock of each process is ahead of seconds since ``WALL_NS``."""


def run(process: str, host: str, started_s: float, set_by_s: float = 0.0) -> tuple[object, ...]:
    own = round((started_s + AHEAD_S[process]) * S)
    wall = WALL_NS + round((started_s + set_by_s) * S)
    return (rows.SCHEMA_VERSION, own, wall, host, "0", "3.9", "{}", process, "r")


def at(
    process: str, stage: str, offsets: tuple[int, int], second: float, epoch: int | None = None
) -> tuple[object, ...]:
    own = round((second + AHEAD_S[process]) * S)
    return (stage, *offsets, own, 0, epoch, process, "r")


RUNS = [run("a life 1", "h", 0.0), run("b", "g", 0.5), run("a life 2", "h", 4.0, 0.2)]
RANGES = [
    at("a life 1", "committed", (0, 9), 1.0, 1),
    at("b", "committed", (0, 9), 1.1),
    at("a life 1", "zk_acked", (0, 9), 1.5),
    at("a life 1", "committed", (10, 14), 2.0, 1),
    at("b", "committed", (10, 11), 2.1),
    # The first one is killed; the next one finds what it had committed.
    at("b", "committed", (12, 19), 5.0, 2),
    at("a life 2", "committed", (0, 19), 5.2),
    at("b", "zk_acked", (10, 14), 6.0),
    at("b", "zk_acked", (15, 19), 7.0),
]


def test_one_lag_over_two_leaders_by_epoch(spark: SparkSession) -> None:
    ranges = spark.createDataFrame(RANGES, struct_type(rows.RangeRow))
    clock = clocks(spark.createDataFrame(RUNS, struct_type(rows.RunRow)))
    led = leaders(ranges, clock)
    assert [tuple(row) for row in led.orderBy("leader_epoch").collect()] == [
        ("r", "a life 1", 1, WALL_NS + S, WALL_NS + 2 * S, 14, None),
        ("r", "b", 2, WALL_NS + 5 * S, WALL_NS + 5 * S, 19, 14),
    ]
    assert led_by_several(led) == ["r"]
    series = lag_series(one_log(ranges, led, clock, ["r"])).orderBy("time_ns").collect()
    found = [
        (
            row.process,
            round((row.time_ns - WALL_NS) / S, 6),
            row.lag_records,
            row.lag_without_no_ops_records,
            round(row.lag_ms),
        )
        for row in series
    ]
    assert found == [
        ("quorum", 1.5, 0, 0, 0),
        ("quorum", 2.0, 5, 5, 0),
        ("quorum", 5.0, 10, 10, 3_000),
        ("quorum", 6.0, 10, 10, 4_000),
        ("quorum", 6.0, 5, 5, 1_000),
        ("quorum", 7.0, 5, 5, 2_000),
        ("quorum", 7.0, 0, 0, 0),
    ]


def test_the_job_has_the_lag_of_each_process_and_of_the_quorum(spark: SparkSession) -> None:
    ranges = spark.createDataFrame(RANGES, struct_type(rows.RangeRow))
    runs = spark.createDataFrame(RUNS, struct_type(rows.RunRow))
    gauges = spark.createDataFrame([], struct_type(rows.GaugeRow))
    kept: list[str] = []

    def keep(name: str, table: DataFrame) -> DataFrame:
        kept.append(name)
        return table

    series = job._of_lag({"ranges": ranges, "runs": runs, "gauges": gauges}, keep)["lag_series"]
    clock = clocks(runs)
    together = one_log(ranges, leaders(ranges, clock), clock, ["r"])
    wanted = lag_series(ranges).unionByName(lag_series(together)).collect()
    assert sorted(map(str, series.collect())) == sorted(map(str, wanted))
    assert QUORUM in {row.process for row in wanted}
    assert kept[:2] == ["leaders", "one_log"], "it is looked at often, and costs two joins"


def test_a_run_with_one_leader_needs_no_other_lag(spark: SparkSession) -> None:
    ranges = spark.createDataFrame(RANGES[:5], struct_type(rows.RangeRow))
    clock = clocks(spark.createDataFrame(RUNS, struct_type(rows.RunRow)))
    assert led_by_several(leaders(ranges, clock)) == []


def test_a_clock_that_was_set_counts_from_then_on(spark: SparkSession) -> None:
    moved = [*RUNS, run("a life 2", "i", 4.0), run("a life 1", "i", 0.0, 3.0)]
    found = clocks(spark.createDataFrame(moved, struct_type(rows.RunRow))).collect()
    by_process = {(row.host, row.process): row for row in found}
    assert by_process["h", "a life 2"].offset_ns == by_process["h", "a life 1"].offset_ns
    assert by_process["h", "a life 2"].moved_s == pytest.approx(0.2)
    assert by_process["i", "a life 2"].moved_s == pytest.approx(-3.0)
    assert by_process["i", "a life 2"].offset_ns == WALL_NS + 70 * S
    ranges = spark.createDataFrame(RANGES, struct_type(rows.RangeRow))
    clock = clocks(spark.createDataFrame(RUNS, struct_type(rows.RunRow)))
    known = lives(None, leaders(ranges, clock), clock).collect()
    assert {(row.process, row.led) for row in known} == {
        ("a life 1", "1"),
        ("a life 2", None),
        ("b", "2"),
    }
