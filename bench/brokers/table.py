"""The tables for ``docs/benchmarks.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Row = dict[str, Any]
_OF_FLEETS: Final = {
    "ISR changes/s": "isr_per_s",
    "heartbeat p99, ms": "heartbeat_p99_ms",
    "ISR p99, ms": "isr_p99_ms",
    "changes per request": "changes_per_request",
    "controller, cores": "controller_cores",
    "fleet, cores": "fleet_cores",
    "fleet's longest stall, ms": "fleet_stall_ms",
    "others, cores": "others_cores",
}
_OF_FORWARDED: Final = {
    "p50, ms": "p50_ms",
    "p99, ms": "p99_ms",
    "answers/s": "per_s",
    "broker CPU of an answer, ms": "cpu_ms_each",
}
_OF_CLUSTER: Final = {
    "started after, s": "start_s",
    "CPU, s": "cpu_s",
    "end, s": "end_s",
    "others, cores": "others_cores",
}


def fleets(found: Sequence[Row]) -> str:
    """One line for each search: what the row of the highest rate in time measured."""
    lines = [["mode", "brokers", "controller", *_OF_FLEETS]]
    for one in found:
        best = one["best"]
        values = ["late at every rate"] + ["-"] * (len(_OF_FLEETS) - 1)
        if best is not None:
            values = [_shown(best[name]) for name in _OF_FLEETS.values()]
        lines.append([one["mode"], str(one["brokers"]), one["controller"], *values])
    return markdown(lines, 3)


def forwarded(medians: Sequence[Row]) -> str:
    """One line for each API and broker."""
    lines = [["API", "broker", *_OF_FORWARDED]]
    for one in medians:
        values = [_shown(one[name]) for name in _OF_FORWARDED.values()]
        lines.append([one["what"], one["broker"], *values])
    return markdown(lines, 2)


def cluster(medians: Sequence[Row]) -> str:
    """One line for each number of brokers, with fsync and without."""
    lines = [["start", "brokers", "fsync", *_OF_CLUSTER]]
    for one in medians:
        names = [one["which"], str(one["brokers"]), "on" if one["fsync"] else "off"]
        lines.append(names + [_shown(one[name]) for name in _OF_CLUSTER.values()])
    return markdown(lines, 3)


def markdown(lines: Sequence[Sequence[str]], names: int) -> str:
    """A table whose first ``names`` columns are text.

    >>> print(markdown([["a", "b"], ["x", "1"]], 1))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    head, *rest = lines
    rule = ["---"] * names + ["---:"] * (len(head) - names)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rest))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value < 1_000 else f"{value:,.0f}"
