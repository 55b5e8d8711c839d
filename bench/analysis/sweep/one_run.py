"""One run: how it was described, and what follows from its measures. Plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bench.analysis import limits
from bench.analysis.limits import Figure, Key, Limited
from bench.analysis.sweep import fits
from bench.analysis.sweep.knee import Measured
from emulator.servers.machine import QUIET_CORES

Record = Mapping[str, Any]

PERIODS: Final = 10
"""A limit of the lag is at least so many times as long as the time between two readings of it."""
SLICES: Final = 60
"""A steady window is cut into at most this many slices, none shorter than a second."""

_STALL: Final = "s stall"


class Group(NamedTuple):
    """What the runs of one sweep of rates have in common."""

    scenario: str
    target: str
    latency_ms: float
    bound_records: int | None
    partitions_per_topic: int | None
    setting: str = ""
    """What else differs from the plainest case, in words."""

    @property
    def label(self) -> str:
        """The group in a few words."""
        bound = "" if self.bound_records is None else f", bound {self.bound_records:,}"
        batch = "" if not self.partitions_per_topic else f", {self.partitions_per_topic} a topic"
        setting = f", {self.setting}" if self.setting else ""
        return f"{self.target}, {self.latency_ms:g} ms{bound}{batch}{setting}"

    @property
    def stalled(self) -> bool:
        """Whether ZooKeeper was stopped for a time."""
        return _STALL in self.setting


@dataclass(frozen=True, slots=True)
class Run:
    """One run with what follows from its measures; shares are of its steady window.

    ``utilisation``: the time ZooKeeper would need for what was committed, at the time a record
    took in this run, as a share of the window; above 1 it cannot keep up.
    """

    run_id: str
    group: Group
    rate: float | None
    repeat: int
    void: str
    pair: str | None
    seconds: float
    achieved: float | None
    achieved_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    late_p99_ms: float | None
    lag_p99_low_ms: float | None
    lag_p99_high_ms: float | None
    judged_from_ms: float | None
    """The smallest limit of a lag that readings as far apart as its own can judge."""
    lag_p99_records: float | None
    growth: float | None
    blocked_share: float | None
    blocked_operations: int | None
    busy_share: float | None
    utilisation: float | None
    records_per_multi: float | None
    others_cores: float | None
    intended: int
    noisy_stalls: int
    figures: tuple[Figure, ...]
    limit: Limited
    counts: bool
    """Whether it is compared: not void, and with a steady window that something happened in."""

    @property
    def of_zookeeper(self) -> bool:
        """Whether anything about ZooKeeper follows: not from a full machine or a late client."""
        return self.counts and self.limit.zookeeper is not False

    @property
    def measured(self) -> Measured:
        """As a point of its sweep of rates."""
        assert self.rate is not None
        return Measured(self.rate, self.achieved, self.growth, self.p99_ms)


def run_of(
    described: Record, measured: Record | None, slices: Sequence[Record], stalls: Mapping[str, int]
) -> Run:
    """One run from its row of ``rows.parquet``, its measures, its slices and its long stalls."""
    run: Record = measured or {}
    seconds = run.get("seconds") or 0.0
    answered = run.get("answered")
    # Requests that were never answered may have no row in the trace.
    due = round((described["rate_per_s"] or 0.0) * seconds)
    intended = max(due, run.get("intended") or 0)
    records, committed = run.get("records") or 0, run.get("committed") or 0
    busy = _share(run.get("busy_ms"), seconds)
    traced, gap_ms = run.get("traced") is not None, described.get("lag_gap_p99_ms")
    utilisation = busy * committed / records if busy is not None and records else None
    achieved = min(1.0, answered / intended) if intended and answered is not None else None
    achieved_per_s = answered / seconds if seconds and answered is not None else None
    blocked = _share(run.get("blocked_ms") or 0.0, seconds) if traced else None
    figures = tuple(figures_of(described, run))
    grows = growth(slices, seconds)
    return Run(
        run_id=described["run_id"],
        group=Group(
            described["scenario"] or "",
            described["target"] or "",
            described["latency_ms"] or 0.0,
            described["bound_records"],
            described["partitions_per_topic"],
            _setting(described),
        ),
        rate=described["rate_per_s"],
        repeat=described["repeat"] or 0,
        void=described["void"] or "",
        pair=described["pair"],
        seconds=seconds,
        achieved=achieved,
        achieved_per_s=achieved_per_s,
        p50_ms=run.get("p50_ms"),
        p99_ms=run.get("p99_ms"),
        late_p99_ms=run.get("late_p99_ms"),
        lag_p99_low_ms=described.get("lag_p99_low_ms"),
        lag_p99_high_ms=described.get("lag_p99_high_ms"),
        judged_from_ms=None if gap_ms is None else PERIODS * gap_ms,
        lag_p99_records=described.get("lag_p99_records"),
        growth=grows,
        blocked_share=blocked,
        blocked_operations=(run.get("blocked_operations") or 0) if traced else None,
        busy_share=busy,
        utilisation=utilisation,
        records_per_multi=records / run["multis"] if run.get("multis") else None,
        others_cores=described["others_cores"],
        intended=intended,
        noisy_stalls=stalls.get(described["run_id"], 0),
        figures=figures,
        limit=limits.limited(figures, limits.Run(achieved, blocked, run.get("blocked_ms"), grows)),
        counts=not described["void"] and bool(run.get("intended")),
    )


_CPU: Final = {
    "controller": "controller_cpu_s",
    "ZooKeeper": "zookeeper_cpu_s",
    "brokers": "fleet_cpu_s",
    "client": "load_cpu_s",
}
"""Processes of a row, which its machine is full of together with others."""


def figures_of(described: Record, measured: Record) -> Iterable[Figure]:
    """How full each resource was, from a row of ``rows.parquet`` and what its trace measured.

    Args:
        described: the row; CPU is that of the load and of what ZooKeeper took after it.
        measured: the columns of ``measures.per_run``; those of a controller's trace only count
            where it wrote one.
    """
    wall_s, cores = _wall_s(described), _cores(described)
    used = {
        name: described[column] / wall_s
        for name, column in _CPU.items()
        if wall_s and described.get(column) is not None
    }
    others = described.get("others_cores")
    yield _machine(described, used, cores)
    for name, words in (("late_p99_ms", "at p99"), ("late_max_ms", "at most")):
        late_ms = described.get(name)
        if late_ms is not None:
            amount = f"{late_ms:.3g} ms {words}"
            of = f"the {limits.LATE_MS:g} ms that it may be late"
            yield Figure(Key.CLIENT, late_ms / limits.LATE_MS, amount=amount, of=of)
            break
    waited = measured.get("waited_share")
    if waited is not None:
        yield Figure(Key.CONNECTIONS, waited)
    yield Figure(Key.FORWARDING, 0.0, amount="not used, the load asks the controller itself")
    if measured.get("traced") is not None:
        seconds = measured.get("seconds") or 0.0
        yield Figure(Key.EVENT_LOOP, measured.get("loop_share"))
        yield Figure(Key.LOG_SYNC, _share(measured.get("sync_ms"), seconds))
        yield Figure(Key.ZOOKEEPER, _share(measured.get("busy_ms") or 0.0, seconds))
    for name, each in used.items():
        yield Figure(Key.PROCESS, cores and each / cores, name, f"{each:.2f} cores")
    if others is not None:
        yield Figure(Key.OTHERS, others / QUIET_CORES, amount=f"{others:.2f} cores")


def _wall_s(described: Record) -> float:
    """For how long a row's CPU was counted; 0: not known."""
    begin_ns, end_ns = described.get("begin_ns"), described.get("drained_ns")
    return 0.0 if begin_ns is None or end_ns is None else max(0.0, (end_ns - begin_ns) / 1e9)


