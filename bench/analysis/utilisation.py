"""How full each resource was while a load ran, and where a change's time went, from a trace.

Clocks are compared within a process only: what controllers did counts from the first change of the
load that they saw until ``SETTLED`` of those were answered, what clients did from the first to the
last that was due. A resource that serves one at a time is full for as long as something is at it:
its utilisation is the union of these times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.blocking import with_fresh_ms
from bench.analysis.limits import BLOCKED, LATE_MS, PARTS, Key
from bench.analysis.quantiles import ACCURACY, enough_values, ms, quantile_tables
from bench.analysis.schema import KEYS
from bench.analysis.stages import reached
from bench.load.schedule import SETTLED
from emulator.trace.rows import CpuGauge, PipelineStage

_CALL: Final = ["run_id", "client_id", "correlation_id", "api"]
_SHORT: Final = 0.1
"""A controller that saw changes for less than this share of the longest of its run is left out: of
two changes in a row one is always under way."""


def change_parts(parts: DataFrame, clients: DataFrame) -> DataFrame:
    """Join each change's parts in the controller with what its client saw of it.

    Args:
        parts: the result of ``blocking.request_parts``.
        clients: the trace's requests of clients, with what ``latency.client_requests`` leaves out.

    Returns:
        run_id, process, forwarded_by, received_ns, answered_ns (of the controller), client_process,
        sent_ns, done_ns (of the client), and a column ``*_ms`` for each of ``PARTS``; only changes
        that were carried out. Where a run has no client, those columns are null, and all changes of
        it are here.
    """
    last = parts.groupBy(*_CALL).agg(
        F.max_by(F.struct(*(name for name in parts.columns if name not in _CALL)), "offset").alias(
            "_p"
        )
    )  # of a broker's attempts the last in the log; what came before it was a wait at the broker
    seen = clients.where("error_code = 0").select(
        *_CALL,
        F.col("process").alias("client_process"),
        "intended_ns",
        "sent_ns",
        F.col("answered_ns").alias("done_ns"),
    )
    runs = F.broadcast(clients.select("run_id").distinct().withColumn("_loaded", F.lit(True)))
    joined = last.join(seen, _CALL, "left").join(runs, "run_id", "left")
    here = joined.where("_loaded is null or done_ns is not null").select(
        "run_id", "_p.*", "client_process", "intended_ns", "sent_ns", "done_ns"
    )
    return here.select(
        *KEYS,
        "forwarded_by",
        "received_ns",
        "answered_ns",
        "client_process",
        "sent_ns",
        "done_ns",
        ms("sent_ns", "intended_ns").alias("client_ms"),
        (ms("done_ns", "sent_ns") - F.col("latency_ms")).alias("broker_ms"),
        "queue_ms",
        "blocked_ms",
        "commit_ms",
        "answer_ms",
    )


def change_time(changes: DataFrame) -> DataFrame:
    """Where the time of changes went, from the result of ``change_parts``.

    Returns:
        run_id, part (of ``PARTS``), the columns of ``quantile_table``; a part that nothing is known
        of is absent.
    """
    values = {part: f"{part}_ms" for part in PARTS}
    return quantile_tables(changes, values, ["run_id"], "part")


def utilisation(
    trace: Mapping[str, DataFrame],
    clients: DataFrame,
    changes: DataFrame,
    keep: Callable[[str, DataFrame], DataFrame] = lambda _, table: table,
) -> DataFrame:
    """How much of each resource was used, from what the trace has.

    Args:
        trace: its tables.
        clients: its requests of clients.
        changes: the result of ``change_parts``.
        keep: see `bench.analysis.job.results`.

    Returns:
        run_id, resource (a ``limits.Key``, or ``limits.BLOCKED``), subject (a process, a broker, or
        empty), value (a share; of ``client`` ms; of ``process`` cores), limit (of ``process``: the
        cores of its machine; else null).
    """
    windows = keep("change_windows", _windows(changes))
    multis = trace["multis"].withColumnsRenamed({"sent_ns": "begin_ns", "answered_ns": "end_ns"})
    return reduce(
        DataFrame.unionByName,
        [
            _busy(syncs(trace["ranges"]), windows, Key.LOG_SYNC),
            _busy(multis, windows, Key.ZOOKEEPER),
            _busy(trace["blocks"], windows, BLOCKED),
            _forwarding(changes),
            *_of_clients(clients),
            *_of_cpu(trace["gauges"], windows, clients),
        ],
    )


def _settled(answered_ns: str) -> Column:
    return F.percentile_approx(answered_ns, SETTLED, ACCURACY).alias("to_ns")


def _windows(changes: DataFrame) -> DataFrame:
    """When each controller had changes: one that is answered much later makes it no longer."""
    each = changes.groupBy(*KEYS).agg(
        F.min("received_ns").alias("from_ns"), _settled("answered_ns")
    )
    length = F.col("to_ns") - F.col("from_ns")
    longest = F.broadcast(each.groupBy("run_id").agg(F.max(length).alias("_longest_ns")))
    long = (length > 0) & (length >= F.col("_longest_ns") * _SHORT)
    return each.join(longest, "run_id").where(long).select(*KEYS, "from_ns", "to_ns")


def _row(frame: DataFrame, key: str, subject: str | None, value: str, limit: str = "") -> DataFrame:
    return frame.select(
        "run_id",
        F.lit(str(key)).alias("resource"),
        (F.lit("") if subject is None else F.col(subject)).alias("subject"),
        F.expr(value).cast("double").alias("value"),
        F.expr(limit or "null").cast("double").alias("limit"),
    ).where("value is not null")


def _busy(spans: DataFrame, windows: DataFrame, key: str) -> DataFrame:
    """Share of each process's window in which at least one span was open."""
    few = F.broadcast(windows.select(*KEYS, "from_ns", "to_ns"))
    cut = (
        spans.select(*KEYS, "begin_ns", "end_ns")
        .join(few, KEYS)
        .withColumn("begin_ns", F.greatest("begin_ns", "from_ns"))
        .withColumn("end_ns", F.least("end_ns", "to_ns"))
        .where("end_ns > begin_ns")
    )
    open_ms = with_fresh_ms(cut).groupBy(*KEYS).agg(F.sum("fresh_ms").alias("_open_ms"))
    # Without any span in its window a process was idle there.
    found = windows.join(F.broadcast(open_ms), KEYS, "left").fillna(0.0, ["_open_ms"])
    return _row(found, key, "process", "_open_ms * 1e6 / (to_ns - from_ns)")


