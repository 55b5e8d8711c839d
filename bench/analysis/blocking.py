"""How long ZooKeeper blocked KRaft writes, and why: three numbers and their parts.

``ZkWriteBlockingKRaftMillis`` is our own measure (no Kafka release has it; its value there is 0 by
construction): milliseconds per blocked operation, their sum, and the time in which at least one
operation was blocked. What is attributed must add up to the whole: ``unexplained_share`` says by
how much it does not, from two independent computations.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.carry import Fold, running, time_bucket
from bench.analysis.quantiles import ms, quantile_table
from bench.analysis.schema import KEYS
from bench.analysis.stages import reached
from emulator.trace.rows import BlockCause, PipelineStage

_CAUSES: Final = [str(cause) for cause in BlockCause]
_CLOCK_MS: Final = 1.0
"""Waits are kept in whole milliseconds: so much two instants may differ."""
_PARTS: Final = ["queue_ms", "blocked_ms", "commit_ms", "answer_ms"]


def blocked_per_operation(blocks: DataFrame) -> DataFrame:
    """Quantiles of the time an operation was blocked, by API."""
    timed = blocks.withColumn("blocked_ms", ms("end_ns", "begin_ns"))
    return quantile_table(timed, "blocked_ms", [*KEYS, "api"])


def blocked_whole(blocks: DataFrame) -> DataFrame:
    """The whole: operations, their summed time, and the time at least one was blocked.

    Returns:
        run_id, process, blocked_operations, timed_out_operations, total_ms, union_ms.
    """
    return (
        with_fresh_ms(blocks)
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("blocked_operations"),
            F.sum((F.col("end") == "timed_out").cast("long")).alias("timed_out_operations"),
            F.sum(ms("end_ns", "begin_ns")).alias("total_ms"),
            F.sum("fresh_ms").alias("union_ms"),
        )
    )


def with_fresh_ms(spans: DataFrame) -> DataFrame:
    """Add to each span of time the part that no span before it covers; the sum is their union.

    Args:
        spans: run_id, process, begin_ns, end_ns, and whatever else.

    Returns:
        ``spans`` with fresh_ms.
    """
    order = [F.asc("begin_ns"), F.asc("end_ns")]
    folds = {"_covered_to": (Fold.MAX, F.col("end_ns"))}
    known = running(spans, time_bucket("begin_ns"), order, folds, before=True)
    covered_to = F.greatest(F.col("begin_ns"), F.col("_covered_to"))
    fresh = F.greatest(ms("end_ns", covered_to), F.lit(0.0))
    return known.withColumn("fresh_ms", fresh).drop("_covered_to")


def blocked_segments(blocks: DataFrame, multis: DataFrame) -> DataFrame:
    """Cut time at every beginning and end of a block or a multi.

    Returns:
        run_id, process, begin_ns, end_ns, segment_ms, multis (in flight), operations (blocked), and
        one column per cause: operations blocked for it. Only segments with a blocked operation.
    """
    edges = _edges(blocks, "begin_ns", "end_ns", F.col("cause")).unionByName(
        _edges(multis, "sent_ns", "answered_ns", F.lit("multi"))
    )
    folds = {
        name: (Fold.SUM, F.when(F.col("what") == what, F.col("step")).otherwise(F.lit(0)))
        for name, what in [*((cause, cause) for cause in _CAUSES), ("multis", "multi")]
    }
    # Between edges of the same instant lies no time: their segments are left out.
    return (
        running(
            edges,
            time_bucket("begin_ns"),
            [F.asc("begin_ns")],
            folds,
            following=("end_ns", "begin_ns"),
        )
        .withColumn("operations", reduce(add, [F.col(cause) for cause in _CAUSES]))
        .where("operations > 0 and end_ns > begin_ns")
        .select(
            *KEYS,
            "begin_ns",
            "end_ns",
            ms("end_ns", "begin_ns").alias("segment_ms"),
            "multis",
            "operations",
            *_CAUSES,
        )
    )


def _edges(frame: DataFrame, begin: str, end: str, what: object) -> DataFrame:
    pair = F.array(
        F.struct(F.col(begin).alias("at"), F.lit(1).alias("step")),
        F.struct(F.col(end).alias("at"), F.lit(-1).alias("step")),
    )
    return frame.select(*KEYS, F.lit(what).alias("what"), F.explode(pair).alias("edge")).select(
        *KEYS, "what", F.col("edge.at").alias("begin_ns"), F.col("edge.step").alias("step")
    )


def blocking_by_cause(segments: DataFrame) -> DataFrame:
    """Attribute the blocked time to its causes and to what ZooKeeper was doing meanwhile.

    Time in which operations were blocked for different causes is shared among the causes in
    proportion to the operations.

    Args:
        segments: the result of ``blocked_segments``.

    Returns:
        run_id, process, cause, zookeeper (``multi in flight`` or ``no multi in flight``),
        union_ms, total_ms. The sums over cause and zookeeper are those of ``blocked_whole``.
    """
    busy = F.when(F.col("multis") > 0, F.lit("multi in flight")).otherwise(
        F.lit("no multi in flight")
    )
    long = segments.withColumn("zookeeper", busy).unpivot(
        (*KEYS, "zookeeper", "segment_ms", "operations"), tuple(_CAUSES), "cause", "here"
    )
    return (
        long.where("here > 0")
        .groupBy(*KEYS, "cause", "zookeeper")
        .agg(
            F.sum(F.col("segment_ms") * F.col("here") / F.col("operations")).alias("union_ms"),
            F.sum(F.col("segment_ms") * F.col("here")).alias("total_ms"),
        )
    )


def blocking_check(whole: DataFrame, by_cause: DataFrame) -> DataFrame:
    """Compare the parts with the whole.

    Returns:
        ``whole`` with unexplained_share: the greater relative difference of the two sums; the
        report refuses the attribution above 0.01.
    """
    parts = by_cause.groupBy(*KEYS).agg(
        F.sum("union_ms").alias("_union_ms"), F.sum("total_ms").alias("_total_ms")
    )
    joined = whole.join(parts, KEYS, "left").fillna(0.0, ["_union_ms", "_total_ms"])
    off = [
        F.when(F.col(name) > 0, F.abs(F.col(f"_{name}") - F.col(name)) / F.col(name)).otherwise(
            F.lit(0.0)
        )
        for name in ("union_ms", "total_ms")
    ]
    return joined.select(*whole.columns, F.greatest(*off).alias("unexplained_share"))


def blocked_per_second(segments: DataFrame) -> DataFrame:
    """Share of each second in which an operation was blocked, from ``blocked_segments``.

    Returns:
        run_id, process, second (of the process's clock), blocked_share; seconds without are absent.
    """
    nanos = 1_000_000_000
    seconds = F.sequence(F.floor(F.col("begin_ns") / nanos), F.floor((F.col("end_ns") - 1) / nanos))
    spread = segments.withColumn("second", F.explode(seconds))
    inside = F.least("end_ns", (F.col("second") + 1) * nanos) - F.greatest(
        "begin_ns", F.col("second") * nanos
    )
    return spread.groupBy(*KEYS, "second").agg(
        (F.sum(inside) / F.lit(nanos)).alias("blocked_share")
    )


def request_parts(requests: DataFrame, ranges: DataFrame, blocks: DataFrame) -> DataFrame:
    """Split the latency of each request that appended records.

    Returns:
        run_id, process, request_id, api, client_id, correlation_id, forwarded_by, offset (of its
        last record), received_ns, answered_ns, latency_ms, queue_ms (received to appended, less
        the wait for ZooKeeper), blocked_ms (the wait), commit_ms, answer_ms (committed to
        answered), out_of_order (whether a part is negative: its instants contradict each other).
    """
    held = blocks.groupBy(*KEYS, "request_id").agg(
        F.sum(ms("end_ns", "begin_ns")).alias("blocked_ms")
    )
    points = requests.where("received_ns is not null and last_offset is not null").select(
        *KEYS,
        "request_id",
        F.coalesce("inner_api", "api").alias("api"),
        "client_id",
        "correlation_id",
        "forwarded_by",
        F.col("last_offset").alias("offset"),
        "received_ns",
        "answered_ns",
    )
    timed = (
        reached(points, ranges, [PipelineStage.APPENDED, PipelineStage.COMMITTED])
        .join(held, [*KEYS, "request_id"], "left")
        .fillna(0.0, ["blocked_ms"])
    )
    parts = {
        "queue_ms": ms("appended_ns", "received_ns") - F.col("blocked_ms"),
        "blocked_ms": F.col("blocked_ms"),
        "commit_ms": ms("committed_ns", "appended_ns"),
        "answer_ms": ms("answered_ns", "committed_ns"),
    }
    return timed.select(
        *KEYS,
        "request_id",
        "api",
        "client_id",
        "correlation_id",
        "forwarded_by",
        "offset",
        "received_ns",
        "answered_ns",
        ms("answered_ns", "received_ns").alias("latency_ms"),
        *(part.alias(name) for name, part in parts.items()),
        (F.least(*parts.values()) < -_CLOCK_MS).alias("out_of_order"),
    )


def parts_summary(parts: DataFrame) -> DataFrame:
    """Sum the result of ``request_parts`` by API.

    That the four parts add up to the latency is no check, as each begins where the one before it
    ends. What can be wrong is an instant, and what can be missing is a commit.

    Returns:
        run_id, process, api, requests, latency_ms, the four parts (of requests whose commit the
        trace has), out_of_order (requests), uncommitted (requests without an instant of commit).
    """
    known = F.col("commit_ms").isNotNull()
    return parts.groupBy(*KEYS, "api").agg(
        F.count("*").alias("requests"),
        *(F.sum(F.when(known, F.col(name))).alias(name) for name in ("latency_ms", *_PARTS)),
        F.sum(F.col("out_of_order").cast("long")).alias("out_of_order"),
        F.sum((~known).cast("long")).alias("uncommitted"),
    )
