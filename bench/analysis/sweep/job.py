"""The job over many runs: folders of bench runs in, one row a run and one a slice of it out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.analysis.stalls import NOISY_MS
from bench.analysis.sweep.measures import parts_of, per_run, per_slice, stalled_ms
from bench.analysis.sweep.rows import read_sweep, windows

TABLES = ("described", "runs", "slices", "stalls")


def run(spark: SparkSession, folders: Sequence[str], out: str) -> None:
    """Measure each run, and write ``TABLES`` as Parquet below ``out``; all are URIs.

    Raises:
        TraceVersionError: a trace has another schema version.
    """

    def kept(name: str, table: DataFrame) -> DataFrame:
        table.write.parquet(f"{out}/{name}", "overwrite")
        return spark.read.schema(table.schema).parquet(f"{out}/{name}")

    sweep = read_sweep(spark, folders)
    described = kept("described", sweep.described)
    steady = windows(described)
    parts = parts_of(sweep.trace, steady, kept)
    tables = {
        "runs": per_run(parts, steady),
        "slices": per_slice(parts),
        "stalls": stalled_ms(sweep.trace["stalls"], steady, NOISY_MS),
    }
    with ThreadPoolExecutor(len(tables)) as pool:
        list(pool.map(lambda name: kept(name, tables[name]), tables))


def records(spark: SparkSession, out: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of ``TABLES``: as many as runs, or at most 60 times that."""
    return {
        name: [row.asDict() for row in spark.read.parquet(f"{out}/{name}").collect()]
        for name in TABLES
    }
