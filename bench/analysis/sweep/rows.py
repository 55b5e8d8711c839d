"""The rows of bench runs and their traces as frames: ``rows.parquet`` and ``trace`` of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.read import read
from bench.analysis.sweep.one_run import SLICES
from emulator.trace import rows

ROWS: Final = "rows.parquet"
_GREATEST: Final = 1e15
_LONGEST_S: Final = 86_400.0
"""Longest schedule that is read: its length comes from a file, which may be damaged."""

COLUMNS: Final[dict[str, str]] = {
    "run_id": "string",
    "scenario": "string",
    "kind": "string",
    "case": "string",
    "target": "string",
    "repeat": "long",
    "void": "string",
    "code": "string",
    "pair": "string",
    "begin_ns": "long",
    "end_ns": "long",
    "warm_up_s": "double",
    "intended": "long",
    "achieved_per_s": "double",
    "rate_per_s": "double",
    "latency_ms": "double",
    "bound_records": "long",
    "partitions_per_topic": "long",
    "topics_present": "long",
    "connections": "long",
    "arrivals": "string",
    "kill_leader": "boolean",
    "frozen_s": "double",
    "log_sync_ms": "double",
    "servers": "long",
    "claim_s": "double",
    "dual_write_s": "double",
    "lag_p99_low_ms": "double",
    "lag_p99_high_ms": "double",
    "lag_gap_p99_ms": "double",
    "lag_p99_records": "double",
    "drained_ns": "long",
    "machine_busy": "double",
    "late_p99_ms": "double",
    "late_max_ms": "double",
    "controller_cpu_s": "double",
    "zookeeper_cpu_s": "double",
    "fleet_cpu_s": "double",
    "load_cpu_s": "double",
    "others_cores": "double",
    "load_1_min": "double",
    "blocked_union_ms": "double",
    "zk_write_p50_ms": "double",
    "warm_up": "string",
    "command": "string",
    "versions": "string",
    "machine": "string",
    "started_wall_ns": "long",
}
"""What is read of ``rows.parquet``; a column that is missing there is null."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Frames of all runs given: ``described`` has a row a run, ``trace`` the tables of a trace."""

    described: DataFrame
    trace: dict[str, DataFrame]


def read_sweep(spark: SparkSession, folders: Sequence[str]) -> Sweep:
    """Open the folders of bench runs as one.

    With more than one folder, ``@1``, ``@2`` … is added to their run ids: two runs of one scenario
    share them, and count as repeats.

    Args:
        spark: a classic or a Connect session.
        folders: URIs or paths, as the Spark server sees them.

    Raises:
        TraceVersionError: a trace has another schema version.
    """
    opened = []
    for number, folder in enumerate(folders, start=1):
        place = folder.rstrip("/")
        given = spark.read.parquet(f"{place}/{ROWS}")
        parts = {"described": _described(given), **read(spark, f"{place}/trace")}
        suffix = f"@{number}" if len(folders) > 1 else ""
        named = F.concat(rows.RUN_ID_COLUMN, F.lit(suffix))
        opened.append(
            {name: part.withColumn(rows.RUN_ID_COLUMN, named) for name, part in parts.items()}
        )
    together = opened[0]
    for more in opened[1:]:
        together = {name: part.unionByName(more[name]) for name, part in together.items()}
    described = together.pop("described")
    return Sweep(described, together)


def _described(given: DataFrame) -> DataFrame:
    return given.select(
        *(_column(name, kind, there=name in given.columns) for name, kind in COLUMNS.items())
    )


def _column(name: str, kind: str, *, there: bool) -> Column:
    value = (F.col(name) if there else F.lit(None)).cast(kind)
    if kind == "double":
        # What is no number, or larger than anything that is counted, is not known.
        value = F.when(F.abs(value) < _GREATEST, value)
    return value.alias(name)


def windows(described: DataFrame) -> DataFrame:
    """The steady window of each run: after its warm-up, to the end of its schedule.

    Not to its last answer (``end_ns``): a system that answers late would have achieved all there.
    A run without a schedule has no other end.

    Returns:
        run_id, from_ns, to_ns, slice_ns; no row for a run that never began or has no such window.
    """
    from_ns = F.col("begin_ns") + (F.coalesce("warm_up_s", F.lit(0.0)) * 1e9).cast("long")
    due_s = F.col("intended") / F.when(F.col("rate_per_s") > 0, F.col("rate_per_s"))
    due_ns = (F.least(due_s, F.lit(_LONGEST_S)) * 1e9).cast("long")
    to_ns = F.coalesce(F.col("begin_ns") + due_ns, F.col("end_ns"))
    length = F.col("to_ns") - F.col("from_ns")
    second = F.lit(1_000_000_000)
    return (
        described.select("run_id", from_ns.alias("from_ns"), to_ns.alias("to_ns"))
        .where("to_ns > from_ns")
        .select("*", F.greatest(second, F.ceil(length / SLICES)).alias("slice_ns"))
    )
