"""The part of a sweep's report about the time that ZooKeeper blocked KRaft."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.analysis.sweep.conclusions import (
    OURS,
    Conclusions,
    SweepOfRates,
    blocked_by_utilisation,
)
from bench.analysis.sweep.one_run import Run
from bench.report import charts
from bench.report.blocks import Block, HeatMap, Note, table
from emulator.config.words import several


def medians(runs: Sequence[Run], value: Callable[[Run], float | None]) -> list[tuple[float, float]]:
    """Rates and the median of a value at each, where it is known."""
    at: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        found = value(run)
        if run.rate is not None and found is not None and found < math.inf:
            at[run.rate].append(found)
    return [(rate, statistics.median(values)) for rate, values in sorted(at.items())]


def _bound_name(records: int | None) -> str:
    if records is None:
        return "default bounds"
    return f"bound {records:,} records" if records else "no bound"


def _named(sweeps: Sequence[SweepOfRates]) -> Iterable[tuple[str, SweepOfRates]]:
    """Each with its latency and what of its setting not all of them have, such as a stall."""
    settings = [set(sweep.group.setting.split(", ")) for sweep in sweeps]
    alike = set.intersection(*settings)
    for sweep in sorted(sweeps, key=_by_size):
        own = [part for part in sweep.group.setting.split(", ") if part not in alike]
        yield ", ".join([f"{sweep.group.latency_ms:g} ms", *filter(None, own)]), sweep


def _by_size(sweep: SweepOfRates) -> tuple[float, int, str]:
    """2 s before 10 s."""
    return sweep.group.latency_ms, len(sweep.group.setting), sweep.group.setting


def blocking(found: Conclusions) -> Iterable[Block]:
    """Maps of the share of the time by rate and latency, and the same by utilisation."""
    ours = [sweep for sweep in found.sweeps if sweep.group.target == OURS]
    grouped: dict[tuple[str, str], list[SweepOfRates]] = defaultdict(list)
    for sweep in ours:
        of = sweep.group
        batch = f"{several(of.partitions_per_topic or 1, 'partition')} a topic"
        grouped[of.scenario, f"{_bound_name(of.bound_records)}, {batch}"].append(sweep)
    single: list[dict[str, object]] = []
    for (scenario, what), sweeps in sorted(grouped.items()):
        rates = sorted({run.rate for sweep in sweeps for run in sweep.runs if run.rate is not None})
        rows = []
        for name, sweep in _named(sweeps):
            told = [run for run in sweep.runs if run.of_zookeeper]
            share = dict(medians(told, lambda run: run.blocked_share))
            rows.append((name, [share.get(rate) for rate in rates]))
        if len(rates) == 1 and len(rows) == 1:
            [(latency, [share_of_one])] = rows
            one = {
                "scenario": scenario,
                "what": what,
                "latency": latency,
                "changes_per_s": rates[0],
            }
            single.append(one | {"blocked_share": share_of_one})
            continue
        yield HeatMap(
            f"Share of the time in which a change waited for ZooKeeper: {scenario}, {what}",
            "ZooKeeper latency, changes/s",
            [f"{rate:,.0f}" for rate in rates],
            rows,
        )
    if not all(run.of_zookeeper for sweep in ours for run in sweep.runs):
        yield Note("A dash: not measured, or by runs that do not show how much ZooKeeper can take.")
    if single:
        yield Note("The same of scenarios with a single rate and latency:")
        yield from table(single)
    points = blocked_by_utilisation(found.runs)
    if points:
        title = "Blocked share by utilisation of ZooKeeper"
        yield charts.points(title, "utilisation", "share of the time", points)
        yield Note(
            "Utilisation: the time ZooKeeper would need for what was committed, as a share of the "
            "window, at the time a record took in that run."
        )


def fields(each: Any) -> Mapping[str, Any]:
    """A dataclass as a row of a table."""
    return {name: getattr(each, name) for name in each.__dataclass_fields__}
