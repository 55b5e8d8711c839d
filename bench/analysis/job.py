"""The job: trace in, tables out. ``spark-submit``, ``--master`` and ``--remote`` run the same."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis import (
    blocking,
    lag,
    latency,
    operations,
    quorum,
    stages,
    stalls,
    timeline,
    utilisation,
    whole,
)
from bench.analysis.read import read
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

Keep = Callable[[str, DataFrame], DataFrame]
"""Takes a result by name and gives a frame with its rows, perhaps from where it was written."""


def results(
    trace: Mapping[str, DataFrame], keep: Keep = lambda _, table: table
) -> dict[str, DataFrame]:
    """Every table of the analysis, by name, from the tables of a trace.

    Args:
        trace: the tables of ``read``; without ``files``, less is known of what is missing.
        keep: called for each result that others are made from, before they are.
    """
    if "files" in trace:
        # Three results are made from it, and it takes a look at each row.
        trace = {**trace, "files": keep("files", trace["files"])}
    return {
        "runs": trace["runs"],
        "missing": whole.missing(
            trace["gauges"], trace["requests"], trace["runs"], trace.get("files")
        ),
        **_of_requests(trace, keep),
        **_of_lag(trace, keep),
        **_of_blocking(trace, keep),
        **_of_multis(trace["multis"]),
        **_of_stalls(trace["stalls"], keep),
    }


def _of_requests(trace: Mapping[str, DataFrame], keep: Keep) -> dict[str, DataFrame]:
    requests = trace["requests"]
    servers, clients = latency.server_requests(requests), latency.client_requests(requests)
    parts = blocking.request_parts(requests, trace["ranges"], trace["blocks"])
    made = requests.where("intended_ns is not null")
    changes = keep("changes", utilisation.change_parts(parts, made))
    return {
        "latency": latency.latency_table(servers, clients),
        "rate_per_second": latency.rate_per_second(clients),
        "rate_summary": latency.rate_summary(clients),
        "timeline": timeline.timeline(trace, clients, quorum.clocks(trace["runs"])),
        "percentiles": timeline.percentiles(clients, changes),
        "changes": changes,
        "change_time": utilisation.change_time(changes),
        "utilisation": utilisation.utilisation(trace, made, changes),
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


def _of_multis(multis: DataFrame) -> dict[str, DataFrame]:
    return {
        "by_operation": operations.by_operation(multis),
        "multi_latency": operations.multi_latency(multis),
        "coalescing": operations.coalescing(multis),
    }


def _of_stalls(rows: DataFrame, keep: Keep) -> dict[str, DataFrame]:
    noisy = keep("noisy_seconds", stalls.noisy_seconds(rows))
    return {
        "stalls": stalls.stall_summary(rows),
        "noisy_seconds": noisy,
        "noisiest_seconds": noisy.orderBy(F.desc("longest_ms"), "second").limit(_NOISY_SHOWN),
    }


def run(spark: SparkSession, trace: str, out: str) -> list[str]:
    """Read a trace, write every result as Parquet below ``out``; both are URIs."""
    return run_over(spark, read(spark, trace), out)


def run_over(spark: SparkSession, trace: Mapping[str, DataFrame], out: str) -> list[str]:
    """The same for tables that are open; returns the names of the results."""
    written: set[str] = set()

    def write(name: str, table: DataFrame) -> None:
        table.write.parquet(f"{out}/{name}", "overwrite")

    def keep(name: str, table: DataFrame) -> DataFrame:
        write(name, table)
        written.add(name)
        return spark.read.schema(table.schema).parquet(f"{out}/{name}")

    tables = results(trace, keep)
    rest = [name for name in tables if name not in written]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: write(name, tables[name]), rest))
    return list(tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("trace", "out", "--master", "--remote"):
        parser.add_argument(option)
    chosen = parser.parse_args()
    run(session(chosen.master, chosen.remote), chosen.trace, chosen.out)
