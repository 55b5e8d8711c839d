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
from bench.analysis.lag import lag_series
from bench.analysis.latency import client_requests
from bench.analysis.quantiles import ACCURACY, ms
from bench.analysis.schema import KEYS
from bench.load.schedule import GRACE
from emulator.trace.rows import Stage

SAMPLE_NS: Final = 10_000_000
"""Between two samples of the lag, in a window of up to ``SAMPLES`` of them."""
SAMPLES: Final = 100_000
"""Of a longer window they are farther apart: a damaged row may say that it lasted for a day."""
OUTSIDE: Final = {
    "bench_committed_offset": str(Stage.COMMITTED),
    "bench_zk_offset": str(Stage.ZK_ACKED),
}
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
    answered_ns = F.col("intended_ns") + (F.col("response_ms") * 1e6).cast("long")
    latest = F.col("to_ns") + (F.col("to_ns") - F.col("from_ns")) * GRACE
    return clients.where("intended_ns >= from_ns and intended_ns < to_ns").select(
        _RUN,
        _slice("intended_ns"),
        F.lit(1).alias("intended"),
        ((F.col("error_code") == 0) & (answered_ns <= latest)).cast("int").alias("answered"),
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


def offsets_from_outside(gauges: DataFrame) -> DataFrame:
    """Readings of an observer as rows of ``ranges``: each new offset is a batch that got there.

    So the lag of a controller without a trace is computed by the same code; its times are those
    of the readings.
    """
    stage = F.coalesce(
        *(F.when(F.col("gauge") == gauge, F.lit(name)) for gauge, name in OUTSIDE.items())
    )
    known = F.col("gauge").isin(list(OUTSIDE)) & (F.abs("value") < _OFFSETS)  # nor what is NaN
    read = gauges.where(known).select(
        *KEYS, stage.alias("stage"), F.col("value").cast("long").alias("last_offset"), "time_ns"
    )
    # An offset counts from its first reading.
    first = read.groupBy(*KEYS, "stage", "last_offset").agg(F.min("time_ns").alias("time_ns"))
    # 20 readings a second at most: one window a run.
    before = Window.partitionBy(*KEYS, "stage").orderBy("last_offset")
    return first.select(
        "*",
        (F.coalesce(F.lag("last_offset").over(before), F.col("last_offset") - 1) + 1).alias(
            "first_offset"
        ),
        F.lit(0).cast("long").alias("no_op_records"),
    )


def lag_samples(series: DataFrame, windows: DataFrame) -> DataFrame:
    """The lag at equal distances of time in the window, so that each instant counts alike.

    Args:
        series: the result of ``lag_series``.
        windows: the result of ``rows.windows``.

    Returns:
        run_id, process, slice, lag_records, lag_ms (grown since the row that it follows from).
    """
    until = F.col("time_ns") + F.coalesce("lasted_ns", F.col("to_ns") - F.col("time_ns"))
    apart_ns = F.greatest(F.lit(SAMPLE_NS), F.ceil((F.col("to_ns") - F.col("from_ns")) / SAMPLES))
    shown = (
        series.join(F.broadcast(windows), _RUN)
        .withColumn("_begin", F.greatest("time_ns", "from_ns"))
        .withColumn("_end", F.least(until, F.col("to_ns")))
        .where("_end > _begin")
    )
    first = F.ceil((F.col("_begin") - F.col("from_ns")) / apart_ns)
    last = F.ceil((F.col("_end") - F.col("from_ns")) / apart_ns) - 1
    each = shown.where(last >= first).withColumn("_at", F.explode(F.sequence(first, last)))
    at = each.withColumn("at_ns", F.col("from_ns") + F.col("_at") * apart_ns)
    aged = F.col("lag_ms") + ms("at_ns", "time_ns")
    return at.select(
        *KEYS,
        _slice("at_ns"),
        "lag_records",
        F.when(F.col("lag_records") > 0, aged).otherwise(F.lit(0.0)).alias("lag_ms"),
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


def committed_in(ranges: DataFrame, windows: DataFrame) -> DataFrame:
    """Records committed in the window: run_id, slice, committed."""
    return (
        ranges.where(F.col("stage") == str(Stage.COMMITTED))
        .join(F.broadcast(windows), _RUN)
        .where("time_ns >= from_ns and time_ns < to_ns")
        .select(
            _RUN,
            _slice("time_ns"),
            (F.col("last_offset") - F.col("first_offset") + 1).alias("committed"),
        )
    )


def moves_of_runs(trace: dict[str, DataFrame]) -> DataFrame:
    """Offsets committed and acknowledged in every run: by its own trace, else from outside.

    Returns:
        the columns of ``ranges``, and source (``trace`` or ``outside``).
    """
    moved = F.col("stage").isin(list(OUTSIDE.values()))
    inside = trace["ranges"].where(moved).withColumn("source", F.lit("trace"))
    outside = offsets_from_outside(trace["gauges"]).withColumn("source", F.lit("outside"))
    traced = inside.select(_RUN).distinct()
    return inside.unionByName(outside.join(F.broadcast(traced), _RUN, "left_anti"))


def per_slice(parts: dict[str, DataFrame]) -> DataFrame:
    """Put the parts of ``parts_of`` together, one row per run and slice.

    Returns:
        run_id, slice, intended, answered, p99_ms, lag_records (mean), lag_ms (p99), busy_ms (at
        least one multi in flight), blocked_ms, multis, records (written), committed.
    """
    keys = [_RUN, "slice"]
    grouped = [
        parts["requests"]
        .groupBy(*keys)
        .agg(
            F.sum("intended").alias("intended"),
            F.sum("answered").alias("answered"),
            _quantile("response_ms", 0.99).alias("p99_ms"),
        ),
        parts["lag"]
        .groupBy(*keys)
        .agg(F.avg("lag_records").alias("lag_records"), _quantile("lag_ms", 0.99).alias("lag_ms")),
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
        run_id, seconds, intended, answered, p50_ms, p99_ms, late_p99_ms, lag_p50_records,
        lag_p99_records, lag_p50_ms, lag_p99_ms, lag_source, busy_ms, blocked_ms,
        blocked_operations, multis, records, committed. Nulls where nothing was measured.
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
        ),
        parts["lag"]
        .groupBy(_RUN)
        .agg(
            _quantile("lag_records", 0.5).alias("lag_p50_records"),
            _quantile("lag_records", 0.99).alias("lag_p99_records"),
            _quantile("lag_ms", 0.5).alias("lag_p50_ms"),
            _quantile("lag_ms", 0.99).alias("lag_p99_ms"),
        ),
        parts["source"],
        parts["busy"].groupBy(_RUN).agg(F.sum("fresh_ms").alias("busy_ms")),
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
    moves = keep("moves", moves_of_runs(trace))
    samples = lag_samples(lag_series(moves), windows)
    return {
        "requests": requests_in(trace["requests"], windows),
        "lag": keep("lag_samples", samples),
        "source": moves.groupBy(_RUN).agg(F.first("source").alias("lag_source")),
        "busy": spans_in(sent, windows),
        "blocked": spans_in(blocks, windows),
        "waiting": waiting.where("end_ns > from_ns and begin_ns < to_ns").select(_RUN),
        "written": written_in(trace["multis"], windows),
        "committed": committed_in(moves, windows),
    }


def _quantile(column: str, share: float) -> Column:
    return F.percentile_approx(column, share, ACCURACY)


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