def syncs(ranges: DataFrame) -> DataFrame:
    """From when each batch was appended until it was committed.

    Returns:
        run_id, process, offset, begin_ns, end_ns (null where the trace has no commit of it).
    """
    batches = ranges.where(F.col("stage") == str(PipelineStage.APPENDED)).select(
        *KEYS, F.col("last_offset").alias("offset"), F.col("time_ns").alias("begin_ns")
    )
    return reached(batches, ranges, [PipelineStage.COMMITTED]).withColumnRenamed(
        "committed_ns", "end_ns"
    )


def _forwarding(changes: DataFrame) -> DataFrame:
    """Of each broker: share of the time with a change at it, on the clocks of its clients."""
    # Of clients on several hosts the clocks cannot be compared: the fullest share counts.
    there = changes.where("forwarded_by is not null and sent_ns is not null").select(
        "run_id",
        "client_process",
        F.concat_ws("\t", "forwarded_by", "client_process").alias("process"),
        F.col("sent_ns").alias("begin_ns"),
        F.col("done_ns").alias("end_ns"),
    )
    # A client's time is that of all brokers: one that got two changes was not full of them.
    of_client = ["run_id", "client_process"]
    times = there.groupBy(*of_client).agg(F.min("begin_ns").alias("from_ns"), _settled("end_ns"))
    windows = there.select(*of_client, "process").distinct().join(F.broadcast(times), of_client)
    found = _busy(there, windows.where("to_ns > from_ns"), Key.FORWARDING)
    broker = F.split("subject", "\t")[0]
    return found.groupBy("run_id", "resource", broker.alias("subject")).agg(
        F.max("value").alias("value"), F.max("limit").alias("limit")
    )


def _of_clients(clients: DataFrame) -> list[DataFrame]:
    """How late they were by themselves, and how often no connection was free."""
    late = ms("begun_ns", "intended_ns")
    waited = ms("first_sent_ns", "begun_ns") > LATE_MS
    summed = clients.groupBy(*KEYS).agg(
        F.when(enough_values(F.count(late), 0.99), F.percentile_approx(late, 0.99, ACCURACY))
        .otherwise(F.max(late))
        .alias("_late_ms"),
        F.avg(waited.cast("double")).alias("_waited"),
    )
    return [
        _row(summed, Key.CLIENT, "process", "_late_ms"),
        _row(summed, Key.CONNECTIONS, "process", "_waited"),
    ]


def cpu_in(gauges: DataFrame, windows: DataFrame, by: Sequence[str]) -> DataFrame:
    """How many cores each process used in a window, its loop, and its machine.

    Args:
        gauges: the trace's table.
        windows: ``by``, from_ns, to_ns.
        by: ``KEYS``, or run_id if a run's processes share a window, and so a clock.

    Returns:
        run_id, process, process_cores, loop_share, machine_cores, cores (of its machine); null
        where the trace does not have it. Only processes with two samples in their window.
    """
    used = (
        gauges.where(F.col("gauge").isin([str(each) for each in CpuGauge]))
        .join(F.broadcast(windows.select(*by, "from_ns", "to_ns")), [*by])
        .where("time_ns between from_ns and to_ns")
        .groupBy(*KEYS, "gauge")
        .agg(
            F.max("value").alias("_last"),
            (F.max("value") - F.min("value")).alias("_used_s"),
            ((F.max("time_ns") - F.min("time_ns")) / 1e9).alias("_s"),
        )
        .where("_s > 0")
    )
    each = F.col("_used_s") / F.col("_s")
    return used.groupBy(*KEYS).agg(
        *(
            F.max(F.when(F.col("gauge") == str(gauge), value)).alias(name)
            for gauge, value, name in (
                (CpuGauge.PROCESS, each, "process_cores"),
                (CpuGauge.EVENT_LOOP, each, "loop_share"),
                (CpuGauge.MACHINE, each, "machine_cores"),
                (CpuGauge.MACHINE_CORES, F.col("_last"), "cores"),
            )
        )
    )


def _of_cpu(gauges: DataFrame, windows: DataFrame, clients: DataFrame) -> list[DataFrame]:
    """Cores that each process used during the load, and its machine."""
    of_clients = clients.groupBy(*KEYS).agg(
        F.min("intended_ns").alias("from_ns"), F.max("intended_ns").alias("to_ns")
    )
    used = cpu_in(gauges, windows.unionByName(of_clients), KEYS)
    controllers = used.join(windows.select(*KEYS), KEYS, "left_semi")
    hosts = used.groupBy("run_id").agg(F.max(F.expr("machine_cores / cores")).alias("_full"))
    return [
        _row(used, Key.PROCESS, "process", "process_cores", "cores"),
        _row(controllers, Key.EVENT_LOOP, "process", "loop_share"),
        _row(hosts, Key.MACHINE, None, "_full"),
    ]
