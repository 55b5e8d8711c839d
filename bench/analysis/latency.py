"""Latency of requests: as the controller saw them, as clients did, and both joined."""

from __future__ import annotations

import math

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ACCURACY, ms, quantile_table
from bench.analysis.schema import KEYS
from bench.load.schedule import SETTLED


def server_requests(requests: DataFrame) -> DataFrame:
    """Requests a server answered; an Envelope counts as the API inside it.

    Returns:
        run_id, process, client_id, correlation_id, api, forwarded, received_ns, answered_ns,
        error_code, records, latency_ms.
    """
    records = F.coalesce(F.col("last_offset") - F.col("first_offset") + 1, F.lit(0))
    return requests.where("received_ns is not null").select(
        *KEYS,
        "client_id",
        "correlation_id",
        F.coalesce("inner_api", "api").alias("api"),
        F.col("inner_api").isNotNull().alias("forwarded"),
        "received_ns",
        "answered_ns",
        "error_code",
        records.alias("records"),
        ms("answered_ns", "received_ns").alias("latency_ms"),
    )


def client_requests(requests: DataFrame) -> DataFrame:
    """Requests a client made, by an open-loop schedule.

    Returns:
        run_id, process, client_id, correlation_id, api, intended_ns, answered_ns, error_code,
        waited_ms (from the intended instant, also of what was given up), response_ms (the same,
        but infinite where it was not carried out: what a user would feel), service_ms (from the
        last send; null where it was not carried out), late_ms (last send after the intended
        instant).
    """
    done = F.col("error_code") == 0
    waited = ms("answered_ns", "intended_ns")
    return requests.where("intended_ns is not null").select(
        *KEYS,
        "client_id",
        "correlation_id",
        "api",
        "intended_ns",
        "answered_ns",
        "error_code",
        waited.alias("waited_ms"),
        F.when(done, waited).otherwise(F.lit(math.inf)).alias("response_ms"),
        F.when(done, ms("answered_ns", "sent_ns")).alias("service_ms"),
        ms("sent_ns", "intended_ns").alias("late_ms"),
    )


def joined_requests(clients: DataFrame, servers: DataFrame) -> DataFrame:
    """Join each client's request with the server's row of it, by client id and correlation id.

    A broker may forward one request more than once; the attempts count together.

    Returns:
        run_id, client_id, correlation_id, api, response_ms, server_ms, attempts, elsewhere_ms
        (network, the forwarding broker, and its waits). Only durations are used, so the clocks of
        the two processes need not agree.
    """
    seen = servers.groupBy("run_id", "client_id", "correlation_id", "api").agg(
        ms(F.max("answered_ns"), F.min("received_ns")).alias("server_ms"),
        F.count("*").alias("attempts"),
    )
    return clients.join(seen, ["run_id", "client_id", "correlation_id", "api"]).select(
        "run_id",
        "client_id",
        "correlation_id",
        "api",
        "response_ms",
        "server_ms",
        "attempts",
        (F.col("service_ms") - F.col("server_ms")).alias("elsewhere_ms"),
    )


def latency_table(servers: DataFrame, clients: DataFrame) -> DataFrame:
    """Quantiles of every latency, by API.

    Returns:
        run_id, api, seen (``server``; ``client response``, of which ``client before the last send``
        and ``client service``; ``outside the controller``), the columns of ``quantile_table``, and
        of clients' responses not_done (that were not carried out), not_done_ms (at the earliest
        then one of these was given up). A quantile of what was not carried out is infinite.
    """
    kinds = [
        (servers, "latency_ms", "server"),
        (clients, "response_ms", "client response"),
        (clients, "late_ms", "client before the last send"),
        (clients, "service_ms", "client service"),
        (joined_requests(clients, servers), "elsewhere_ms", "outside the controller"),
    ]
    parts = [
        frame.select("run_id", "api", F.lit(seen).alias("seen"), F.col(value).alias("latency_ms"))
        for frame, value, seen in kinds
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    not_done = (
        clients.where("error_code <> 0")
        .groupBy("run_id", "api")
        .agg(F.count("*").alias("not_done"), F.min("waited_ms").alias("not_done_ms"))
        .withColumn("seen", F.lit("client response"))
    )
    keys = ["run_id", "api", "seen"]
    found = quantile_table(together, "latency_ms", keys).join(F.broadcast(not_done), keys, "left")
    return found.fillna(0, ["not_done"])


def rate_per_second(clients: DataFrame) -> DataFrame:
    """Intended and achieved requests per second of a client's schedule.

    Returns:
        run_id, process, second, intended, achieved (answered without an error in that second).
    """
    nanos = 1_000_000_000
    intended = clients.select(
        *KEYS,
        F.floor(F.col("intended_ns") / nanos).alias("second"),
        F.lit(1).alias("_i"),
        F.lit(0).alias("_a"),
    )
    achieved = clients.where("error_code = 0").select(
        *KEYS,
        F.floor(F.col("answered_ns") / nanos).alias("second"),
        F.lit(0).alias("_i"),
        F.lit(1).alias("_a"),
    )
    return (
        intended.unionByName(achieved)
        .groupBy(*KEYS, "second")
        .agg(F.sum("_i").alias("intended"), F.sum("_a").alias("achieved"))
    )


def rate_summary(clients: DataFrame) -> DataFrame:
    """What was due and what was carried out, by each client's own clock.

    Args:
        clients: the result of ``client_requests``.

    Returns:
        run_id, process, intended, achieved; due_per_s (null of one request), achieved_per_s (until
        the end of the schedule, or until ``SETTLED`` of the answers had come if that is later),
        last_due_ns.
    """
    done = F.when(F.col("error_code") == 0, F.col("answered_ns"))
    summed = clients.groupBy(*KEYS).agg(
        F.count("*").alias("intended"),
        F.count(done).alias("achieved"),
        F.min("intended_ns").alias("_first"),
        F.max("intended_ns").alias("last_due_ns"),
        F.percentile_approx(done, SETTLED, ACCURACY).alias("_settled"),
    )
    gaps = F.nullif(F.col("intended") - 1, F.lit(0))
    gap_ns = (F.col("last_due_ns") - F.col("_first")) / gaps
    end_ns = F.greatest(F.col("last_due_ns") + F.coalesce(gap_ns, F.lit(0)), F.col("_settled"))
    return summed.select(
        *KEYS,
        "intended",
        "achieved",
        (F.lit(1e9) / F.nullif(gap_ns, F.lit(0.0))).alias("due_per_s"),
        (F.col("achieved") * 1e9 / F.greatest(end_ns - F.col("_first"), F.lit(1))).alias(
            "achieved_per_s"
        ),
        "last_due_ns",
    )
