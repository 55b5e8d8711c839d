"""What one process of a fleet measures: rows for a trace, and its totals at the end."""

from __future__ import annotations

import resource
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from emulator.broker.churn import ChurnedIsr
from emulator.io.clock import Clock
from emulator.io.fleet.life import BrokerLife
from emulator.io.fleet.member import FleetMember
from emulator.io.fleet.tap import ALTER_PARTITION, HEARTBEAT, Exchange
from emulator.trace.distribution import percentile
from emulator.trace.rows import FleetRow, RequestRow, Row, StallRow
from wire.errors import named
from wire.schema import api_name

# The totals of a fleet, of one process or of several, and the figures that are made of them.

_SHOWN: Final = 10


@dataclass(slots=True)
class WaitTimes:
    """Durations in nanoseconds."""

    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, ns: int) -> None:
        """One more."""
        self.values.append(ns)

    def figures(self) -> dict[str, float | int]:
        """Count, and milliseconds: median, 99th percentile, longest; what there is, by ``enough``.

        >>> WaitTimes(array("q", [3_000_000, 1_000_000, 2_000_000])).figures()
        {'count': 3, 'max_ms': 3.0}
        """
        found: dict[str, float | int] = {"count": len(self.values)}
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
            if (ns := percentile(self.values, share)) is not None:
                found[name] = round(ns / 1e6, 3)
        return found | ({"max_ms": round(max(self.values) / 1e6, 3)} if self.values else {})