def _cores(described: Record) -> int | None:
    found = re.match(r"(\d{1,4}) cores", described.get("machine") or "")
    return int(found[1]) if found else None


def _machine(described: Record, used: Mapping[str, float], cores: int | None) -> Figure:
    """While the load ran; of rows of before, which do not have that, with what came after it."""
    if described.get("machine_busy") is not None:
        return Figure(Key.MACHINE, described["machine_busy"])
    others = described.get("others_cores")
    if not cores or others is None or used.keys() != _CPU.keys():
        return Figure(Key.MACHINE, None)
    whole = sum(used.values()) + others
    return Figure(
        Key.MACHINE, whole / cores, amount=f"{whole / cores:.0%} ({whole:.1f} of {cores} cores)"
    )


def _setting(described: Record) -> str:
    """What runs must have in common besides, to differ in nothing but their rate."""
    parts = [
        f"{described[name]:g} {words}"
        for name, words, plain in (
            ("topics_present", "topics present", 0),
            ("connections", "connections", 0),
            ("frozen_s", _STALL, 0),
            ("log_sync_ms", "ms a sync of the log", 0),
            ("servers", "ZooKeeper servers", 1),
        )
        if described.get(name) not in {None, plain}
    ]
    if come := described.get("arrivals"):
        parts.append(come)
    if described.get("kill_leader"):
        parts.append("leader killed")
    return ", ".join(parts)


def _share(part_ms: float | None, seconds: float) -> float | None:
    return part_ms / (seconds * 1000) if part_ms is not None and seconds else None


def growth(slices: Sequence[Record], seconds: float) -> float | None:
    """By how much the lag grows, as a share of the records committed meanwhile.

    The slope is the lower end of its 95 % interval, 0 if that is negative: less than this it does
    not grow. None with fewer than four slices that have a lag.
    """
    known = sorted(
        (row["slice"], row["lag_records"]) for row in slices if row["lag_records"] is not None
    )
    trend = fits.theil_sen([at for at, _ in known], [lag for _, lag in known])
    if trend is None:
        return None
    whole: int = sum(row["committed"] for row in slices)
    if not seconds or not whole:
        return None
    per_slice = whole / seconds * max(1.0, seconds / SLICES)
    return max(0.0, trend.low) / per_slice
