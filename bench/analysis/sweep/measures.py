"""What each run of a sweep measured in its steady window: one row a run, and one a slice of it.

Each function takes tables of traces and ``rows.windows``. Spans that lie across an end of the
window, or of a slice, are cut there.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.blocking import with_fresh_ms
from bench.analysis.job import Keep
from bench.analysis.latency import client_requests
from bench.analysis.limits import LATE_MS
from bench.analysis.quantiles import ACCURACY, enough_values, ms
from bench.analysis.schema import KEYS
from bench.analysis.utilisation import cpu_in, syncs
from bench.load.schedule import GRACE

OUTSIDE: Final = ("bench_committed_offset", "bench_zk_offset")
"""Gauges of an observer that reads offsets from outside, the same for every controller."""
_OFFSETS: Final = 2.0**53
"""Beyond it a reading is no exact number."""
_RUN: Final = "run_id"


def _slice(time_ns: str) -> Column:
    return F.floor((F.col(time_ns) - F.col("from_ns")) / F.col("slice_ns")).alias("slice")


def requests_in(requests: DataFrame, windows: DataFrame) -> DataFrame:
    """The client's requests that were due in the window.

    Returns:
        run_id, slice, intended (1), answered (1: without an error, and at the latest ``GRACE`` of
        the window after its end), response_ms, late_ms.
    """
    clients = client_requests(requests).join(F.broadcast(windows), _RUN)
    latest = F.col("to_ns") + (F.col("to_ns") - F.col("from_ns")) * GRACE
    return clients.where("intended_ns >= from_ns and intended_ns < to_ns").select(
        _RUN,
        _slice("intended_ns"),
        F.lit(1).alias("intended"),
        ((F.col("error_code") == 0) & (F.col("answered_ns") <= latest))
        .cast("int")
        .alias("answered"),
        "response_ms",
        "late_ms",
    )


def spans_in(spans: DataFrame, windows: DataFrame) -> DataFrame:
    """Spans cut at the window and at its slices.

    Args:
        spans: run_id, process, begin_ns, end_ns.
        windows: the result of ``rows.windows``.

    Returns:
        run_id, slice, fresh_ms: a sum over any slices is the union of the spans there.
    """
    cut = (
        spans.select(*KEYS, "begin_ns", "end_ns")
        .join(F.broadcast(windows), _RUN)
        .withColumn("begin_ns", F.greatest("begin_ns", "from_ns"))
        .withColumn("end_ns", F.least("end_ns", "to_ns"))
        .where("end_ns > begin_ns")
    )
    last = F.floor((F.col("end_ns") - 1 - F.col("from_ns")) / F.col("slice_ns"))
    pieces = cut.withColumn("slice", F.explode(F.sequence(_slice("begin_ns"), last)))
    begin = F.col("from_ns") + F.col("slice") * F.col("slice_ns")
    return with_fresh_ms(
        pieces.select(
            *KEYS,
            "slice",
            F.greatest("begin_ns", begin).alias("begin_ns"),
            F.least("end_ns", begin + F.col("slice_ns")).alias("end_ns"),
        )
    ).select(_RUN, "slice", "fresh_ms")


def readings_in(gauges: DataFrame, windows: DataFrame) -> DataFrame:
    """What ``watch`` read in the window, the same for every target.

    Returns:
        run_id, slice, committed (offset of the last record committed), lag_records.
    """
    known = F.col("gauge").isin(list(OUTSIDE)) & (F.abs("value") < _OFFSETS)  # nor what is NaN
    read = (
        gauges.where(known)
        .join(F.broadcast(windows), _RUN)
        .where("time_ns >= from_ns and time_ns < to_ns")
        .groupBy(_RUN, "time_ns", _slice("time_ns"))
        .pivot("gauge", list(OUTSIDE))
        .agg(F.max("value"))
    )
    committed, held = (F.col(name).cast("long") for name in OUTSIDE)
    return read.where(committed.isNotNull() & held.isNotNull()).select(
        _RUN,
        "slice",
        committed.alias("committed"),
        F.greatest(committed - held, F.lit(0)).alias("lag_records"),
    )


def committed_in(readings: DataFrame) -> DataFrame:
    """Records committed in the window: run_id, slice, committed, from the first reading on."""
    slices = readings.groupBy(_RUN, "slice").agg(
        F.min("committed").alias("_first"), F.max("committed").alias("_last")
    )
    before = F.lag("_last").over(Window.partitionBy(_RUN).orderBy("slice"))
    return slices.select(
        _RUN, "slice", (F.col("_last") - F.coalesce(before, "_first")).alias("committed")
    )


def written_in(multis: DataFrame, windows: DataFrame) -> DataFrame:
    """Multis answered in the window: run_id, slice, multis (1), records that they cover."""
    covered = F.greatest(F.col("last_offset") - F.col("first_offset") + 1, F.lit(0))
    return (
        multis.where("result = 'ok'")
        .join(F.broadcast(windows), _RUN)
        .where("answered_ns >= from_ns and answered_ns < to_ns")
        .select(_RUN, _slice("answered_ns"), F.lit(1).alias("multis"), covered.alias("records"))
    )


def per_slice(parts: dict[str, DataFrame]) -> DataFrame:
    """Put the parts of ``parts_of`` together, one row per run and slice.

    Returns:
        run_id, slice, intended, answered, lag_records (mean), busy_ms (at least one multi in
        flight), blocked_ms, multis, records (written), committed.
    """
    keys = [_RUN, "slice"]
    grouped = [
        parts["requests"]
        .groupBy(*keys)
        .agg(
            F.sum("intended").alias("intended"),
            F.sum("answered").alias("answered"),
        ),
        parts["lag"].groupBy(*keys).agg(F.avg("lag_records").alias("lag_records")),
        parts["busy"].groupBy(*keys).agg(F.sum("fresh_ms").alias("busy_ms")),
        parts["blocked"].groupBy(*keys).agg(F.sum("fresh_ms").alias("blocked_ms")),
        parts["written"]
        .groupBy(*keys)
        .agg(F.sum("multis").alias("multis"), F.sum("records").alias("records")),
        parts["committed"].groupBy(*keys).agg(F.sum("committed").alias("committed")),
    ]
    joined = reduce(lambda left, right: left.join(right, keys, "full_outer"), grouped)
    counts = ["intended", "answered", "multis", "records", "committed"]
    return joined.fillna(0, counts).fillna(0.0, ["busy_ms", "blocked_ms"])


def per_run(parts: dict[str, DataFrame], windows: DataFrame) -> DataFrame:
    """Summarise the window of each run.

    Returns:
        run_id, seconds, intended, answered, p50_ms, p99_ms, late_p99_ms (each null where too few
        values lie beyond), waited_share (of requests, sent later than due by more than
        ``LATE_MS``), traced (whether its controller wrote a trace, else null), busy_ms, sync_ms
        (with a batch that is appended and not committed), loop_share (of a core that its event
        loop used), blocked_ms, blocked_operations, multis, records, committed. Nulls where nothing
        was measured.
    """
    summed = [
        parts["requests"]
        .groupBy(_RUN)
        .agg(
            F.sum("intended").alias("intended"),
            F.sum("answered").alias("answered"),
            _quantile("response_ms", 0.5).alias("p50_ms"),
            _quantile("response_ms", 0.99).alias("p99_ms"),
            _quantile("late_ms", 0.99).alias("late_p99_ms"),
            F.avg((F.col("late_ms") > LATE_MS).cast("double")).alias("waited_share"),
        ),
        parts["traced"],
        parts["busy"].groupBy(_RUN).agg(F.sum("fresh_ms").alias("busy_ms")),
        parts["syncs"].groupBy(_RUN).agg(F.sum("fresh_ms").alias("sync_ms")),
        parts["cpu"].groupBy(_RUN).agg(F.max("loop_share").alias("loop_share")),
        parts["blocked"].groupBy(_RUN).agg(F.sum("fresh_ms").alias("blocked_ms")),
        parts["waiting"].groupBy(_RUN).agg(F.count("*").alias("blocked_operations")),
        parts["written"]
        .groupBy(_RUN)
        .agg(F.sum("multis").alias("multis"), F.sum("records").alias("records")),
        parts["committed"].groupBy(_RUN).agg(F.sum("committed").alias("committed")),
    ]
    seconds = ((F.col("to_ns") - F.col("from_ns")) / F.lit(1e9)).alias("seconds")
    each = windows.select(_RUN, seconds)
    return reduce(lambda left, right: left.join(right, _RUN, "left"), summed, each)


def parts_of(trace: dict[str, DataFrame], windows: DataFrame, keep: Keep) -> dict[str, DataFrame]:
    """Everything that ``per_slice`` and ``per_run`` need, from the tables of traces.

    Args:
        trace: the tables of ``rows.read_sweep``.
        windows: the result of ``rows.windows``.
        keep: as for ``job.results``.
    """
    sent = trace["multis"].withColumnsRenamed({"sent_ns": "begin_ns", "answered_ns": "end_ns"})
    blocks = trace["blocks"]
    waiting = blocks.join(F.broadcast(windows), _RUN)
    readings = keep("readings", readings_in(trace["gauges"], windows))
    return {
        "requests": requests_in(trace["requests"], windows),
        "lag": readings,
        "traced": trace["ranges"].select(_RUN).distinct().withColumn("traced", F.lit(True)),
        "busy": spans_in(sent, windows),
        "syncs": spans_in(syncs(trace["ranges"]), windows),
        "cpu": cpu_in(trace["gauges"], windows, [_RUN]),
        "blocked": spans_in(blocks, windows),
        "waiting": waiting.where("end_ns > from_ns and begin_ns < to_ns").select(_RUN),
        "written": written_in(trace["multis"], windows),
        "committed": committed_in(readings),
    }


def _quantile(column: str, share: float) -> Column:
    return F.when(
        enough_values(F.count(column), share), F.percentile_approx(column, share, ACCURACY)
    )


def stalled_ms(stalls: DataFrame, windows: DataFrame, at_least_ms: float) -> DataFrame:
    """Stalls of an event loop in the window, from a length on.

    Returns:
        run_id, stalls, longest_ms; runs without are absent.
    """
    long = stalls.join(F.broadcast(windows), _RUN).where("end_ns > from_ns and begin_ns < to_ns")
    length = ms("end_ns", "begin_ns")
    return (
        long.where(length >= at_least_ms)
        .groupBy(_RUN)
        .agg(F.count("*").alias("stalls"), F.max(length).alias("longest_ms"))
    )
