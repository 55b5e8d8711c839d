"""The job: trace in, tables out. ``spark-submit``, ``--master`` and ``--remote`` run the same."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, SparkSession

from bench.analysis import blocking, lag, latency, operations, stages, stalls
from bench.analysis.read import read
from bench.analysis.session import session


def results(trace: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Every table of the analysis, by name, from the tables of a trace."""
    requests, ranges = trace["requests"], trace["ranges"]
    multis, blocks = trace["multis"], trace["blocks"]
    servers, clients = latency.server_requests(requests), latency.client_requests(requests)
    by_cause = blocking.blocking_by_cause(blocks, multis)
    series = lag.lag_series(ranges)
    return {
        "runs": trace["runs"],
        "latency": latency.latency_table(servers, clients),
        "rate_per_second": latency.rate_per_second(clients),
        "stage_latency": stages.stage_latency(stages.batch_stages(ranges)),
        "lag_series": series,
        "lag_chart": lag.lag_chart(series),
        "lag_summary": lag.lag_summary(series),
        "lag_against_gauge": lag.lag_against_gauge(ranges, trace["gauges"]),
        "blocking": blocking.blocking_check(blocking.blocked_whole(blocks), by_cause),
        "blocking_by_cause": by_cause,
        "blocked_per_operation": blocking.blocked_per_operation(blocks),
        "blocked_per_second": blocking.blocked_per_second(blocks, multis),
        "request_parts": blocking.parts_check(blocking.request_parts(requests, ranges, blocks)),
        "by_operation": operations.by_operation(multis),
        "by_api": operations.by_api(servers),
        "multi_latency": operations.multi_latency(multis),
        "coalescing": operations.coalescing(multis),
        "stalls": stalls.stall_summary(trace["stalls"]),
        "noisy_seconds": stalls.noisy_seconds(trace["stalls"]),
    }


def run(spark: SparkSession, trace: str, out: str) -> list[str]:
    """Read a trace, write every result as Parquet below ``out``; both are URIs."""
    tables = results(read(spark, trace))
    writers = {name: table.coalesce(1).write for name, table in tables.items()}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: writers[n].parquet(f"{out}/{n}", "overwrite"), writers))
    return list(tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("trace", "out", "--master", "--remote"):
        parser.add_argument(name)
    chosen = parser.parse_args()
    run(session(chosen.master, chosen.remote), chosen.trace, chosen.out)
