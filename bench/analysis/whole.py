"""What a trace lacks: what is computed does not know of it.

A process that cannot write its trace goes on without it, and leaves gauges in it as soon as it can
be written again. What was deleted as there is a limit of all files is before the first one that is
left, and a gauge says that there was such a thing. Between the files of one process no row may be
missing: each has the number of its first row in its name. A process that was killed has no end in
its trace, nor has one that still writes. Traces of earlier versions have neither numbers nor ends:
there, the other processes of a host show how long the run went on.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS
from emulator.trace import rows
from emulator.trace.metrics import TRACE_DELETED_BYTES, TRACE_MISSING_ROWS, TRACE_MISSING_S
from emulator.trace.rows import CpuGauge

LATE_S: Final = 60.0
"""Files of earlier versions were finished after 15 s: a trace that is read while it grows ends so
much earlier.
"""
_SECOND_NS: Final = 1e9


def missing(
    gauges: DataFrame,
    requests: DataFrame,
    runs: DataFrame,
    files: DataFrame | None = None,
    lost: DataFrame | None = None,
) -> DataFrame:
    """Find what is missing.

    Args:
        gauges: of controllers, which sample them until their end; CPU is sampled by loads too.
        requests: of all processes.
        runs: with the host of each process, whose processes share one monotonic clock.
        files: what the files hold, see `bench.analysis.lives.files_of`; None: not known.
        lost: files that were seen and not read: run_id, process, table, missing_rows (null: not
            known); None: there is none.

    Returns:
        run_id, process, why, table (null: all), missing_rows (null: not known), missing_s and at_ns
        (where it begins, by the clock of the process; both null of ``lost``). ``why``: "not
        written" (as the process itself says), "deleted" (the oldest rows, by the limit), "file
        missing" (between two others), "not read" (``lost``), "no end" (until its next life, or the
        end of the others of its host), "others went on".
    """
    hosts = runs.groupBy(*KEYS).agg(F.first("host").alias("host"))
    marks = gauges.where(
        F.col("gauge").isin(TRACE_MISSING_ROWS.name, TRACE_MISSING_S.name, TRACE_DELETED_BYTES.name)
    )
    not_written = _not_written(marks)
    if files is None:
        return not_written.unionByName(_outlived(gauges, requests, hosts, marks))
    numbered = files.where("first_row is not null")
    ended = marks.where((F.col("gauge") == TRACE_MISSING_ROWS.name) & (F.col("value") == 0.0))
    known = marks.select(*KEYS).union(numbered.select(*KEYS)).distinct()
    return reduce(
        DataFrame.unionByName,
        [
            not_written,
            *_holes(numbered, marks.where(F.col("gauge") == TRACE_DELETED_BYTES.name)),
            _without_end(files, hosts, ended),
            _outlived(gauges, requests, hosts, known),
            *([] if lost is None else [_not_read(lost)]),
        ],
    )


def _not_read(lost: DataFrame) -> DataFrame:
    return lost.select(
        *KEYS,
        F.lit("not read").alias("why"),
        "table",
        "missing_rows",
        F.lit(None).cast("double").alias("missing_s"),
        F.lit(None).cast("long").alias("at_ns"),
    )


def _not_written(marks: DataFrame) -> DataFrame:
    """What processes say of their traces; of one gap it may be said several times."""

    def value(name: str) -> Column:
        return F.max(F.when(F.col("gauge") == name, F.col("value")))

    seconds = F.col("time_ns") / _SECOND_NS - F.col("missing_s")
    return (
        marks.groupBy(*KEYS, "time_ns")
        .agg(
            value(TRACE_MISSING_ROWS.name).alias("missing_rows"),
            value(TRACE_MISSING_S.name).alias("missing_s"),
        )
        .where("missing_s is not null")
        .groupBy(*KEYS, F.round(seconds, 2).alias("_at_s"))
        .agg(
            F.max("missing_rows").cast("long").alias("missing_rows"),
            F.max("missing_s").alias("missing_s"),
        )
        .select(
            *KEYS,
            F.lit("not written").alias("why"),
            F.lit(None).cast("string").alias("table"),
            "missing_rows",
            "missing_s",
            (F.col("_at_s") * _SECOND_NS).cast("long").alias("at_ns"),
        )
    )


def _holes(files: DataFrame, deleted: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Rows between files, by the numbers of their first rows: missing, and deleted."""
    before = Window.partitionBy(*KEYS, "table").orderBy("first_row")
    process = Window.partitionBy(*KEYS)
    follows = F.lag(F.col("first_row") + F.col("rows")).over(before)
    at = F.coalesce(F.lag("last_ns").over(before), F.min("first_ns").over(process))
    # The limit is of all lives of a process, in all runs.
    limited = files.join(F.broadcast(deleted.select(*KEYS).distinct()), KEYS).select("origin")
    found = (
        files.withColumn("missing_rows", F.col("first_row") - F.coalesce(follows, F.lit(0)))
        .withColumn("_first", follows.isNull())
        .withColumn("at_ns", at)
        .withColumn("missing_s", (F.col("first_ns") - F.col("at_ns")) / _SECOND_NS)
        .where("missing_rows <> 0")
        .join(F.broadcast(limited.distinct().withColumn("_limited", F.lit(True))), "origin", "left")
        .withColumn("_deleted", F.col("_first") & F.coalesce("_limited", F.lit(False)))
    )
    columns = ("why", "table", "missing_rows", "missing_s", "at_ns")
    holes = found.where("not _deleted").withColumn("why", F.lit("file missing"))
    oldest = (
        found.where("_deleted")
        .groupBy(*KEYS)
        .agg(
            F.sum("missing_rows").alias("missing_rows"),
            F.max("missing_s").alias("missing_s"),
            F.min("at_ns").alias("at_ns"),
        )
        .withColumn("why", F.lit("deleted"))
        .withColumn("table", F.lit(None).cast("string"))
    )
    return holes.select(*KEYS, *columns), oldest.select(*KEYS, *columns)


