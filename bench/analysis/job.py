"""The job: trace in, tables out. ``spark-submit``, ``--master`` and ``--remote`` run the same."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from bench.analysis import blocking, lag, latency, operations, stages, stalls
from bench.analysis.read import read
from bench.analysis.session import session


def results(trace: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Every table of the analysis, by name, from the tables of a trace."""
    requests, ranges, multis = trace["requests"], trace["ranges"], trace["multis"]
    blocks = trace["blocks"]
    servers, clients = latency.server_requests(requests), latency.client_requests(requests)
    joined = latency.joined_requests(clients, servers)
    whole = blocking.blocked_whole(blocks)
    by_cause = blocking.blocking_by_cause(blocks, multis)
    series = lag.lag_series(ranges)
    return {
        "runs": trace["runs"],
        "latency": latency.latency_table(servers, clients, joined),
        "rate_per_second": latency.rate_per_second(clients),
        "stage_latency": stages.stage_latency(stages.batch_stages(ranges)),
        "lag_series": series,
        "lag_summary": lag.lag_summary(series),
        "lag_against_gauge": lag.lag_against_gauge(ranges, trace["gauges"]),
        "blocking": blocking.blocking_check(whole, by_cause),
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


def main(argv: Sequence[str] | None = None) -> None:
    """Read a trace, write every result as Parquet below a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("trace", help="URI of the trace")
    parser.add_argument("out", help="URI of the folder for the results")
    parser.add_argument("--master", help="Spark master; default local[*] or spark-submit's")
    parser.add_argument("--remote", help="Spark Connect server, sc://host:port")
    arguments = parser.parse_args(argv)
    spark = session(arguments.master, arguments.remote)
    for name, table in results(read(spark, arguments.trace)).items():
        table.coalesce(1).write.mode("overwrite").parquet(f"{arguments.out.rstrip('/')}/{name}")


if __name__ == "__main__":
    main()
