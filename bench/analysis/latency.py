"""Latency of requests: as the controller saw them, as clients did, and both joined."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.quantiles import ms, quantile_table
from bench.analysis.schema import KEYS


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
        run_id, process, client_id, correlation_id, api, intended_ns, error_code, response_ms (from
        the intended instant: what a user would feel), service_ms (from the send), late_ms (send
        after the intended instant).
    """
    return requests.where("intended_ns is not null").select(
        *KEYS,
        "client_id",
        "correlation_id",
        "api",
        "intended_ns",
        "error_code",
        ms("answered_ns", "intended_ns").alias("response_ms"),
        ms("answered_ns", "sent_ns").alias("service_ms"),
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
        run_id, api, seen (``server``, ``client response``, ``client service``,
        ``outside the controller``), and the columns of ``quantile_table``.
    """
    kinds = [
        (servers, "latency_ms", "server"),
        (clients, "response_ms", "client response"),
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
    return quantile_table(together, "latency_ms", ["run_id", "api", "seen"])


def rate_per_second(clients: DataFrame) -> DataFrame:
    """Intended and achieved requests per second of a client's schedule.

    Returns:
        run_id, process, second, intended, achieved (answered without an error in that second).
    """
    nanos = 1_000_000_000
    answered = F.col("intended_ns") + (F.col("response_ms") * F.lit(1e6)).cast("long")
    intended = clients.select(
        *KEYS,
        F.floor(F.col("intended_ns") / nanos).alias("second"),
        F.lit(1).alias("_i"),
        F.lit(0).alias("_a"),
    )
    achieved = clients.where("error_code = 0").select(
        *KEYS, F.floor(answered / nanos).alias("second"), F.lit(0).alias("_i"), F.lit(1).alias("_a")
    )
    return (
        intended.unionByName(achieved)
        .groupBy(*KEYS, "second")
        .agg(F.sum("_i").alias("intended"), F.sum("_a").alias("achieved"))
    )


def rate_summary(rates: DataFrame) -> DataFrame:
    """Sum the result of ``rate_per_second``.

    Returns:
        run_id, process, intended, achieved; first_second and last_second in which a request was
        due, null where none was.
    """
    due = F.when(F.col("intended") > 0, F.col("second"))
    return rates.groupBy(*KEYS).agg(
        F.sum("intended").alias("intended"),
        F.sum("achieved").alias("achieved"),
        F.min(due).alias("first_second"),
        F.max(due).alias("last_second"),
    )
