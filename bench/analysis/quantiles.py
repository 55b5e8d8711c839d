"""Quantiles with their number of samples and their accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

ACCURACY: Final = 100_000
"""Of ``percentile_approx``: ranks are off by at most count / ACCURACY (Spark's default of 10,000
put p99.9 of 100,000 values 4.4 % too low)."""

EXACT_SAMPLES: Final = ACCURACY // 2
"""Up to this many samples the result is the exact nearest rank."""

SAMPLES_FOR_P999: Final = 10_000
"""With fewer than ten values beyond a quantile it is not reported."""


def quantile_table(frame: DataFrame, value: str, by: Sequence[str]) -> DataFrame:
    """Summarise a column of milliseconds by group.

    Args:
        frame: any; nulls of ``value`` are left out.
        value: a column named ``*_ms``.
        by: columns to group by.

    Returns:
        ``by``, samples, mean_ms, p50_ms, p90_ms, p99_ms, p999_ms (null under 10,000 samples),
        max_ms, accuracy (words).
    """
    quantiles = F.percentile_approx(value, [0.5, 0.9, 0.99, 0.999], ACCURACY)
    grouped = (
        frame.where(F.col(value).isNotNull())
        .groupBy(*by)
        .agg(
            F.count(value).alias("samples"),
            F.avg(value).alias("mean_ms"),
            quantiles.alias("_quantiles"),
            F.max(value).alias("max_ms"),
        )
    )
    return grouped.select(
        *by,
        "samples",
        "mean_ms",
        F.col("_quantiles")[0].alias("p50_ms"),
        F.col("_quantiles")[1].alias("p90_ms"),
        F.col("_quantiles")[2].alias("p99_ms"),
        F.when(F.col("samples") >= SAMPLES_FOR_P999, F.col("_quantiles")[3]).alias("p999_ms"),
        "max_ms",
        F.when(F.col("samples") <= EXACT_SAMPLES, F.lit("exact"))
        .otherwise(F.lit(f"rank within 1/{ACCURACY} of samples"))
        .alias("accuracy"),
    )


def ms(later: str | Column, earlier: str | Column) -> Column:
    """Milliseconds from one ``*_ns`` column to another; null where either is."""
    end = F.col(later) if isinstance(later, str) else later
    begin = F.col(earlier) if isinstance(earlier, str) else earlier
    return (end - begin) / F.lit(1e6)
