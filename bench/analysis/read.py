"""Read a trace by URI, one DataFrame per table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import struct_type
from emulator.trace import rows


class TraceVersionError(ValueError):
    """The trace was written with another schema version than this analysis knows."""


def read(spark: SparkSession, trace: str) -> dict[str, DataFrame]:
    """Open every table of a trace.

    Args:
        spark: a classic or a Connect session.
        trace: URI or path of the trace's folder, as the Spark server sees it.

    Raises:
        TraceVersionError: a process of the trace wrote another schema version.
    """
    tables = {
        name: spark.read.schema(struct_type(row)).parquet(f"{trace.rstrip('/')}/{name}")
        for name, row in rows.TABLES.items()
    }
    return of_known_version(tables)


def of_known_version(tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables as they are.

    Raises:
        TraceVersionError: a process of the trace wrote another schema version.
    """
    foreign = tables["runs"].where(F.col("schema_version") != rows.SCHEMA_VERSION)
    for run in foreign.select("process", "schema_version").distinct().limit(1).collect():
        raise TraceVersionError(
            f"{run.process} wrote trace schema {run.schema_version}; "
            f"this analysis reads schema {rows.SCHEMA_VERSION}"
        )
    return tables
