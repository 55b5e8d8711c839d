"""The controllers of a quorum together: their lives on one wall clock, one lag over their leaders.

Offsets are those of one log, whoever leads. Committed ranges count as the leader of their epoch
wrote them: followers learn of them later, and write rows too. What a leader finds committed by the
one before it counts once. Only leaders write to ZooKeeper.

Processes of one host share a monotonic clock, which the first pair of clocks of the host puts on
the wall clock. If another process of the host took a pair that differs by more than ``MOVED_S``,
the wall clock was set, or the host was started again: then its own pair counts. Between hosts only
the wall clocks are known; how far these are apart is not in a trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS
from emulator.trace import rows
from emulator.trace.rows import PipelineStage

QUORUM: Final = "quorum"
"""The process that stands for all controllers of a run together."""
MOVED_S: Final = 1.0
_RUN: Final = rows.RUN_ID_COLUMN


def clocks(runs: DataFrame) -> DataFrame:
    """How far the wall clock is ahead of each process's monotonic clock.

    Args:
        runs: with a pair of clocks for each process.

    Returns:
        run_id, process, host, offset_ns, moved_s (by how much its own pair differs from the first
        one of its host).
    """
    own = runs.groupBy(*KEYS, "host").agg(
        F.min(F.struct("wall_ns", F.try_subtract("wall_ns", "monotonic_ns").alias("own"))).alias(
            "_pair"
        )
    )
    first = F.min("_pair").over(Window.partitionBy(_RUN, "host"))
    moved_s = (F.col("_pair.own").cast("double") - first["own"].cast("double")) / F.lit(1e9)
    return own.select(
        *KEYS,
        "host",
        F.when(F.abs(moved_s) > MOVED_S, F.col("_pair.own"))
        .otherwise(first["own"])
        .alias("offset_ns"),
        moved_s.alias("moved_s"),
    )


def leaders(ranges: DataFrame, clock: DataFrame) -> DataFrame:
    """Who led, in the order of epochs.

    Args:
        ranges: the trace's table.
        clock: the result of ``clocks``.

    Returns:
        run_id, process, leader_epoch, first_ns and last_ns (wall clock, of its first and last
        commit), end_offset (the greatest offset committed in it), before (in the epochs before).
    """
    led = (
        ranges.where(
            (F.col("stage") == str(PipelineStage.COMMITTED)) & F.col("leader_epoch").isNotNull()
        )
        .groupBy(*KEYS, "leader_epoch")
        .agg(
            F.min("time_ns").alias("_first"),
            F.max("time_ns").alias("_last"),
            F.max("last_offset").alias("end_offset"),
        )
        .join(F.broadcast(clock.select(*KEYS, "offset_ns")), KEYS)
    )
    earlier = (
        Window.partitionBy(_RUN).orderBy("leader_epoch").rowsBetween(Window.unboundedPreceding, -1)
    )
    return led.select(
        *KEYS,
        "leader_epoch",
        F.try_add("_first", "offset_ns").alias("first_ns"),
        F.try_add("_last", "offset_ns").alias("last_ns"),
        "end_offset",
        F.max("end_offset").over(earlier).alias("before"),
    )


def led_by_several(led: DataFrame) -> list[str]:
    """The run ids in the result of ``leaders`` that more than one process led."""
    processes = led.groupBy(_RUN).agg(F.countDistinct("process").alias("_led"))
    return [str(row[_RUN]) for row in processes.where("_led > 1").collect()]


def one_log(
    ranges: DataFrame, led: DataFrame, clock: DataFrame, several: Sequence[str]
) -> DataFrame:
    """What was committed and acknowledged, as of one process.

    Args:
        ranges: the trace's table.
        led: the result of ``leaders``.
        clock: the result of ``clocks``.
        several: the runs.

    Returns:
        rows of ``ranges`` of the process ``QUORUM``, at wall-clock times.
    """
    of_leaders = (
        ranges.where(F.col(_RUN).isin(list(several)))
        .join(F.broadcast(clock.select(*KEYS, "offset_ns")), KEYS)
        .withColumn("time_ns", F.try_add("time_ns", "offset_ns"))
    )
    acked = of_leaders.where(F.col("stage") == str(PipelineStage.ZK_ACKED))
    begin = F.greatest("first_offset", F.coalesce(F.col("before") + 1, F.lit(0)))
    committed = (
        of_leaders.where(F.col("stage") == str(PipelineStage.COMMITTED))
        .join(F.broadcast(led.select(*KEYS, "leader_epoch", "before")), [*KEYS, "leader_epoch"])
        .withColumn("first_offset", begin)
        .where("first_offset <= last_offset")
        .withColumn(
            "no_op_records",
            F.least("no_op_records", F.col("last_offset") - F.col("first_offset") + 1),
        )
    )
    return (
        committed.select(*ranges.columns)
        .unionByName(acked.select(*ranges.columns))
        .withColumn(rows.PROCESS_COLUMN, F.lit(QUORUM))
    )


def lives(files: DataFrame | None, led: DataFrame, clock: DataFrame) -> DataFrame:
    """Each life of each process on the wall clock.

    Args:
        files: see `bench.analysis.lives.files_of`; None: not known.
        led: the result of ``leaders``.
        clock: the result of ``clocks``.

    Returns:
        run_id, process, host, moved_s, first_ns and last_ns (wall clock, of its rows; null if
        ``files`` is None), rows, led (its epochs, in order; null if there are none).
    """
    epochs = led.groupBy(*KEYS).agg(
        F.concat_ws(
            ", ",
            F.transform(F.array_sort(F.collect_list("leader_epoch")), lambda e: e.cast("string")),
        ).alias("led")
    )
    found = clock.join(epochs, KEYS, "left")
    if files is None:
        empty = F.lit(None).cast("long")
        return found.select(
            *KEYS,
            "host",
            "moved_s",
            *(empty.alias(name) for name in ("first_ns", "last_ns", "rows")),
            "led",
        )
    seen = files.groupBy(*KEYS).agg(
        F.min("first_ns").alias("_first"),
        F.max("last_ns").alias("_last"),
        F.sum("rows").alias("rows"),
    )
    return found.join(seen, KEYS, "left").select(
        *KEYS,
        "host",
        "moved_s",
        F.try_add("_first", "offset_ns").alias("first_ns"),
        F.try_add("_last", "offset_ns").alias("last_ns"),
        "rows",
        "led",
    )
