"""The job over many runs: folders of bench runs in, one row a run and one a slice of it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.analysis.job import at_once, kept
from bench.analysis.job import records as of_table
from bench.analysis.stalls import NOISY_MS
from bench.analysis.sweep.measures import parts_of, per_run, per_slice, stalled_ms
from bench.analysis.sweep.rows import read_sweep, windows

TABLES = ("described", "runs", "slices", "stalls")


def run(spark: SparkSession, folders: Sequence[str], out: str) -> None:
    """Measure each run, and write ``TABLES`` as Parquet below ``out``; all are URIs.

    Raises:
        TraceVersionError: a trace has another schema version.
    """

    def keep(name: str, table: DataFrame) -> DataFrame:
        return kept(spark, table, f"{out}/{name}")

    sweep = read_sweep(spark, folders)
    described = keep("described", sweep.described)
    steady = windows(described)
    parts = parts_of(sweep.trace, steady, keep)
    tables = {
        "runs": per_run(parts, steady),
        "slices": per_slice(parts),
        "stalls": stalled_ms(sweep.trace["stalls"], steady, NOISY_MS),
    }
    at_once(spark, lambda name: keep(name, tables[name]), tables)


def records(spark: SparkSession, out: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of ``TABLES``: as many as runs, or at most 60 times that."""
    return {name: of_table(spark, f"{out}/{name}") for name in TABLES}
