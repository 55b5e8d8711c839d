"""The life of each appended batch: when it reached every stage, and how long each step took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.carry import Fold, offset_bucket, running
from bench.analysis.quantiles import ms, quantile_tables
from bench.analysis.schema import KEYS
from emulator.trace.rows import PipelineStage

STEPS: Final[dict[str, tuple[PipelineStage, PipelineStage]]] = {
    "commit_ms": (PipelineStage.APPENDED, PipelineStage.COMMITTED),
    "plan_ms": (PipelineStage.COMMITTED, PipelineStage.PLANNED),
    "zk_queue_ms": (PipelineStage.PLANNED, PipelineStage.ZK_SENT),
    "zk_write_ms": (PipelineStage.ZK_SENT, PipelineStage.ZK_ACKED),
    "write_behind_ms": (PipelineStage.COMMITTED, PipelineStage.ZK_ACKED),
    "propagate_ms": (PipelineStage.COMMITTED, PipelineStage.PROPAGATED),
}
"""Step -> the stages it lies between."""
WRITE_BEHIND: Final = frozenset({"plan_ms", "zk_queue_ms", "zk_write_ms", "write_behind_ms"})
"""Steps of the write-behind, which begins with the claim."""


def reached(points: DataFrame, ranges: DataFrame, stages: Sequence[PipelineStage]) -> DataFrame:
    """Add to each point when its offset first reached each stage.

    A stage's row says that everything through its ``last_offset`` got there; so an offset reached
    the stage at the earliest row that ends at or past it. Ranges need not have the same borders.

    Args:
        points: run_id, process, offset (never null), and whatever else.
        ranges: the trace's table.
        stages: which to look up.

    Returns:
        ``points`` with one column ``<stage>_ns`` per stage, null where it was never reached.
    """
    marks = ranges.where(F.col("stage").isin([str(stage) for stage in stages])).select(
        *KEYS,
        F.col("last_offset").alias("offset"),
        F.col("stage").alias("_stage"),
        F.col("time_ns").alias("_time_ns"),
        F.lit(0).alias("_point"),
    )
    both = points.withColumn("_point", F.lit(1)).unionByName(marks, allowMissingColumns=True)
    # Seen from the greatest offset down, all rows before a point end at or past its offset.
    times = {
        f"{stage}_ns": (Fold.MIN, F.when(F.col("_stage") == str(stage), F.col("_time_ns")))
        for stage in stages
    }
    order = [F.desc("offset"), F.asc("_point")]
    reached_by = running(both, offset_bucket("offset"), order, times, descending=True)
    return reached_by.where("_point = 1").drop("_stage", "_time_ns", "_point")


def batch_stages(ranges: DataFrame) -> DataFrame:
    """Follow each appended batch through its stages.

    Returns:
        run_id, process, first_offset, last_offset, records, appended_ns, and one column per step
        of ``STEPS``; null where the batch never got that far (a NoOp has no step in ZooKeeper but
        its offset is acknowledged all the same). Steps of the write-behind are null for batches
        that were committed before its first acknowledgement: they waited for the migration.
    """
    batches = ranges.where(F.col("stage") == str(PipelineStage.APPENDED)).select(
        *KEYS,
        "first_offset",
        F.col("last_offset").alias("offset"),
        F.col("time_ns").alias("begin_ns"),
    )
    later = [stage for stage in PipelineStage if stage is not PipelineStage.APPENDED]
    acked_ns = F.when(F.col("stage") == str(PipelineStage.ZK_ACKED), F.col("time_ns"))
    began = ranges.groupBy(*KEYS).agg(F.min(acked_ns).alias("_began_ns"))
    followed = (
        reached(batches, ranges, later)
        .withColumnRenamed("begin_ns", "appended_ns")
        .join(F.broadcast(began), KEYS)
    )
    return followed.select(
        *KEYS,
        "first_offset",
        F.col("offset").alias("last_offset"),
        (F.col("offset") - F.col("first_offset") + 1).alias("records"),
        "appended_ns",
        *(_step(name) for name in STEPS),
    )


def _step(name: str) -> Column:
    begin, end = STEPS[name]
    lasted = ms(f"{end}_ns", f"{begin}_ns")
    if name in WRITE_BEHIND:
        lasted = F.when(F.col("committed_ns") >= F.col("_began_ns"), lasted)
    return lasted.alias(name)


def stage_latency(batches: DataFrame) -> DataFrame:
    """Summarise the result of ``batch_stages``: one row per process and step, with quantiles."""
    return quantile_tables(batches, {step: step for step in STEPS}, KEYS, "step")
