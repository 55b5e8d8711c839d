"""Changes one by one: the slowest of a run, and those of which the trace has one side only."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.limits import PARTS
from bench.analysis.quantiles import ms
from bench.analysis.schema import KEYS

UNTRACED_MAX: Final = 200
"""Rows of ``untraced``: a page counts them by what happened meanwhile."""
_CALL: Final = ["run_id", "process", "sent_ns", "answered_ns"]
"""What tells a change of a client from its others."""
_REQUEST: Final = ["run_id", "client_id", "correlation_id", "api"]
"""The same, of client and controller."""


def slowest(made: DataFrame, changes: DataFrame, clock: DataFrame) -> DataFrame:
    """The change of each run that took longest of those carried out; of several the first.

    Args:
        made: the trace's requests of clients.
        changes: the result of ``utilisation.change_parts``.
        clock: the result of ``quorum.clocks``.

    Returns:
        run_id, process (its client), api, wall_ns (when it was due), ms (from then on), and a
        column ``*_ms`` for each of ``PARTS``, null where the trace lacks the controllers' side.
    """
    took = ms("answered_ns", "intended_ns")
    done = made.where("error_code = 0").withColumn("ms", took).where("ms is not null")
    # Of several as long the first, whichever file was read first.
    names = ["_less", "intended_ns", *_CALL[1:], "api", "ms"]
    ordered = done.withColumn("_less", -F.col("ms")).groupBy("run_id")
    longest = ordered.agg(F.min(F.struct(*names)).alias("_one"))
    parts = [f"{part}_ms" for part in PARTS]
    joined = longest.select("run_id", "_one.*").join(_seen(changes, parts), _CALL, "left")
    return (
        _on_wall(joined, clock)
        .withColumn("wall_ns", F.try_add("intended_ns", "offset_ns"))
        .select(*KEYS, "api", "wall_ns", "ms", *parts)
    )


def untraced(requests: DataFrame, changes: DataFrame, clock: DataFrame) -> DataFrame:
    """Changes that were carried out and whose side of the controllers the trace lacks.

    Only of runs of which it has that of another change, and at most ``UNTRACED_MAX``.

    Args:
        requests: the trace's table.
        changes: the result of ``utilisation.change_parts``.
        clock: the result of ``quorum.clocks``.

    Returns:
        run_id, process (the client), sent_wall_ns (the last attempt), done_wall_ns, changed_nothing
        (a controller answered it and appended no record).
    """
    seen = _seen(changes, [])
    known = F.broadcast(seen.select("run_id").distinct())
    done = requests.where("intended_ns is not null and error_code = 0")
    lacking = done.join(seen, _CALL, "left_anti").join(known, "run_id")
    served = (
        requests.where("received_ns is not null")
        .withColumn("api", F.coalesce("inner_api", "api"))
        .groupBy(*_REQUEST)
        .agg(F.max("last_offset").isNull().alias("changed_nothing"))
    )
    return (
        _on_wall(lacking.join(served, _REQUEST, "left"), clock)
        .select(
            *KEYS,
            F.try_add("sent_ns", "offset_ns").alias("sent_wall_ns"),
            F.try_add("answered_ns", "offset_ns").alias("done_wall_ns"),
            F.coalesce("changed_nothing", F.lit(False)).alias("changed_nothing"),
        )
        .orderBy("run_id", "sent_wall_ns")
        .limit(UNTRACED_MAX)
    )


def _seen(changes: DataFrame, more: list[str]) -> DataFrame:
    """The changes of which the trace has both sides, by what their client knows of them."""
    both = changes.where("client_process is not null")
    renamed = {"client_process": "process", "done_ns": "answered_ns"}
    return both.select("run_id", "client_process", "sent_ns", "done_ns", *more).withColumnsRenamed(
        renamed
    )


def _on_wall(rows: DataFrame, clock: DataFrame) -> DataFrame:
    return rows.join(F.broadcast(clock.select(*KEYS, "offset_ns")), KEYS)
