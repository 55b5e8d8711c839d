"""Quantiles with their number of samples and their accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from emulator.trace.distribution import BEYOND

ACCURACY: Final = 100_000
"""Of ``percentile_approx``: ranks are off by at most count / ACCURACY (Spark's default of 10,000
put p99.9 of 100,000 values 4.4 % too low)."""

EXACT_SAMPLES: Final = ACCURACY // 2
"""Up to this many samples the result is the exact nearest rank."""

_SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


def quantile_table(frame: DataFrame, value: str, by: Sequence[str]) -> DataFrame:
    """Summarise a column of milliseconds by group.

    Args:
        frame: any; nulls of ``value`` are left out; an infinite one counts, but for the mean.
        value: a column named ``*_ms``.
        by: columns to group by.

    Returns:
        ``by``, samples, mean_ms, p50_ms, p90_ms, p99_ms, p999_ms (each null where not ``enough``
        samples lie beyond it), max_ms, accuracy (words).
    """
    summed = frame.where(F.col(value).isNotNull()).groupBy(*by).agg(_summary(value).alias("_s"))
    return summed.select(*by, *_shown("_s"))


def quantile_tables(
    frame: DataFrame, values: Mapping[str, str], by: Sequence[str], name: str
) -> DataFrame:
    """Summarise several columns of milliseconds in one pass, instead of one row a value.

    Args:
        frame: any; nulls of a value are left out.
        values: what to call it -> column named ``*_ms``.
        by: columns to group by.
        name: the column that tells which value a row is about.

    Returns:
        ``by``, ``name``, and the columns of ``quantile_table``; one row per group and value that
        has samples.
    """
    each = [
        F.struct(F.lit(label).alias(name), _summary(value).alias("_s"))
        for label, value in values.items()
    ]
    summed = frame.groupBy(*by).agg(F.array(*each).alias("_each"))
    long = summed.select(*by, F.explode("_each").alias("_e"))
    found = long.select(*by, f"_e.{name}", "_e._s").where("_s.samples > 0")
    return found.select(*by, name, *_shown("_s"))


def _summary(value: str) -> Column:
    quantiles = F.percentile_approx(value, [*_SHARES.values()], ACCURACY)
    return F.struct(
        F.count(value).alias("samples"),
        F.avg(F.when(F.col(value) < math.inf, F.col(value))).alias("mean_ms"),
        quantiles.alias("quantiles"),
        F.max(value).alias("max_ms"),
    )


def _shown(summary: str) -> list[Column]:
    samples, quantiles = F.col(f"{summary}.samples"), F.col(f"{summary}.quantiles")
    return [
        samples.alias("samples"),
        F.col(f"{summary}.mean_ms").alias("mean_ms"),
        *(
            F.when(enough_values(samples, share), quantiles[at]).alias(name)
            for at, (name, share) in enumerate(_SHARES.items())
        ),
        F.col(f"{summary}.max_ms").alias("max_ms"),
        F.when(samples <= EXACT_SAMPLES, F.lit("exact"))
        .otherwise(F.lit(f"rank within 1/{ACCURACY} of samples"))
        .alias("accuracy"),
    ]


def enough_values(samples: Column, share: float) -> Column:
    """``figures.enough`` of a column."""
    return samples - F.ceil(F.round(samples * share, 6)) >= BEYOND


def ms(later: str | Column, earlier: str | Column) -> Column:
    """Milliseconds from one ``*_ns`` column to another; null where either is."""
    end = F.col(later) if isinstance(later, str) else later
    begin = F.col(earlier) if isinstance(earlier, str) else earlier
    return (end - begin) / F.lit(1e6)
