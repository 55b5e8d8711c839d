"""How far ZooKeeper is behind the log: in records, without NoOps, and in milliseconds.

The definitions are those of the gauges (``kraft_bridge_zk_write_behind_lag_*``), computed from
the trace alone; the report sets both side by side.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ms
from bench.analysis.schema import KEYS
from emulator.trace.metrics import (
    ZK_WRITE_BEHIND_LAG,
    ZK_WRITE_BEHIND_LAG_MS,
    ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS,
)
from emulator.trace.rows import Stage

_GAUGES = {
    ZK_WRITE_BEHIND_LAG.name: "lag_records",
    ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS.name: "lag_without_no_ops_records",
    ZK_WRITE_BEHIND_LAG_MS.name: "lag_ms",
}


def lag_at(ranges: DataFrame, times: DataFrame) -> DataFrame:
    """Lag at given instants; before the first acknowledgement there is none to speak of.

    Args:
        ranges: the trace's table.
        times: run_id, process, time_ns, and whatever else. A row of ``ranges`` of the very same
            instant counts as having happened.

    Returns:
        ``times`` from the first acknowledgement on, with lag_records, lag_without_no_ops_records
        (exact where no batch mixes NoOps with other records), lag_ms (age of the oldest committed
        record not acknowledged).
    """
    committed = _committed(ranges)
    known = _offsets_at(committed, ranges, times)
    oldest = _first_unacknowledged(known, committed)
    behind = F.greatest(F.col("_committed") - F.col("_acked"), F.lit(0))
    # Of the batch that holds the first unacknowledged record, some may be acknowledged already.
    done = F.greatest(F.col("_acked") - F.col("_batch.first") + 1, F.lit(0))
    acked_work = F.col("_batch.work_before") + F.least(done, F.col("_batch.work"))
    return oldest.select(
        *times.columns,
        behind.alias("lag_records"),
        F.when(behind > 0, F.col("_committed_work") - acked_work)
        .otherwise(F.lit(0))
        .cast("long")
        .alias("lag_without_no_ops_records"),
        F.when(behind > 0, ms("time_ns", "_batch.time_ns")).otherwise(F.lit(0.0)).alias("lag_ms"),
    )


def _committed(ranges: DataFrame) -> DataFrame:
    """Committed batches with their records that change something, and the sum of those before."""
    work = F.col("last_offset") - F.col("first_offset") + 1 - F.col("no_op_records")
    before = (
        Window.partitionBy(*KEYS).orderBy("last_offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    return ranges.where(F.col("stage") == str(Stage.COMMITTED)).select(
        *KEYS,
        "first_offset",
        "last_offset",
        "time_ns",
        work.alias("work"),
        F.coalesce(F.sum(work).over(before), F.lit(0)).alias("work_before"),
    )


def _offsets_at(committed: DataFrame, ranges: DataFrame, times: DataFrame) -> DataFrame:
    """Add to each instant the offset committed and the one acknowledged by then."""
    marks = committed.select(
        *KEYS,
        "time_ns",
        F.col("last_offset").alias("_c"),
        (F.col("work_before") + F.col("work")).alias("_w"),
        F.lit(0).alias("_point"),
    ).unionByName(
        ranges.where(F.col("stage") == str(Stage.ZK_ACKED)).select(
            *KEYS, "time_ns", F.col("last_offset").alias("_a"), F.lit(0).alias("_point")
        ),
        allowMissingColumns=True,
    )
    both = times.withColumn("_point", F.lit(1)).unionByName(marks, allowMissingColumns=True)
    window = (
        Window.partitionBy(*KEYS)
        .orderBy("time_ns", "_point")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        both.select(
            "*",
            F.max("_c").over(window).alias("_committed"),
            F.max("_a").over(window).alias("_acked"),
            F.max("_w").over(window).alias("_committed_work"),
        )
        .where("_point = 1 and _acked is not null and _committed is not null")
        .drop("_c", "_a", "_w", "_point")
    )


def _first_unacknowledged(known: DataFrame, committed: DataFrame) -> DataFrame:
    """Add the first committed batch that ends past the acknowledged offset, as ``_batch``."""
    batch = F.struct(F.col("first_offset").alias("first"), "time_ns", "work", "work_before")
    marks = committed.select(
        *KEYS, F.col("last_offset").alias("_at"), batch.alias("_mark"), F.lit(0).alias("_point")
    )
    points = known.withColumn("_at", F.col("_acked") + 1).withColumn("_point", F.lit(1))
    window = (
        Window.partitionBy(*KEYS)
        .orderBy(F.col("_at").desc(), "_point")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        points.unionByName(marks, allowMissingColumns=True)
        .select("*", F.last("_mark", ignorenulls=True).over(window).alias("_batch"))
        .where("_point = 1")
    )


def lag_series(ranges: DataFrame) -> DataFrame:
    """Lag wherever it changes, and the instant before each acknowledgement: its peaks.

    Returns:
        run_id, process, time_ns, lag_records, lag_without_no_ops_records, lag_ms.
    """
    acked = F.col("stage") == str(Stage.ZK_ACKED)
    moves = ranges.where(acked | (F.col("stage") == str(Stage.COMMITTED)))
    peaks = ranges.where(acked).select(*KEYS, (F.col("time_ns") - 1).alias("time_ns"))
    times = moves.select(*KEYS, "time_ns").union(peaks).distinct()
    return lag_at(ranges, times).select(
        *KEYS, "time_ns", "lag_records", "lag_without_no_ops_records", "lag_ms"
    )


def lag_chart(series: DataFrame, points: int = 600) -> DataFrame:
    """Thin the result of ``lag_series`` for a plot: the greatest value in each slice of time.

    Returns:
        run_id, process, seconds (since the first row), lag_records, lag_ms; at most ``points`` rows
        a process.
    """
    whole = Window.partitionBy(*KEYS)
    since = F.col("time_ns") - F.min("time_ns").over(whole)
    slice_ns = F.ceil((F.max("time_ns").over(whole) - F.min("time_ns").over(whole) + 1) / points)
    return (
        series.select("*", (F.floor(since / slice_ns) * slice_ns / F.lit(1e9)).alias("seconds"))
        .groupBy(*KEYS, "seconds")
        .agg(F.max("lag_records").alias("lag_records"), F.max("lag_ms").alias("lag_ms"))
    )


def lag_summary(series: DataFrame) -> DataFrame:
    """Summarise the result of ``lag_series``.

    Returns:
        run_id, process, max_lag_records, max_lag_ms, mean_lag_records (weighted by time),
        behind_share (of the time, some record that changes something was unwritten),
        last_lag_records (after the drain: without NoOps).
    """
    window = Window.partitionBy(*KEYS).orderBy("time_ns")
    lasted = series.withColumn(
        "_s", (F.lead("time_ns").over(window) - F.col("time_ns")) / F.lit(1e9)
    )
    behind = F.when(F.col("lag_without_no_ops_records") > 0, F.col("_s")).otherwise(F.lit(0.0))
    return lasted.groupBy(*KEYS).agg(
        F.max("lag_records").alias("max_lag_records"),
        F.max("lag_ms").alias("max_lag_ms"),
        (F.sum(F.col("lag_records") * F.col("_s")) / F.sum("_s")).alias("mean_lag_records"),
        (F.sum(behind) / F.sum("_s")).alias("behind_share"),
        F.max_by("lag_without_no_ops_records", "time_ns").alias("last_lag_records"),
    )


def lag_against_gauge(ranges: DataFrame, gauges: DataFrame) -> DataFrame:
    """Set what the controller's lag gauges showed beside what the trace says of that instant.

    Returns:
        run_id, process, time_ns, gauge, gauge_value, trace_value; one row per reading from the
        first acknowledgement on.
    """
    wanted = gauges.where(F.col("gauge").isin(list(_GAUGES)))
    found = lag_at(ranges, wanted)
    value = F.coalesce(
        *(
            F.when(F.col("gauge") == gauge, F.col(column).cast("double"))
            for gauge, column in _GAUGES.items()
        )
    )
    return found.select(
        *KEYS, "time_ns", "gauge", F.col("value").alias("gauge_value"), value.alias("trace_value")
    )
