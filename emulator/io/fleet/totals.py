"""The totals of a fleet, of one process or of several, and the figures that are made of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from emulator.io.fleet.tap import ALTER_PARTITION
from wire.schema import api_name

_PERCENTILES: Final = {"p50": 0.50, "p99": 0.99, "max": 1.0}
_SHOWN: Final = 10


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
