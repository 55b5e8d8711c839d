"""What a fleet measured: rows for a trace, and the figures at the end."""

from __future__ import annotations

import resource
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from emulator.broker.churn import ChurnedIsr
from emulator.controller.failures import api_name
from emulator.io.clock import Clock
from emulator.io.fleet.life import BrokerLife
from emulator.io.fleet.member import FleetMember
from emulator.io.fleet.tap import ALTER_PARTITION, HEARTBEAT, Exchange
from emulator.trace.rows import FleetRow, RequestRow, Row, StallRow
from wire.errors import named

_PERCENTILES: Final = {"p50": 0.50, "p99": 0.99, "max": 1.0}


@dataclass(slots=True)
class WaitTimes:
    """Durations in nanoseconds."""

    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, ns: int) -> None:
        """One more."""
        self.values.append(ns)

    def figures(self) -> dict[str, float | int]:
        """Count, and milliseconds: median, 99th percentile, longest.

        >>> WaitTimes(array("q", [3_000_000, 1_000_000, 2_000_000])).figures()
        {'count': 3, 'p50_ms': 2.0, 'p99_ms': 3.0, 'max_ms': 3.0}
        """
        ordered = sorted(self.values)
        found: dict[str, float | int] = {"count": len(ordered)}
        for name, share in _PERCENTILES.items():
            if ordered:
                at = min(len(ordered) - 1, int(share * len(ordered)))
                found[f"{name}_ms"] = round(ordered[at] / 1e6, 3)
        return found


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
        """Whether something was refused, lost its way or ended badly."""
        return bool(self._bad_ends) or bool(self.unfinished) or bool(self.absent)

    @property
    def _bad_ends(self) -> Counter[str]:
        lives = (life for member in self._members for life in member.lives)
        return Counter(life.problem for life in lives if life.problem is not None)

    def figures(self, wall_s: float, cpu_s: float) -> dict[str, Any]:
        """All figures, for JSON.

        Args:
            wall_s: duration of the run.
            cpu_s: CPU time of this process.
        """
        sent: Counter[int] = Counter()
        warnings: Counter[str] = Counter()
        for member in self._members:
            by_key, by_text = member.totals()
            sent.update(by_key)
            warnings.update(by_text)
        waits = {name: found.figures() for name, found in sorted(self._waits.items())}
        asked = sum(life.asked for member in self._members for life in member.lives)
        done = waits.get("ISR change", {}).get("count", 0)
        requests = sent.get(ALTER_PARTITION, 0)
        return {
            "brokers": len(self._members),
            "storm_s": round(self.storm_ns / 1e9, 3),
            "topics_s": round(self.topics_ns / 1e9, 3),
            "waits": waits,
            "heartbeats_under_load": self._beats_under_load.figures(),
            "isr": {
                "asked": asked,
                "skipped": sum(life.skipped for member in self._members for life in member.lives),
                "done": done,
                "lost": self._lost,
                "unfinished": self.unfinished,
                "per_s": round(done / (self.churn_ns / 1e9), 1) if self.churn_ns else 0.0,
                "requests": requests,
                "changes_per_request": round(done / requests, 2) if requests else 0.0,
            },
            "requests": {api_name(key): number for key, number in sorted(sent.items())},
            "errors": dict(self._errors.most_common()),
            "warnings": dict(warnings.most_common(10)),
            "ended_badly": dict(self._bad_ends.most_common(10)),
            "absent": dict(self.absent.most_common(10)),
            "loop_longest_stall_ms": round(self._stall_ns / 1e6, 1),
            "cpu_cores": round(cpu_s / wall_s, 2) if wall_s else 0.0,
            "memory_kib_per_broker": round(
                (_rss_kib() - self._rss_before_kib) / max(1, len(self._members))
            ),
        }

    def _in_load(self, due_ns: int) -> bool:
        if self.load_ns is None:
            return False
        begin_ns, end_ns = self.load_ns
        return begin_ns <= due_ns and (end_ns is None or due_ns <= end_ns)

    def _wait(self, what: str, ns: int) -> None:
        self._waits.setdefault(what, WaitTimes()).add(ns)


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
    lines.append(
        f"this process: {figures['cpu_cores']} cores, "
        f"{figures['memory_kib_per_broker']} KiB of memory a broker, "
        f"longest stall of its loop {figures['loop_longest_stall_ms']} ms"
    )
    return "\n".join(lines)


def _line(name: str, wait: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{key.removesuffix('_ms')} {wait[key]} ms" for key in wait if key != "count")
    return "; ".join(filter(None, (f"{name}: {wait['count']}", shown)))


def _rss_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024
