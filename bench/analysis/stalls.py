"""Stalls of the event loop: latencies measured during them are not reliable."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ms
from bench.analysis.schema import KEYS

NOISY_MS: Final = 50.0
"""A stall of at least this length marks its second as noisy."""


def stall_summary(stalls: DataFrame) -> DataFrame:
    """Count stalls.

    Returns:
        run_id, process, stalls, stalled_ms, longest_ms, noisy_stalls (of 50 ms or more).
    """
    long = ms("end_ns", "begin_ns")
    return stalls.groupBy(*KEYS).agg(
        F.count("*").alias("stalls"),
        F.sum(long).alias("stalled_ms"),
        F.max(long).alias("longest_ms"),
        F.sum((long >= NOISY_MS).cast("long")).alias("noisy_stalls"),
    )


def noisy_seconds(stalls: DataFrame) -> DataFrame:
    """Seconds touched by a stall of 50 ms or more.

    Returns:
        run_id, process, second, longest_ms.
    """
    nanos = 1_000_000_000
    length = ms("end_ns", "begin_ns")
    touched = F.sequence(F.floor(F.col("begin_ns") / nanos), F.floor(F.col("end_ns") / nanos))
    return (
        stalls.where(length >= NOISY_MS)
        .select(*KEYS, length.alias("longest_ms"), F.explode(touched).alias("second"))
        .groupBy(*KEYS, "second")
        .agg(F.max("longest_ms").alias("longest_ms"))
    )
