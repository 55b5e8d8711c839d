"""Tables by second, thinned for a plot: a page needs no more points than it has pixels."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS

POINTS: Final = 600


def by_slice(table: DataFrame, time: str, *values: Column, points: int = POINTS) -> DataFrame:
    """Aggregate a table in slices of equal length.

    Args:
        table: run_id, process, ``time``, and what ``values`` need.
        time: an integer column, of whatever unit.
        values: aggregates, each with an alias; ``slice`` is the length of a slice in units of time,
            ``begin`` the process's first ``time``.
        points: the greatest number of rows a process.

    Returns:
        run_id, process, ``time`` (the slice's begin), slice (its length), begin, and ``values``.
    """
    ends = table.groupBy(*KEYS).agg(F.min(time).alias("begin"), F.max(time).alias("_end"))
    length = F.ceil((F.col("_end") - F.col("begin") + 1) / points)
    whole = ends.select(*KEYS, "begin", length.alias("slice"))
    begin = F.col("begin") + F.floor((F.col(time) - F.col("begin")) / F.col("slice")) * F.col(
        "slice"
    )
    return (
        table.join(F.broadcast(whole), KEYS)
        .withColumn(time, begin)
        .groupBy(*KEYS, time, "slice", "begin")
        .agg(*values)
    )
