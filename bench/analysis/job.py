"""The job: trace in, tables out. ``spark-submit``, ``--master`` and ``--remote`` run the same."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis import (
    blocking,
    lag,
    latency,
    operations,
    quorum,
    singles,
    stages,
    stalls,
    timeline,
    utilisation,
    whole,
)
from bench.analysis.read import TraceError, read
from bench.analysis.session import session

LONG: Final = frozenset(
    [
        "one_log",
        "lag_series",
        "lag_against_gauge",
        "blocked_segments",
        "blocked_per_second",
        "rate_per_second",
        "changes",
        "noisy_seconds",
        "files",
    ]
)
"""Results that grow with the length of a run; a report reads those that are made from them."""

_NOISY_SHOWN: Final = 20
_AGAIN_S: Final = 0.5


class TableLostError(TraceError):
    """Workers wrote rows where this machine does not see them."""


T = TypeVar("T")
R = TypeVar("R")
Keep = Callable[[str, DataFrame], DataFrame]
"""Takes a result by name and gives a frame with its rows, perhaps from where it was written."""


def results(
    trace: Mapping[str, DataFrame], keep: Keep = lambda _, table: table
) -> dict[str, DataFrame]:
    """Every table of the analysis, by name, from the tables of a trace.

    Args:
        trace: the tables of ``read``; without ``files``, less is known of what is missing. With
            ``lost``, as `bench.analysis.whole.missing` takes it.
        keep: called for each result that others are made from, before they are.
    """
    if "files" in trace:
        # Three results are made from it, and it takes a look at each row.
        trace = {**trace, "files": keep("files", trace["files"])}
    of_all: tuple[Callable[[Mapping[str, DataFrame], Keep], dict[str, DataFrame]], ...]
    of_all = (_of_files, _of_requests, _of_lag, _of_blocking, _of_multis, _of_stalls)
    # What one of them keeps, the others do not wait for.
    found = at_once(trace["runs"].sparkSession, lambda of: of(trace, keep), of_all)
    return {name: table for tables in found for name, table in tables.items()}


def _of_files(trace: Mapping[str, DataFrame], _keep: Keep) -> dict[str, DataFrame]:
    return {
        "runs": trace["runs"],
        "missing": whole.missing(
            trace["gauges"],
            trace["requests"],
            trace["runs"],
            trace.get("files"),
            trace.get("lost"),
        ),
    }


def _of_requests(trace: Mapping[str, DataFrame], keep: Keep) -> dict[str, DataFrame]:
    requests = trace["requests"]
    servers, clients = latency.server_requests(requests), latency.client_requests(requests)
    parts = blocking.request_parts(requests, trace["ranges"], trace["blocks"])
    made = requests.where("intended_ns is not null")
    changes = keep("changes", utilisation.change_parts(parts, made))
    clock = quorum.clocks(trace["runs"])
    return {
        "latency": latency.latency_table(servers, clients),
        "rate_per_second": latency.rate_per_second(clients),
        "rate_summary": latency.rate_summary(clients),
        "timeline": timeline.timeline(trace, clients, clock),
        "percentiles": timeline.percentiles(clients, changes),
        "changes": changes,
        "change_time": utilisation.change_time(changes),
        "slowest": singles.slowest(made, changes, clock),
        "untraced": singles.untraced(requests, changes, clock),
        "utilisation": utilisation.utilisation(trace, made, changes, keep),
        "request_parts": blocking.parts_summary(parts),
        "by_api": operations.by_api(servers),
    }


def _of_lag(trace: Mapping[str, DataFrame], keep: Keep) -> dict[str, DataFrame]:
    clock = quorum.clocks(trace["runs"])
    led = keep("leaders", quorum.leaders(trace["ranges"], clock))
    ranges = trace["ranges"]
    if several := quorum.led_by_several(led):
        # As of one more process: two plans would cost twice as much. They look at it often.
        log = keep("one_log", quorum.one_log(ranges, led, clock, several))
        ranges = ranges.unionByName(log.select(*ranges.columns))
    series = keep("lag_series", lag.lag_series(ranges))
    gauges = keep("lag_against_gauge", lag.lag_against_gauge(series, trace["gauges"]))
    return {
        "stage_latency": stages.stage_latency(stages.batch_stages(trace["ranges"])),
        "lag_series": series,
        "lag_chart": lag.lag_chart(series, clock),
        "leaders": led,
        "lives": quorum.lives(trace.get("files"), led, clock),
        "lag_summary": lag.lag_summary(series),
        "lag_against_gauge": gauges,
        "gauge_agreement": lag.gauge_agreement(gauges),
    }


def _of_blocking(trace: Mapping[str, DataFrame], keep: Keep) -> dict[str, DataFrame]:
    blocks = trace["blocks"]
    segments = keep("blocked_segments", blocking.blocked_segments(blocks, trace["multis"]))
    by_cause = keep("blocking_by_cause", blocking.blocking_by_cause(segments))
    return {
        "blocked_segments": segments,
        "blocking": blocking.blocking_check(blocking.blocked_whole(blocks), by_cause),
        "blocking_by_cause": by_cause,
        "blocked_per_operation": blocking.blocked_per_operation(blocks),
        "blocked_per_second": blocking.blocked_per_second(segments),
    }


def _of_multis(trace: Mapping[str, DataFrame], _keep: Keep) -> dict[str, DataFrame]:
    multis = trace["multis"]
    return {
        "by_operation": operations.by_operation(multis),
        "multi_latency": operations.multi_latency(multis),
        "coalescing": operations.coalescing(multis),
    }


def _of_stalls(trace: Mapping[str, DataFrame], keep: Keep) -> dict[str, DataFrame]:
    rows = trace["stalls"]
    noisy = keep("noisy_seconds", stalls.noisy_seconds(rows))
    return {
        "stalls": stalls.stall_summary(rows),
        "noisy_seconds": noisy,
        "noisiest_seconds": noisy.orderBy(F.desc("longest_ms"), "second").limit(_NOISY_SHOWN),
    }


def at_once(spark: SparkSession, do: Callable[[T], R], each: Iterable[T]) -> list[R]:
    """What ``do`` returns, called with four at a time; if one fails, or Ctrl-C, all jobs end."""
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(do, one) for one in each]
        try:
            ended = wait(calls, return_when=FIRST_EXCEPTION).done
            for call in calls:
                if call in ended:
                    call.result()  # what failed, before what still runs
            return [call.result() for call in calls]
        except BaseException:
            for call in calls:
                call.cancel()
            # A call may be between two jobs.
            while wait(calls, _AGAIN_S).not_done:
                with contextlib.suppress(Py4JError, PySparkException, OSError):
                    spark.interruptAll()
            raise


def kept(spark: SparkSession, table: DataFrame, place: str) -> DataFrame:
    """Write a table, and open what was written; raises as ``write``."""
    write(spark, table, place)
    return spark.read.schema(table.schema).parquet(place)


def write(spark: SparkSession, table: DataFrame, place: str) -> None:
    """Write a table.

    Raises:
        TableLostError: workers of a cluster wrote rows that are not there.
    """
    if str(spark.conf.get("spark.master", "local")).startswith("local"):
        table.write.parquet(place, "overwrite")
        return
    wrote = Observation()
    table.observe(wrote, F.count(F.lit(1)).alias("rows")).write.parquet(place, "overwrite")
    left = spark.read.schema(table.schema).parquet(place).count()
    if (rows := wrote.get["rows"]) != left:
        raise TableLostError(
            f"of {rows:,} rows that workers wrote to {place}, {left:,} are there: that folder is "
            "not the same for all of them and this machine; --tables takes one that is"
        )


def records(spark: SparkSession, place: str) -> list[dict[str, Any]]:
    """The rows of a table that was written."""
    if isinstance(spark, SparkSession) and "://" not in place:
        found: list[dict[str, Any]] = pq.read_table(place, partitioning=None).to_pylist()
        return found
    return [row.asDict() for row in spark.read.parquet(place).collect()]


def run(spark: SparkSession, trace: str, out: str) -> list[str]:
    """Read a trace, write every result as Parquet below ``out``; both are URIs."""
    return run_over(spark, read(spark, trace), out)


def run_over(spark: SparkSession, trace: Mapping[str, DataFrame], out: str) -> list[str]:
    """The same for tables that are open; returns the names of the results."""
    written: set[str] = set()

    def keep(name: str, table: DataFrame) -> DataFrame:
        written.add(name)
        return kept(spark, table, f"{out}/{name}")

    tables = results(trace, keep)
    rest = [name for name in tables if name not in written]
    at_once(spark, lambda name: write(spark, tables[name], f"{out}/{name}"), rest)
    return list(tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("trace", "out", "--master", "--remote"):
        parser.add_argument(option)
    chosen = parser.parse_args()
    run(session(chosen.master, chosen.remote), chosen.trace, chosen.out)
