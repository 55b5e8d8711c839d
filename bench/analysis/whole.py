"""Which traces end before their process or their run: what is computed lacks the rest.

A process that cannot write its trace goes on without it, and leaves a gauge in it as soon as its
disk takes that. Where it never did, or the process was killed, the other processes of its host show
how long the run went on.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS
from emulator.trace import rows
from emulator.trace.metrics import TRACE_MISSING_S
from emulator.trace.rows import CpuGauge

LATE_S: Final = 60.0
"""Files are finished after 15 s: a trace that is read while it grows ends so much earlier."""
_SECOND_NS: Final = 1e9


def missing(gauges: DataFrame, requests: DataFrame, runs: DataFrame) -> DataFrame:
    """Find the traces that are not whole.

    Args:
        gauges: of controllers, which sample them until their end; CPU is sampled by loads too.
        requests: of all processes.
        runs: with the host of each process, whose processes share one monotonic clock.

    Returns:
        run_id, process, missing_s, said (1: the process itself says so; 0: others of its host went
        on for so long).
    """
    reported = (
        gauges.where(F.col("gauge") == TRACE_MISSING_S.name)
        .groupBy(*KEYS)
        .agg(F.max("value").alias("missing_s"))
        .select(*KEYS, "missing_s", F.lit(1).alias("said"))
    )
    hosts = runs.groupBy(*KEYS).agg(F.first("host").alias("host"))
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
    seen = (
        last.where("sampled = 1")
        .join(ends, [rows.RUN_ID_COLUMN, "host"])
        .withColumn(
            "missing_s",
            (F.col("end_ns").cast("double") - F.col("last_ns").cast("double")) / _SECOND_NS,
        )
        .where(F.col("missing_s") > LATE_S)
        .join(reported.select(*KEYS), KEYS, "left_anti")
        .select(*KEYS, "missing_s", F.lit(0).alias("said"))
    )
    return reported.unionByName(seen)
