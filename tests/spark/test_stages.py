"""Steps of a batch's life."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis.stages import batch_stages, stage_latency
from emulator.trace.rows import RangeRow
from tests.spark.trace_frames import frame, ranges

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


def test_each_step_is_the_difference_of_two_stamps(spark: SparkSession) -> None:
    given = ranges(
        ("zk_acked", 0, 0, 0),
        ("appended", 1, 2, 0),
        ("appended", 3, 3, 1),
        ("committed", 1, 3, 4),
        ("planned", 1, 3, 5),
        ("zk_sent", 1, 2, 7),
        ("zk_sent", 3, 3, 8),
        ("zk_acked", 1, 2, 10),
        ("propagated", 1, 3, 6),
        ("appended", 4, 4, 20),
    )
    columns = [
        "first_offset",
        "records",
        "commit_ms",
        "plan_ms",
        "zk_queue_ms",
        "zk_write_ms",
        "write_behind_ms",
        "propagate_ms",
    ]
    found = batch_stages(frame(spark, RangeRow, given)).select(columns)
    expected = [
        (1, 2, 4.0, 1.0, 2.0, 3.0, 6.0, 2.0),
        (3, 1, 3.0, 1.0, 3.0, None, None, 2.0),
        (4, 1, None, None, None, None, None, None),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(expected, found.schema))


def test_a_resent_multi_counts_from_its_first_sending(spark: SparkSession) -> None:
    given = ranges(
        ("zk_acked", 0, 0, 0),
        ("appended", 1, 4, 0),
        ("committed", 1, 4, 0),
        ("zk_sent", 1, 9, 1),
        ("zk_sent", 1, 4, 50),
        ("zk_acked", 1, 4, 51),
    )
    [row] = batch_stages(frame(spark, RangeRow, given)).collect()
    assert row.zk_write_ms == 50.0


def test_what_was_committed_before_the_claim_did_not_wait_for_zookeeper(
    spark: SparkSession,
) -> None:
    """Its records waited for the migration, for minutes perhaps: no step of the write-behind."""
    given = ranges(
        ("appended", 1, 1, 0),
        ("committed", 1, 1, 1),
        ("planned", 1, 1, 60_000),
        ("zk_sent", 1, 1, 60_001),
        ("zk_acked", 1, 1, 60_002),
        ("appended", 2, 2, 60_010),
        ("committed", 2, 2, 60_011),
        ("planned", 2, 2, 60_012),
        ("zk_sent", 2, 2, 60_012),
        ("zk_acked", 2, 2, 60_014),
    )
    columns = ["commit_ms", "plan_ms", "zk_queue_ms", "zk_write_ms", "write_behind_ms"]
    found = batch_stages(frame(spark, RangeRow, given)).orderBy("first_offset").select(columns)
    assert [tuple(row) for row in found.collect()] == [
        (1.0, None, None, None, None),
        (1.0, 1.0, 0.0, 2.0, 3.0),
    ]


def test_the_summary_counts_only_batches_that_got_there(spark: SparkSession) -> None:
    given = ranges(("appended", 1, 1, 0), ("appended", 2, 2, 0), ("committed", 1, 1, 3))
    found = stage_latency(batch_stages(frame(spark, RangeRow, given)))
    [row] = found.where("step = 'commit_ms'").collect()
    assert (row.samples, row.mean_ms, row.max_ms) == (1, 3.0, 3.0)
