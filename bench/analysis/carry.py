"""Running values over a whole process, in pieces that are tasks of their own.

A window over all rows of a process is one task, however many cores there are. Here rows are cut
into buckets of offsets or of time. Each bucket is one partition of the window, and what the buckets
before it amount to (one row a bucket) is joined to its rows. Only the table of buckets is one task:
it has one row where the trace has up to a few hundred thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS

OFFSET_BITS: Final = 16
"""65,536 offsets a bucket: at most one row of each stage and one request per offset."""

TIME_BITS: Final = 33
"""2 ** 33 ns, 8.6 seconds, a bucket."""

_BUCKET: Final = "_bucket"


class Fold(Enum):
    """How values of rows become one value; each ignores nulls and needs no order."""

    MAX = "max"
    MIN = "min"
    SUM = "sum"

    @property
    def over_rows(self) -> Callable[[Column], Column]:
        """The aggregate function."""
        return {Fold.MAX: F.max, Fold.MIN: F.min, Fold.SUM: F.sum}[self]

    def both(self, carried: Column, here: Column) -> Column:
        """Two values as one; null only if both are."""
        if self is Fold.SUM:
            zero = F.lit(0)
            sure = F.coalesce(carried, zero) + F.coalesce(here, zero)
            return F.when(carried.isNotNull() | here.isNotNull(), sure)
        return (F.greatest if self is Fold.MAX else F.least)(carried, here)


def offset_bucket(offset: str) -> Column:
    """The bucket of a column of offsets."""
    return F.shiftright(offset, OFFSET_BITS)


def time_bucket(time_ns: str) -> Column:
    """The bucket of a column of nanoseconds."""
    return F.shiftright(time_ns, TIME_BITS)


def running(
    frame: DataFrame,
    bucket: Column,
    order: Sequence[Column],
    folds: Mapping[str, tuple[Fold, Column]],
    *,
    descending: bool = False,
    before: bool = False,
    following: tuple[str, str] | None = None,
) -> DataFrame:
    """Add running values, per run and process, over all rows up to each.

    Args:
        frame: run_id, process, and whatever else; it is computed twice, so it should be cheap.
        bucket: ``offset_bucket`` or ``time_bucket`` of the column that ``order`` begins with.
        order: the order of rows; it begins with the bucket's column, descending if ``descending``.
        folds: name of a new column -> how, and what of.
        descending: whether rows run from the greatest bucket down.
        before: leave the row itself out.
        following: (new column, column): the value of a column in the next row of the process.
    """
    cut = frame.withColumn(_BUCKET, bucket)
    carried = {name: f"_carried_{name}" for name in folds}
    parts = [fold.over_rows(value).alias(name) for name, (fold, value) in folds.items()]
    if following is not None:
        parts.append(F.min(following[1]).alias("_first"))
    way = F.desc(_BUCKET) if descending else F.asc(_BUCKET)
    buckets = Window.partitionBy(*KEYS).orderBy(way)
    earlier = buckets.rowsBetween(Window.unboundedPreceding, -1)
    carry = (
        cut.groupBy(*KEYS, _BUCKET)
        .agg(*parts)
        .select(
            *KEYS,
            _BUCKET,
            *(
                fold.over_rows(F.col(name)).over(earlier).alias(carried[name])
                for name, (fold, _) in folds.items()
            ),
            *([F.lead("_first").over(buckets).alias("_after")] if following else []),
        )
    )
    rows = Window.partitionBy(*KEYS, _BUCKET).orderBy(*order)
    inside = rows.rowsBetween(Window.unboundedPreceding, -1 if before else Window.currentRow)
    values = [
        fold.both(F.col(carried[name]), fold.over_rows(value).over(inside)).alias(name)
        for name, (fold, value) in folds.items()
    ]
    if following is not None:
        name, column = following
        values.append(F.coalesce(F.lead(column).over(rows), F.col("_after")).alias(name))
    together = cut.join(carry, [*KEYS, _BUCKET])
    return together.select(*(F.col(name) for name in frame.columns), *values)
