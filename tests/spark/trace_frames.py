"""Rows of a trace as the DataFrames that ``read`` would give."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyspark.sql import DataFrame, SparkSession

from bench.analysis.schema import struct_type
from emulator.trace import rows

PROCESS, RUN = "c", "r"


def frame(
    spark: SparkSession, kind: type[msgspec.Struct], given: Iterable[msgspec.Struct]
) -> DataFrame:
    """One table of one process."""
    values = [(*msgspec.to_builtins(msgspec.structs.astuple(row)), PROCESS, RUN) for row in given]
    return spark.createDataFrame(values, struct_type(kind))


def ms(value: float) -> int:
    """Milliseconds as nanoseconds."""
    return round(value * 1_000_000)


def ranges(*given: tuple[str, int, int, float]) -> list[rows.RangeRow]:
    """(stage, first, last, ms) each."""
    return [rows.RangeRow(stage, first, last, ms(time)) for stage, first, last, time in given]


def frames(spark: SparkSession, trace: Iterable[rows.Row]) -> dict[str, DataFrame]:
    """Every table of a trace of one process."""
    listed = list(trace)
    return {
        table: frame(spark, kind, [row for row in listed if type(row) is kind])
        for table, kind in rows.TABLES.items()
    }
