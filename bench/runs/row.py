"""A measured row: the columns of ``rows.parquet``. docs/bench.md says what each means."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.runs.code import code_digest
from bench.runs.scenario import Planned
from emulator.servers.machine import QUIET_CORES


@dataclass(slots=True)
class BenchRow:
    """One row. None: does not apply, or was not reached.

    Times are ``time.monotonic_ns`` (``_ns``), ms (``_ms``) or s (``_s``); rates are per second.
    ``void``: why the row must not be compared; empty if it may be.
    """

    run_id: str
    scenario: str
    kind: str
    case: str
    target: str
    repeat: int
    position: int
    digest: str
    code: str
    void: str = ""
    started_wall_ns: int = 0
    begin_ns: int | None = None
    end_ns: int | None = None
    drained_ns: int | None = None
    warm_up_s: float = 0.0
    pair: str | None = None
    # What was asked for.
    rate_per_s: float | None = None
    count: int | None = None
    partitions_per_topic: int = 1
    topics_present: int = 0
    latency_ms: float = 0.0
    bound_records: int | None = None
    connections: int = 0
    arrivals: str = ""
    """Empty: one after the other; rows of before this column have none in any case."""
    fault_at_s: float | None = None
    frozen_s: float = 0.0
    log_sync_ms: float = 0.0
    servers: int = 1
    kill_leader: bool = False
    brokers: int = 3
    # The load.
    intended: int | None = None
    answered: int | None = None
    refused: int | None = None
    errors: str = "{}"
    achieved_per_s: float | None = None
    commit_p50_ms: float | None = None
    commit_p99_ms: float | None = None
    commit_max_ms: float | None = None
    late_p99_ms: float | None = None
    late_max_ms: float | None = None
    # ZooKeeper.
    zk_s: float | None = None
    zk_changes_per_s: float | None = None
    lag_p50_records: float | None = None
    lag_p99_records: float | None = None
    lag_max_records: float | None = None
    lag_max_low_records: float | None = None
    """So many for certain; ``lag_max_records`` is how many at most."""
    lag_end_records: float | None = None
    lag_slope_records_per_s: float | None = None
    lag_p99_low_ms: float | None = None
    lag_p99_high_ms: float | None = None
    lag_gap_p99_ms: float | None = None
    zk_transactions: int | None = None
    znodes: int | None = None
    # After a fault.
    fault_ns: int | None = None
    thaw_ns: int | None = None
    backlog_records: float | None = None
    catch_up_s: float | None = None
    # Ours.
    blocked_union_ms: float | None = None
    blocked_operations_ms: float | None = None
    blocked_share: float | None = None
    longest_step_ms: float | None = None
    # The machine.
    controller_cpu_s: float | None = None
    zookeeper_cpu_s: float | None = None
    fleet_cpu_s: float | None = None
    load_cpu_s: float | None = None
    machine_busy: float | None = None
    controller_rss_mib: float | None = None
    others_cores: float | None = None
    load_1_min: float | None = None
    fsync_p50_ms: float | None = None
    fsync_max_ms: float | None = None
    zk_write_p50_ms: float | None = None
    # Starts: since the process was started.
    listening_s: float | None = None
    claim_s: float | None = None
    dual_write_s: float | None = None
    first_commit_s: float | None = None
    first_in_zk_s: float | None = None
    # Kind scale.
    copy_s: float | None = None
    copy_cpu_s: float | None = None
    copy_rss_mib: float | None = None
    copy_step_ms: float | None = None
    change_cpu_us: float | None = None
    heartbeats: int | None = None
    heartbeat_p99_ms: float | None = None
    heartbeat_max_ms: float | None = None
    death_s: float | None = None
    death_step_ms: float | None = None
    failover_s: float | None = None
    failover_step_ms: float | None = None
    failover_rss_mib: float | None = None
    empty_rss_mib: float | None = None
    partition_bytes: float | None = None
    snapshots: int | None = None
    snapshot_mib: float | None = None
    # How it was taken.
    warm_up: str = ""
    command: str = ""
    versions: str = ""
    machine: str = ""

    @classmethod
    def of(cls, planned: Planned) -> BenchRow:
        """A row that nothing was measured for yet."""
        case = planned.case
        return cls(
            run_id=planned.run_id,
            scenario=planned.scenario.name,
            kind=planned.scenario.kind,
            case=case.name,
            target=planned.target,
            repeat=planned.repeat,
            position=planned.position,
            digest=planned.digest,
            code=code_digest(),
            rate_per_s=case.rate,
            count=case.count,
            partitions_per_topic=case.partitions,
            topics_present=case.topics_present,
            latency_ms=case.latency_ms,
            bound_records=case.bound_records,
            connections=case.connections,
            arrivals=case.arrivals,
            fault_at_s=case.fault_at_s,
            frozen_s=case.freeze_s,
            log_sync_ms=statistics.median(case.fsync_ms) if case.fsync_ms else 0.0,
            servers=case.servers,
            kill_leader=case.kill_leader,
            brokers=case.brokers,
            warm_up=str(planned.scenario.warm_up),
        )

    @property
    def quiet(self) -> bool:
        """Whether other processes were idle."""
        return self.others_cores is not None and self.others_cores < QUIET_CORES

    def line(self) -> str:
        """The row in one line."""
        parts = [
            f"{what} {value:,.{digits}f} {unit}"
            for what, value, unit, digits in (
                ("commit", self.achieved_per_s, "/s", 0),
                ("ZooKeeper", self.zk_changes_per_s, "/s", 0),
                ("p50", self.commit_p50_ms, "ms", 1),
                ("p99", self.commit_p99_ms, "ms", 1),
                ("behind by at most", self.lag_max_records, "records", 0),
                ("caught up in", self.catch_up_s, "s", 2),
                ("blocked", self.blocked_union_ms, "ms", 0),
                ("copied in", self.copy_s, "s", 1),
                ("broker's death", self.death_s, "s", 1),
                ("failover", self.failover_s, "s", 2),
                ("listening", self.listening_s, "s", 2),
                ("dual write", self.dual_write_s, "s", 2),
                ("first change in ZooKeeper", self.first_in_zk_s, "s", 2),
                ("others", self.others_cores, "cores", 2),
            )
            if value is not None
        ]
        if self.refused:
            parts.append(f"{self.refused} refused: {self.errors}")
        if self.void:
            parts.append(f"VOID: {self.void}")
        return f"{self.run_id}: {', '.join(parts)}"


def row_of(document: Mapping[str, Any]) -> BenchRow:
    """A row as it was written; a file may have been damaged, or edited by hand.

    Raises:
        TypeError: a column is missing or unknown, or ``document`` is no table.
        ValueError: a value is not of its column's type, or no finite number.
    """
    row = BenchRow(**document)
    for name, (kind, optional) in _columns().items():
        value = getattr(row, name)
        if value is None and optional:
            continue
        whole = isinstance(value, int) and not isinstance(value, bool)
        if kind is float and whole:
            continue
        if (kind is int and not whole) or not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}")
    return row


def column_types() -> dict[str, type]:
    """Column -> int, float, str or bool, in order."""
    return {name: kind for name, (kind, _) in _columns().items()}


@functools.cache
def _columns() -> dict[str, tuple[type, bool]]:
    """Column -> its type, and whether it may be null; in order."""
    hints = typing.get_type_hints(BenchRow)
    return {field.name: _plain(hints[field.name]) for field in dataclasses.fields(BenchRow)}


def _plain(hint: Any) -> tuple[type, bool]:
    arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
    found: type = arms[0] if arms else hint
    return found, bool(arms)


def slope(points: list[tuple[float, float]]) -> float | None:
    """Least squares: by how much the second grows with the first; None of fewer than three points.

    >>> slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)])
    2.0
    """
    if len(points) < 3 or len({x for x, _ in points}) < 2:
        return None
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