def _without_end(files: DataFrame, hosts: DataFrame, ended: DataFrame) -> DataFrame:
    """Lives whose files are numbered and have no end."""
    lives = (
        files.groupBy(*KEYS, "origin")
        .agg(
            F.min("began_ns").alias("began_ns"),
            F.min("first_ns").alias("first_ns"),
            F.max("last_ns").alias("last_ns"),
            F.max("first_row").alias("first_row"),
        )
        .join(hosts, KEYS)
    )
    origin = Window.partitionBy(rows.RUN_ID_COLUMN, "origin", "host").orderBy("began_ns")
    host = Window.partitionBy(rows.RUN_ID_COLUMN, "host")
    until = F.coalesce(F.lead("first_ns").over(origin), F.max("last_ns").over(host))
    return (
        lives.withColumn("missing_s", (until - F.col("last_ns")) / _SECOND_NS)
        .where("first_row is not null")
        .join(ended.select(*KEYS), KEYS, "left_anti")
        .select(
            *KEYS,
            F.lit("no end").alias("why"),
            F.lit(None).cast("string").alias("table"),
            F.lit(None).cast("long").alias("missing_rows"),
            F.greatest("missing_s", F.lit(0.0)).alias("missing_s"),
            F.col("last_ns").alias("at_ns"),
        )
    )


def _outlived(
    gauges: DataFrame, requests: DataFrame, hosts: DataFrame, known: DataFrame
) -> DataFrame:
    """Processes whose gauges end long before the others of their host; without those known."""
    last = (
        reduce(
            DataFrame.unionByName,
            [
                gauges.where(~F.col("gauge").isin([str(each) for each in CpuGauge])).select(
                    *KEYS, F.col("time_ns").alias("at_ns"), F.lit(1).alias("sampled")
                ),
                requests.select(
                    *KEYS, F.col("answered_ns").alias("at_ns"), F.lit(0).alias("sampled")
                ),
            ],
        )
        .groupBy(*KEYS)
        .agg(F.max("at_ns").alias("last_ns"), F.max("sampled").alias("sampled"))
        .join(hosts, KEYS)
    )
    ends = last.groupBy(rows.RUN_ID_COLUMN, "host").agg(F.max("last_ns").alias("end_ns"))
    return (
        last.where("sampled = 1")
        .join(ends, [rows.RUN_ID_COLUMN, "host"])
        .withColumn(
            "missing_s",
            (F.col("end_ns").cast("double") - F.col("last_ns").cast("double")) / _SECOND_NS,
        )
        .where(F.col("missing_s") > LATE_S)
        .join(known.select(*KEYS), KEYS, "left_anti")
        .select(
            *KEYS,
            F.lit("others went on").alias("why"),
            F.lit(None).cast("string").alias("table"),
            F.lit(None).cast("long").alias("missing_rows"),
            "missing_s",
            F.col("last_ns").alias("at_ns"),
        )
    )