@dataclass(slots=True)
class FleetTotals:
    """What processes of a fleet saw; ``*_ns``: of the slowest one, others are sums."""

    processes: int = 1
    brokers: int = 0
    waits: dict[str, WaitTimes] = field(default_factory=dict)
    beats_under_load: WaitTimes = field(default_factory=WaitTimes)
    """Heartbeats that were due during changes and waves."""
    asked: int = 0
    """Changes of ISRs that were due, and could begin."""
    skipped: int = 0
    lost: int = 0
    unfinished: int = 0
    sent: Counter[int] = field(default_factory=Counter)
    """API key -> requests."""
    errors: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    ended_badly: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)
    """Why brokers did not run at the end that should -> how many."""
    storm_ns: int = 0
    topics_ns: int = 0
    churn_ns: int = 0
    stall_ns: int = 0
    cpu_cores: float = 0.0
    memory_kib: int = 0

    @property
    def failed(self) -> bool:
        """Whether something was refused, lost its way or ended badly."""
        return bool(self.ended_badly) or bool(self.unfinished) or bool(self.absent)

    def add(self, other: FleetTotals) -> None:
        """Put what other processes saw to it."""
        for what, waits in other.waits.items():
            self.waits.setdefault(what, WaitTimes()).values.extend(waits.values)
        self.beats_under_load.values.extend(other.beats_under_load.values)
        # 0: not all brokers of that process came up.
        both = self.storm_ns and other.storm_ns
        self.storm_ns = max(self.storm_ns, other.storm_ns) if both else 0
        for name in ("topics_ns", "churn_ns", "stall_ns"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in (
            *("processes", "brokers", "asked", "skipped", "lost", "unfinished", "sent", "errors"),
            *("warnings", "ended_badly", "absent", "cpu_cores", "memory_kib"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        waits = {name: found.figures() for name, found in sorted(self.waits.items())}
        done = waits.get("ISR change", {}).get("count", 0)
        requests = self.sent.get(ALTER_PARTITION, 0)
        return {
            "processes": self.processes,
            "brokers": self.brokers,
            "storm_s": round(self.storm_ns / 1e9, 3),
            "topics_s": round(self.topics_ns / 1e9, 3),
            "waits": waits,
            "heartbeats_under_load": self.beats_under_load.figures(),
            "isr": {
                "asked": self.asked,
                "skipped": self.skipped,
                "done": done,
                "lost": self.lost,
                "unfinished": self.unfinished,
                "per_s": round(done / (self.churn_ns / 1e9), 1) if self.churn_ns else 0.0,
                "requests": requests,
                "changes_per_request": round(done / requests, 2) if requests else 0.0,
            },
            "requests": {api_name(key): number for key, number in sorted(self.sent.items())},
            "errors": dict(self.errors.most_common()),
            "warnings": dict(self.warnings.most_common(_SHOWN)),
            "ended_badly": dict(self.ended_badly.most_common(_SHOWN)),
            "absent": dict(self.absent.most_common(_SHOWN)),
            "loop_longest_stall_ms": round(self.stall_ns / 1e6, 1),
            "cpu_cores": round(self.cpu_cores, 2),
            "memory_kib_per_broker": round(self.memory_kib / max(1, self.brokers)),
        }


def text(figures: Mapping[str, Any], mode: str) -> str:
    """The figures as lines for people."""
    waits, isr = figures["waits"], figures["isr"]
    ran = f"all ran after {figures['storm_s']} s" if figures["storm_s"] else "not all ran"
    lines = [
        f"{figures['brokers']} brokers, {mode}: {ran}",
        *(_line(name, waits[name]) for name in waits),
        _line("heartbeats due during changes and waves", figures["heartbeats_under_load"]),
    ]
    if isr["asked"]:
        lines.append(
            f"{isr['asked']} ISR changes asked for ({isr['skipped']} skipped), {isr['done']} done "
            f"({isr['per_s']}/s), {isr['lost']} lost, {isr['unfinished']} unfinished; "
            f"{isr['changes_per_request']} changes in each of {isr['requests']} requests"
        )
    lines.append("requests: " + ", ".join(f"{api} {n}" for api, n in figures["requests"].items()))
    lines += [f"error answered: {what}, {n} times" for what, n in figures["errors"].items()]
    lines += [f"warning: {what}, {n} times" for what, n in figures["warnings"].items()]
    lines += [f"ended badly: {what}, {n} times" for what, n in figures["ended_badly"].items()]
    lines += [f"not running at the end: {n} brokers, {why}" for why, n in figures["absent"].items()]
    alone = figures["processes"] == 1
    whose, loop = ("this process", "its") if alone else (f"{figures['processes']} processes", "a")
    lines.append(
        f"{whose}: {figures['cpu_cores']} cores, "
        f"{figures['memory_kib_per_broker']} KiB of memory a broker, "
        f"longest stall of {loop} loop {figures['loop_longest_stall_ms']} ms"
    )
    return "\n".join(lines)


def _line(name: str, wait: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{key.removesuffix('_ms')} {wait[key]} ms" for key in wait if key != "count")
    return "; ".join(filter(None, (f"{name}: {wait['count']}", shown)))


class FleetResults:
    """See the module's docstring.

    Args:
        row: takes each row.
        flush: called now and then.
    """

    def __init__(self, row: Callable[[Row], None], flush: Callable[[], None]) -> None:
        self.flush = flush
        self.storm_ns = 0
        self.topics_ns = 0
        self.churn_ns = 0
        self.unfinished = 0
        self.absent: Counter[str] = Counter()
        """Why brokers did not run at the end that should -> how many."""
        self.load_ns: tuple[int, int | None] | None = None
        """When changes and waves began and ended; None: not yet."""
        self._beats_under_load = WaitTimes()
        self._row = row
        self._waits: dict[str, WaitTimes] = {}
        self._errors: Counter[str] = Counter()
        self._lost = 0
        self._numbers = 0
        self._members: Sequence[FleetMember] = ()
        self._stall_ns = 0
        self._rss_before_kib = _rss_kib()

    def note_exchange(self, broker_id: int, seen: Exchange) -> None:
        """A request was answered."""
        self._numbers += 1
        api = api_name(seen.api_key)
        self._wait(api, seen.answered_ns - seen.intended_ns)
        if seen.api_key == HEARTBEAT and self._in_load(seen.intended_ns):
            self._beats_under_load.add(seen.answered_ns - seen.intended_ns)
        if seen.error_code:
            self._errors[f"{api}: {named(seen.error_code)}"] += 1
        self._row(
            RequestRow(
                request_id=self._numbers,
                api=api,
                api_version=seen.version,
                client_id=str(broker_id),
                correlation_id=seen.correlation_id,
                answered_ns=seen.answered_ns,
                error_code=seen.error_code,
                intended_ns=seen.intended_ns,
                sent_ns=seen.sent_ns,
            )
        )

    def note_isr(self, broker_id: int, change: ChurnedIsr, clock: Clock) -> None:
        """An ISR is as it was asked for, or the partition has another leader."""
        event = "isr_shrink" if change.drops else "isr_expand"
        due_ns = clock.monotonic_anchor_ns + int((change.due_ms - clock.wall_anchor_ms) * 1e6)
        now_ns = clock.now_ns()
        if change.lost:
            self._lost += 1
        else:
            self._wait("ISR change", now_ns - due_ns)
        done_ns = None if change.lost else now_ns
        self._row(FleetRow(event, broker_id, due_ns, done_ns, *change.key))

    def note_end(self, broker_id: int, life: BrokerLife, due_ns: int) -> None:
        """A life was asked to end."""
        self._row(FleetRow("shutdown", broker_id, due_ns, life.ended_ns))
        if life.problem is None and not life.killed and life.ended_ns is not None:
            self._wait("shutdown", life.ended_ns - due_ns)

    def note_members(self, members: Sequence[FleetMember]) -> None:
        """All brokers, before those that live are stopped."""
        self._members = members
        for member in members:
            for life in member.lives:
                if life.running_ns is not None:
                    self._wait("registration", life.running_ns - life.due_ns)
                row = FleetRow("registration", member.broker_id, life.due_ns, life.running_ns)
                self._row(row)

    def note_stall(self, stall: StallRow) -> None:
        """The fleet's own loop was late."""
        self._stall_ns = max(self._stall_ns, stall.end_ns - stall.begin_ns)
        self._row(stall)

    @property
    def failed(self) -> bool:
        """See FleetTotals."""
        return self.totals(0.0, 0.0).failed

    @property
    def _bad_ends(self) -> Counter[str]:
        lives = (life for member in self._members for life in member.lives)
        return Counter(life.problem for life in lives if life.problem is not None)

    def figures(self, wall_s: float, cpu_s: float) -> dict[str, Any]:
        """All figures of this process alone, for JSON. Args: as for ``totals``."""
        return self.totals(wall_s, cpu_s).figures()

    def totals(self, wall_s: float, cpu_s: float) -> FleetTotals:
        """What this process saw, to be added to what others did.

        Args:
            wall_s: duration of the run.
            cpu_s: CPU time of this process.
        """
        found = FleetTotals(
            brokers=len(self._members),
            waits=self._waits,
            beats_under_load=self._beats_under_load,
            lost=self._lost,
            unfinished=self.unfinished,
            errors=self._errors,
            ended_badly=self._bad_ends,
            absent=self.absent,
            storm_ns=self.storm_ns,
            topics_ns=self.topics_ns,
            churn_ns=self.churn_ns,
            stall_ns=self._stall_ns,
            cpu_cores=cpu_s / wall_s if wall_s else 0.0,
            memory_kib=_rss_kib() - self._rss_before_kib,
        )
        for member in self._members:
            by_key, by_text = member.totals()
            found.sent.update(by_key)
            found.warnings.update(by_text)
            found.asked += sum(life.asked for life in member.lives)
            found.skipped += sum(life.skipped for life in member.lives)
        return found

    def _in_load(self, due_ns: int) -> bool:
        if self.load_ns is None:
            return False
        begin_ns, end_ns = self.load_ns
        return begin_ns <= due_ns and (end_ns is None or due_ns <= end_ns)

    def _wait(self, what: str, ns: int) -> None:
        self._waits.setdefault(what, WaitTimes()).add(ns)


def _rss_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024
