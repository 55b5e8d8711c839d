"""What each kind of work costs: znode operations, bytes and time in ZooKeeper, records per API."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ms, quantile_table
from bench.analysis.schema import KEYS


def by_operation(multis: DataFrame) -> DataFrame:
    """Split acknowledged multis by kind of work.

    A multi's time is shared among its kinds in proportion to their znode operations, so the
    column adds up to the time of all multis.

    Returns:
        run_id, process, operation, multis (that held any), ops, bytes, zk_ms, ms_per_op.
    """
    each = multis.where("result = 'ok'").select(
        *KEYS,
        (ms("answered_ns", "sent_ns") / _all_ops()).alias("_ms_per_op"),
        F.explode("operations").alias("part"),
    )
    shared = each.select(
        *KEYS,
        F.col("part.operation").alias("operation"),
        F.col("part.ops").alias("ops"),
        F.col("part.bytes").alias("bytes"),
        (F.col("_ms_per_op") * F.col("part.ops")).alias("zk_ms"),
    )
    return (
        shared.groupBy(*KEYS, "operation")
        .agg(
            F.count("*").alias("multis"),
            F.sum("ops").alias("ops"),
            F.sum("bytes").alias("bytes"),
            F.sum("zk_ms").alias("zk_ms"),
        )
        .withColumn("ms_per_op", F.col("zk_ms") / F.col("ops"))
    )


def _all_ops() -> Column:
    return F.aggregate("operations", F.lit(0).cast("long"), lambda total, part: total + part.ops)


def multi_latency(multis: DataFrame) -> DataFrame:
    """Quantiles of a multi's latency, by what became of it."""
    timed = multis.withColumn("latency_ms", ms("answered_ns", "sent_ns"))
    return quantile_table(timed, "latency_ms", [*KEYS, "result"])


def coalescing(multis: DataFrame) -> DataFrame:
    """How many records and operations share one round trip.

    Returns:
        run_id, process, multis, records, ops, bytes, records_per_multi, ops_per_multi.
    """
    covered = F.greatest(F.col("last_offset") - F.col("first_offset") + 1, F.lit(0))
    summed = (
        multis.where("result = 'ok'")
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("multis"),
            F.sum(covered).alias("records"),
            F.sum("ops").alias("ops"),
            F.sum("bytes").alias("bytes"),
        )
    )
    return summed.select(
        "*",
        (F.col("records") / F.col("multis")).alias("records_per_multi"),
        (F.col("ops") / F.col("multis")).alias("ops_per_multi"),
    )


def by_api(servers: DataFrame) -> DataFrame:
    """Requests, errors and records by API, from ``latency.server_requests``.

    Returns:
        run_id, process, api, requests, forwarded, errors, records.
    """
    return servers.groupBy(*KEYS, "api").agg(
        F.count("*").alias("requests"),
        F.sum(F.col("forwarded").cast("long")).alias("forwarded"),
        F.sum((F.col("error_code") != 0).cast("long")).alias("errors"),
        F.sum("records").alias("records"),
    )
