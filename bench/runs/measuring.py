"""From what was seen during a load to the columns of its row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.load.schedule import achieved_per_s
from bench.runs import loads
from bench.runs.client import OpenLoop
from bench.runs.faults import Fault
from bench.runs.row import BenchRow, slope
from bench.runs.scenario import Kind
from bench.runs.targets import TARGETS, Controller
from bench.runs.watch import Watch, lag_low, lag_ms
from bench.runs.zookeepers import Servers
from emulator.servers.machine import Meter
from emulator.trace.distribution import percentile

_UNION: Final = "kraft_bridge_zk_write_blocking_kraft_union_ms_total"
_OPERATIONS: Final = "kraft_bridge_zk_write_blocking_kraft_operations_ms_total"
_LONGEST: Final = "kraft_bridge_longest_step_ms"


class Figures:
    """Begins to count when made; ``fill`` ends it."""

    def __init__(self, servers: Servers, controller: Controller, meter: Meter) -> None:
        self._servers = servers
        self._controller = controller
        self._metrics = controller.metrics()
        self._transactions = servers.transactions()
        self._znodes = servers.znodes()
        self._meter = meter

    def loaded(self, row: BenchRow) -> None:
        """Enter how full the machine was: at the end of the load, before ZooKeeper is waited for.

        Args:
            row: is changed.
        """
        row.machine_busy = self._meter.usage().busy

    def fill(
        self, row: BenchRow, loop: OpenLoop, watch: Watch, ended_ns: int, drained_ns: int | None
    ) -> None:
        """Enter everything that is known when ZooKeeper holds the load, or will not.

        Args:
            row: is changed.
            loop: the load.
            watch: what was seen from outside.
            ended_ns: when the load was over.
            drained_ns: when ZooKeeper held all of it; None: it did not.
        """
        self._machine(row)
        row.begin_ns, row.end_ns = loop.begin_ns, loop.last_ns or ended_ns
        row.drained_ns = drained_ns
        _client(row, loop)
        _zookeeper(row, watch)
        before, now = self._transactions, self._servers.transactions()
        if before is not None and now is not None and now >> 32 == before >> 32:
            row.zk_transactions = now - before
        before, now = self._znodes, self._servers.znodes()
        if before is not None and now is not None:
            row.znodes = now - before
        row.void = row.void or missing_znodes(row)
        self._blocked(row)

    def _machine(self, row: BenchRow) -> None:
        usage = self._meter.usage()
        row.controller_cpu_s = usage.cpu_s["controller"]
        row.fleet_cpu_s = usage.cpu_s["fleet"]
        row.load_cpu_s = usage.cpu_s["client"]
        of_zookeeper = [s for name, s in usage.cpu_s.items() if name.startswith("zookeeper")]
        row.zookeeper_cpu_s = sum(of_zookeeper) if of_zookeeper else None
        row.others_cores = usage.others_cores
        row.controller_rss_mib = rss_mib(self._controller.pid)

    def _blocked(self, row: BenchRow) -> None:
        now = self._controller.metrics()
        if not now or not self._metrics or row.begin_ns is None or row.end_ns is None:
            return
        row.blocked_union_ms = now[_UNION] - self._metrics[_UNION]
        row.blocked_operations_ms = now[_OPERATIONS] - self._metrics[_OPERATIONS]
        row.blocked_share = row.blocked_union_ms / max(1.0, (row.end_ns - row.begin_ns) / 1e6)
        row.longest_step_ms = longest_step_ms(now)


def _client(row: BenchRow, loop: OpenLoop) -> None:
    assert row.begin_ns is not None
    assert row.end_ns is not None
    done = [number for number, error in enumerate(loop.errors) if not error]
    # What was not carried out is slower than any that was.
    waits = [math.inf] * (len(loop.errors) - len(done))
    waits += [(loop.answered_ns[number] - loop.intended_ns(number)) / 1e6 for number in done]
    row.intended = len(loop.errors)
    row.answered = len(done)
    row.refused = row.intended - row.answered
    row.errors = json.dumps(loads.errors_of(loop.errors))
    row.achieved_per_s = _achieved_per_s(row, loop, done)
    row.commit_p50_ms = _reached(percentile(waits, 0.5))
    row.commit_p99_ms = _reached(percentile(waits, 0.99))
    row.commit_max_ms = _reached(max(waits, default=None))
    late_ms = [ns / 1e6 for ns in loop.late_ns]
    row.late_p99_ms, row.late_max_ms = percentile(late_ms, 0.99), max(late_ms, default=None)


def _reached(ms: float | None) -> float | None:
    return None if ms == math.inf else ms


def _achieved_per_s(row: BenchRow, loop: OpenLoop, done: list[int]) -> float:
    """See ``schedule.achieved_per_s``; without a rate each is due when a connection is free."""
    assert row.begin_ns is not None
    due_ns = loop.intended_ns(len(loop.errors)) if row.rate_per_s else row.begin_ns
    return achieved_per_s(row.begin_ns, due_ns, (loop.answered_ns[number] for number in done))


def _zookeeper(row: BenchRow, watch: Watch) -> None:
    if not TARGETS[row.target].to_zookeeper:
        return
    assert row.begin_ns is not None
    assert row.end_ns is not None
    during = [s for s in watch.samples if row.begin_ns <= s.time_ns <= row.end_ns]
    lags = [float(one.lag) for one in during]
    row.lag_p50_records = percentile(lags, 0.5)
    row.lag_p99_records = percentile(lags, 0.99)
    row.lag_max_records, row.lag_max_low_records = max(lags, default=None), lag_low(during)
    row.lag_end_records = lags[-1] if lags else None
    row.lag_slope_records_per_s = slope(
        [((one.time_ns - row.begin_ns) / 1e9, float(one.lag)) for one in during]
    )
    ages = lag_ms(watch.samples, row.begin_ns, row.end_ns)
    row.lag_p99_low_ms, row.lag_p99_high_ms = ages.low_ms, ages.high_ms
    row.lag_gap_p99_ms = ages.gap_ms
    if row.drained_ns is not None and row.answered:
        row.zk_s = (row.drained_ns - row.begin_ns) / 1e9
        each = row.partitions_per_topic if row.kind == "create" else 1
        row.zk_changes_per_s = row.answered * each / row.zk_s


def missing_znodes(row: BenchRow) -> str:
    """Why a row is void although ``/migration`` says that ZooKeeper holds all; empty if it does.

    Trees are compared in a part of the topics only, so the znodes of all are counted.
    """
    if row.kind != Kind.CREATE or row.drained_ns is None or None in (row.znodes, row.answered):
        return ""
    assert row.znodes is not None
    assert row.answered is not None
    # The topic, its config, the folder of its partitions; of each partition a folder and a state.
    wanted = row.answered * (3 + 2 * row.partitions_per_topic)
    if row.znodes >= wanted:
        return ""
    return f"ZooKeeper has {row.znodes} new znodes; the topics created have {wanted}"


def after_fault(row: BenchRow, watch: Watch, fault: Fault) -> None:
    """Enter how much had piled up when ZooKeeper went on, and how long it took to write it."""
    row.fault_ns, row.thaw_ns = fault.begin_ns, fault.end_ns
    if fault.end_ns is None:
        row.void = "the fault did not happen"
        return
    row.backlog_records = float(watch.lag_at(fault.end_ns))
    reached_ns = watch.drained(watch.committed_at(fault.end_ns), 0.0)
    if reached_ns is not None:
        row.catch_up_s = max(0.0, (reached_ns - fault.end_ns) / 1e9)


def longest_step_ms(metrics: Mapping[str, float], kind: str = "any") -> float | None:
    """The longest step of a controller since its start; None of one without that metric.

    Args:
        metrics: of the controller.
        kind: ``any``: by the clock; ``cpu``: by the time of its thread.
    """
    return metrics.get(f'{_LONGEST}{{step="{kind}"}}')


def rss_mib(pid: int | None) -> float | None:
    """The resident set of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None
