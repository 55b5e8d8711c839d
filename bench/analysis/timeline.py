"""What happened when, on one wall clock, thinned for a page: its longest, and not its mean."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ACCURACY, ms
from bench.analysis.schema import KEYS
from bench.analysis.utilisation import syncs
from emulator.trace import rows

SLICES: Final = 600
"""A page needs no more points than it has pixels."""
CLIENTS: Final = "clients"
_OF_CLIENTS: Final = ("change", "given up", "due", "done", "refused")
_OF_A_DECADE: Final = 8
_RUN: Final = rows.RUN_ID_COLUMN
_SECOND_NS: Final = 1_000_000_000
_STEPS: Final = 12
"""Percentiles for each factor of ten that fewer samples lie beyond."""
_NINES: Final = 6


def timeline(trace: Mapping[str, DataFrame], clients: DataFrame, clock: DataFrame) -> DataFrame:
    """What took time, and what was due and done, by slices of the run.

    Args:
        trace: its tables.
        clients: the result of ``latency.client_requests``.
        clock: the result of ``quorum.clocks``.

    Returns:
        run_id, process (of clients: ``CLIENTS``, all together), kind, wall_ns, ms, sum_ms, count,
        slice_s. Of ``change`` and ``given up``
        (by when they were due), ``multi``, ``lost multi``, ``sync``, ``stall`` and ``blocked``: the
        longest of each slice, of changes of each slice and eighth of a decade; wall_ns is its
        begin (of several as long the first), sum_ms and count are those of all. Of ``due``,
        ``done`` and ``refused``: their number in slices of whole seconds; wall_ns is the slice's
        begin.
    """
    fine = _spans(trace, clients)
    walls = F.broadcast(clock.select(*KEYS, "offset_ns"))
    on_wall = (
        fine.where("end_ns >= begin_ns")
        .join(walls, KEYS)
        .select(
            *KEYS,
            "kind",
            F.try_add("begin_ns", "offset_ns").alias("wall_ns"),
            ms("end_ns", "begin_ns").alias("ms"),
        )
        .where("wall_ns is not null")
    )
    ends = on_wall.groupBy(_RUN).agg(F.min("wall_ns").alias("_from"), F.max("wall_ns").alias("_to"))
    span = F.col("_to") - F.col("_from") + 1
    seconds = F.greatest(F.ceil(span / F.lit(SLICES * _SECOND_NS)), F.lit(1))
    whole = ends.select(
        _RUN,
        "_from",
        F.greatest(F.ceil(span / SLICES), F.lit(1)).alias("_fine_ns"),
        (seconds * _SECOND_NS).alias("_second_ns"),
    )
    counted = F.col("kind").isin("due", "done", "refused")
    length = F.when(counted, F.col("_second_ns")).otherwise(F.col("_fine_ns"))
    sliced = on_wall.join(F.broadcast(whole), _RUN).withColumn("_length", length)
    whose = F.when(F.col("kind").isin(*_OF_CLIENTS), F.lit(CLIENTS)).otherwise(F.col("process"))
    at = F.floor((F.col("wall_ns") - F.col("_from")) / F.col("_length"))
    # The first of those that took as long: not that of whichever file was read first.
    longest = F.max_by("wall_ns", F.struct("ms", -F.col("wall_ns")))
    return (
        sliced.withColumn("process", whose)
        .withColumn("_slice", at)
        .withColumn("_bin", _bin())
        .groupBy(*KEYS, "kind", "_slice", "_bin", "_length", "_from")
        .agg(
            longest.alias("_longest"),
            F.max("ms").alias("ms"),
            F.sum("ms").alias("sum_ms"),
            F.count("*").alias("count"),
        )
        .select(
            *KEYS,
            "kind",
            F.when(counted, F.col("_from") + F.col("_slice") * F.col("_length"))
            .otherwise(F.col("_longest"))
            .cast("long")
            .alias("wall_ns"),
            "ms",
            "sum_ms",
            "count",
            (F.col("_length") / F.lit(1e9)).alias("slice_s"),
        )
    )


def _bin() -> Column:
    """Changes of a slice are dots of their own where they lie far enough apart."""
    place = F.floor(F.log10(F.greatest(F.col("ms"), F.lit(0.001))) * _OF_A_DECADE)
    return F.when(F.col("kind").isin("change", "given up"), place).otherwise(F.lit(0))


def _spans(trace: Mapping[str, DataFrame], clients: DataFrame) -> DataFrame:
    def span(table: DataFrame, kind: str | Column, begin: str, end: str) -> DataFrame:
        what = F.lit(kind) if isinstance(kind, str) else kind
        times = (F.col(begin).alias("begin_ns"), F.col(end).alias("end_ns"))
        return table.select(*KEYS, what.alias("kind"), *times)

    done = F.col("error_code") == 0
    lost = F.col("result") != "ok"
    return reduce(
        DataFrame.unionByName,
        [
            span(
                clients,
                F.when(done, "change").otherwise("given up"),
                "intended_ns",
                "answered_ns",
            ),
            span(clients, "due", "intended_ns", "intended_ns"),
            span(clients, F.when(done, "done").otherwise("refused"), "answered_ns", "answered_ns"),
            span(
                trace["multis"],
                F.when(lost, "lost multi").otherwise("multi"),
                "sent_ns",
                "answered_ns",
            ),
            span(syncs(trace["ranges"]), "sync", "begin_ns", "end_ns"),
            span(trace["stalls"], "stall", "begin_ns", "end_ns"),
            span(trace["blocks"], "blocked", "begin_ns", "end_ns"),
        ],
    )


def percentiles(clients: DataFrame, changes: DataFrame) -> DataFrame:
    """How long changes took, at many percentiles: at clients, and in the controller.

    Args:
        clients: the result of ``latency.client_requests``.
        changes: the result of ``utilisation.change_parts``.

    Returns:
        run_id, seen (``client``, ``controller``), samples, beyond (the share of samples that took
        longer; 0: the longest), ms (infinite where it was given up), censored_ms (of clients: the
        shortest wait of what was given up; null where nothing was).
    """
    given_up = F.when(F.col("error_code") != 0, F.col("waited_ms"))
    inside = F.expr("queue_ms + blocked_ms + commit_ms + answer_ms")
    both = clients.select(
        _RUN, F.lit("client").alias("seen"), F.col("response_ms").alias("ms"), given_up.alias("_up")
    ).unionByName(
        changes.select(
            _RUN,
            F.lit("controller").alias("seen"),
            inside.alias("ms"),
            F.lit(None).cast("double").alias("_up"),
        )
    )
    steps = {10 ** (-step / _STEPS) for step in range(_NINES * _STEPS + 1)} - {1.0}
    beyond = sorted({*steps, 0.5}, reverse=True)
    found = (
        both.where("ms is not null")
        .groupBy(_RUN, "seen")
        .agg(
            F.count("*").alias("samples"),
            F.min("_up").alias("censored_ms"),
            F.max("ms").alias("_max"),
            F.percentile_approx("ms", [1 - share for share in beyond], ACCURACY).alias("_at"),
        )
    )
    points = [
        F.struct(F.lit(share).alias("beyond"), F.col("_at")[step].alias("ms"))
        for step, share in enumerate(beyond)
    ]
    longest = F.struct(F.lit(0.0).alias("beyond"), F.col("_max").alias("ms"))
    return (
        found.select(
            _RUN, "seen", "samples", "censored_ms", F.explode(F.array(*points, longest)).alias("_p")
        )
        .select(_RUN, "seen", "samples", "_p.beyond", "_p.ms", "censored_ms")
        .where("beyond = 0 or beyond * samples >= 1")
    )
