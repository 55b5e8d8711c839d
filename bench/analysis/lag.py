"""How far ZooKeeper is behind the log: in records, without NoOps, and in milliseconds.

The definitions are those of the gauges (``kraft_bridge_zk_write_behind_lag_*``), computed from
the trace alone; the report sets both side by side.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.carry import Fold, offset_bucket, running, time_bucket
from bench.analysis.quantiles import ms
from bench.analysis.schema import KEYS
from bench.analysis.thin import by_slice
from emulator.trace.metrics import (
    ZK_WRITE_BEHIND_LAG,
    ZK_WRITE_BEHIND_LAG_MS,
    ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS,
)
from emulator.trace.rows import PipelineStage

_COMMITTED: Final = str(PipelineStage.COMMITTED)
_ACKED: Final = str(PipelineStage.ZK_ACKED)
_GAUGES: Final = {
    ZK_WRITE_BEHIND_LAG.name: "lag_records",
    ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS.name: "lag_without_no_ops_records",
    ZK_WRITE_BEHIND_LAG_MS.name: "lag_ms",
}


def lag_series(ranges: DataFrame) -> DataFrame:
    """Lag wherever it changes, and the instant before each acknowledgement: its peaks.

    Before the first acknowledgement there is no lag to speak of. Of rows at the same instant all
    count as having happened.

    Returns:
        run_id, process, time_ns, lag_records, lag_without_no_ops_records (exact where no batch
        mixes NoOps with other records), lag_ms (age of the oldest committed record not
        acknowledged that changes something), lasted_ns (until the next change; 0 of a peak, which
        only shows the value that ends there; null of the last row).
    """
    moves = ranges.where(F.col("stage").isin(_COMMITTED, _ACKED)).select(
        *KEYS, "stage", "time_ns", "first_offset", "last_offset", "no_op_records"
    )
    buckets = _buckets(moves)
    known = _states(_with_what_follows(moves, buckets), buckets)
    behind = F.greatest(F.col("_c.offset") - F.col("_a.offset"), F.lit(0))
    mark = F.col("_a.oldest")
    # Of the first batch that changes something, some may be acknowledged already.
    done = F.greatest(F.col("_a.offset") - mark["first"] + 1, F.lit(0))
    work = F.col("_a.work_after") - F.least(done, mark["work"]) - F.col("_c.work_after")
    return known.select(
        *KEYS,
        "time_ns",
        behind.alias("lag_records"),
        F.when(behind > 0, work)
        .otherwise(F.lit(0))
        .cast("long")
        .alias("lag_without_no_ops_records"),
        F.when(work > 0, ms("time_ns", mark["time_ns"])).otherwise(F.lit(0.0)).alias("lag_ms"),
        "lasted_ns",
    )


def _buckets(moves: DataFrame) -> DataFrame:
    """One row per bucket of time: offsets committed and acknowledged in the buckets before it.

    Returns:
        run_id, process, bucket, committed, acked, previous_ns (the last row before the bucket),
        next_ns (the first one after it).
    """
    offset, stage = F.col("last_offset"), F.col("stage")
    buckets = Window.partitionBy(*KEYS).orderBy("bucket")
    earlier = buckets.rowsBetween(Window.unboundedPreceding, -1)
    return (
        moves.groupBy(*KEYS, time_bucket("time_ns").alias("bucket"))
        .agg(
            F.max(F.when(stage == _COMMITTED, offset)).alias("_committed"),
            F.max(F.when(stage == _ACKED, offset)).alias("_acked"),
            F.min("time_ns").alias("_first"),
            F.max("time_ns").alias("_last"),
        )
        .select(
            *KEYS,
            "bucket",
            F.max("_committed").over(earlier).alias("committed"),
            F.max("_acked").over(earlier).alias("acked"),
            F.max("_last").over(earlier).alias("previous_ns"),
            F.lead("_first").over(buckets).alias("next_ns"),
        )
    )


def _with_what_follows(moves: DataFrame, buckets: DataFrame) -> DataFrame:
    """Add to each offset what was committed after it, whenever that was.

    Args:
        moves: rows committed and acknowledged.
        buckets: the result of ``_buckets``: its offsets are looked up like any others, so that
            each bucket of time begins with what is known by then.

    Returns:
        run_id, process, bucket (of time), time_ns (null: known before the bucket), stage, offset,
        work_after (records that change something, in batches that end past the offset), oldest (the
        first of these batches that changes something: last, first, time_ns, work).
    """
    committed = F.col("stage") == _COMMITTED
    offset = F.col("last_offset")
    work = F.col("last_offset") - F.col("first_offset") + 1 - F.col("no_op_records")
    batch = F.struct(
        offset.alias("last"), F.col("first_offset").alias("first"), "time_ns", work.alias("work")
    )
    known = F.explode(
        F.array(
            F.struct(F.lit(_COMMITTED).alias("stage"), F.col("committed").alias("offset")),
            F.struct(F.lit(_ACKED).alias("stage"), F.col("acked").alias("offset")),
        )
    )
    looked_up = (
        buckets.select(*KEYS, "bucket", known.alias("_known"))
        .select(*KEYS, "bucket", "_known.*")
        .where("offset is not null")
    )
    rows = moves.select(
        *KEYS,
        time_bucket("time_ns").alias("bucket"),
        "time_ns",
        "stage",
        offset.alias("offset"),
        F.when(committed, work).alias("_work"),
        F.when(committed & (work > 0), batch).alias("_batch"),
    ).unionByName(looked_up, allowMissingColumns=True)
    # From the greatest offset down, what comes before a row was committed past its offset.
    folds = {"work_after": (Fold.SUM, F.col("_work")), "oldest": (Fold.MIN, F.col("_batch"))}
    down = [F.desc("offset"), F.col("_batch").isNotNull()]
    followed = running(rows, offset_bucket("offset"), down, folds, descending=True, before=True)
    return followed.drop("_work", "_batch").fillna(0, ["work_after"])


def _states(rows: DataFrame, buckets: DataFrame) -> DataFrame:
    """What was committed and acknowledged at each instant, and just before each acknowledgement.

    Args:
        rows: the result of ``_with_what_follows``.
        buckets: the result of ``_buckets``.

    Returns:
        run_id, process, time_ns, _c and _a (offset, work_after, oldest: of the greatest offset
        committed and acknowledged), lasted_ns.
    """
    both = rows.unionByName(
        buckets.select(*KEYS, "bucket", "previous_ns", "next_ns"), allowMissingColumns=True
    )
    bucket = Window.partitionBy(*KEYS, "bucket").orderBy("time_ns")  # null, so known before: first
    now = bucket.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = bucket.rangeBetween(Window.unboundedPreceding, -1)
    state = F.struct("offset", "work_after", "oldest")
    committed = F.when(F.col("stage") == _COMMITTED, state)
    acked = F.when(F.col("stage") == _ACKED, state)
    acked_ns = F.when(F.col("stage") == _ACKED, F.col("time_ns"))
    at = both.select(
        *KEYS,
        "time_ns",
        F.struct(F.max(committed).over(now).alias("c"), F.max(acked).over(now).alias("a")).alias(
            "_now"
        ),
        F.struct(
            F.max(committed).over(earlier).alias("c"), F.max(acked).over(earlier).alias("a")
        ).alias("_earlier"),
        (F.max(acked_ns).over(now) == F.col("time_ns")).alias("_is_ack"),
        F.coalesce(F.max("time_ns").over(earlier), F.max("previous_ns").over(now)).alias("_before"),
        F.coalesce(F.lead("time_ns").over(bucket), F.max("next_ns").over(now)).alias("_next"),
    )
    last_of_instant = "time_ns is not null and (_next is null or _next > time_ns)"
    here = F.struct(
        "time_ns", F.col("_now").alias("_s"), (F.col("_next") - F.col("time_ns")).alias("lasted_ns")
    )
    peak_ns = F.col("time_ns") - 1
    peak = F.when(
        F.col("_is_ack") & (F.col("_before") < peak_ns),
        F.struct(
            peak_ns.alias("time_ns"),
            F.col("_earlier").alias("_s"),
            F.lit(0).cast("long").alias("lasted_ns"),
        ),
    )
    return (
        at.where(last_of_instant)
        .select(*KEYS, F.explode(F.array(peak, here)).alias("_at"))
        .where("_at._s.a is not null and _at._s.c is not null")
        .select(*KEYS, "_at.time_ns", "_at._s.c", "_at._s.a", "_at.lasted_ns")
        .withColumnsRenamed({"c": "_c", "a": "_a"})
    )


def lag_chart(series: DataFrame, clock: DataFrame) -> DataFrame:
    """Thin the result of ``lag_series`` for a plot: the greatest value in each slice of time.

    Args:
        series: of processes; that of a quorum is on the wall clock already.
        clock: see `bench.analysis.quorum.clocks`.

    Returns:
        run_id, process, wall_ns (the slice's begin), lag_records, lag_ms.
    """
    thinned = by_slice(
        series,
        "time_ns",
        F.max("lag_records").alias("lag_records"),
        F.max("lag_ms").alias("lag_ms"),
    )
    of_wall = thinned.join(F.broadcast(clock.select(*KEYS, "offset_ns")), KEYS, "left")
    wall_ns = F.try_add("time_ns", F.coalesce("offset_ns", F.lit(0)))
    return of_wall.select(*KEYS, wall_ns.alias("wall_ns"), "lag_records", "lag_ms")


def lag_summary(series: DataFrame) -> DataFrame:
    """Summarise the result of ``lag_series``.

    Returns:
        run_id, process, max_lag_records, max_lag_ns (when first), max_lag_ms, mean_lag_records
        (weighted by time),
        behind_share (of the time, some record that changes something was unwritten),
        last_lag_records (after the drain: without NoOps).
    """
    lasted = F.col("lasted_ns")
    behind = F.when(F.col("lag_without_no_ops_records") > 0, lasted).otherwise(F.lit(0))
    return series.groupBy(*KEYS).agg(
        F.max("lag_records").alias("max_lag_records"),
        F.max_by("time_ns", F.struct("lag_records", -F.col("time_ns"))).alias("max_lag_ns"),
        F.max("lag_ms").alias("max_lag_ms"),
        (F.sum(F.col("lag_records") * lasted.cast("double")) / F.sum(lasted)).alias(
            "mean_lag_records"
        ),
        (F.sum(behind) / F.sum(lasted)).alias("behind_share"),
        F.max_by("lag_without_no_ops_records", "time_ns").alias("last_lag_records"),
    )


def lag_against_gauge(series: DataFrame, gauges: DataFrame) -> DataFrame:
    """Set what the controller's lag gauges showed beside what the trace says of that instant.

    Args:
        series: the result of ``lag_series``.
        gauges: the trace's table.

    Returns:
        run_id, process, time_ns, gauge, gauge_value, trace_value; one row per reading from the
        first acknowledgement on.
    """
    state = F.struct("time_ns", "lag_records", "lag_without_no_ops_records", "lag_ms")
    known = series.select(*KEYS, "time_ns", state.alias("_state"), F.lit(0).alias("_point"))
    readings = gauges.where(F.col("gauge").isin(list(_GAUGES))).withColumn("_point", F.lit(1))
    both = readings.unionByName(known, allowMissingColumns=True)
    order = [F.asc("time_ns"), F.asc("_point")]
    found = running(
        both, time_bucket("time_ns"), order, {"_known": (Fold.MAX, F.col("_state"))}
    ).where("_point = 1 and _known is not null")
    # Nothing moved since: a lag of records stays as it is, and its age grows.
    aged = F.col("_known.lag_ms") + ms("time_ns", F.col("_known.time_ns"))
    columns = {
        "lag_records": F.col("_known.lag_records").cast("double"),
        "lag_without_no_ops_records": F.col("_known.lag_without_no_ops_records").cast("double"),
        "lag_ms": F.when(F.col("_known.lag_without_no_ops_records") > 0, aged).otherwise(
            F.lit(0.0)
        ),
    }
    value = F.coalesce(
        *(F.when(F.col("gauge") == gauge, columns[name]) for gauge, name in _GAUGES.items())
    )
    return found.select(
        *KEYS, "time_ns", "gauge", F.col("value").alias("gauge_value"), value.alias("trace_value")
    )


def gauge_agreement(compared: DataFrame) -> DataFrame:
    """Summarise the result of ``lag_against_gauge``.

    Returns:
        run_id, process, gauge, readings, agreeing (within 1 record or 1 ms), greatest_difference.
    """
    off = F.abs(F.col("gauge_value") - F.col("trace_value"))
    return compared.groupBy(*KEYS, "gauge").agg(
        F.count("*").alias("readings"),
        F.sum((off <= 1.0).cast("long")).alias("agreeing"),
        F.max(off).alias("greatest_difference"),
    )
