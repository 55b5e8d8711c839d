"""Two runs of the same scenarios: what became slower."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.runs.row import BenchRow
from bench.runs.table import Measure, by_round, grouped, measures_of


class NothingInCommonError(ValueError):
    """No case and target is in both runs."""


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of one case and target in two runs. ``worse``: 1.3 is 30 % worse, 0.9 is better.

    ``after`` None: no row of the newer run that is not void has it.
    """

    case: str
    target: str
    measure: Measure
    before: float
    after: float | None
    worse: float
    regressed: bool

    def line(self) -> str:
        """In one line."""
        mark = "WORSE" if self.regressed else "ok"
        after = "nothing" if self.after is None else f"{self.after:,.4g}"
        return (
            f"{mark:5} {self.case} {self.target}: {self.measure.title} "
            f"{self.before:,.4g} -> {after}"
        )


def changes(
    before: Sequence[BenchRow],
    after: Sequence[BenchRow],
    *,
    tolerance: float,
    relative: str | None = None,
) -> list[Change]:
    """Compare the medians of every case, target and measure that both runs have.

    A measure regressed if its median is worse by more than ``tolerance`` and by more than the
    measure's floor and, where both runs have two rows or more, the best row after is worse than
    the worst row before; or if it was measured before, and rows were taken after, but every one is
    void or did not get there.

    Args:
        before: rows of the older run.
        after: rows of the newer one.
        tolerance: 0.2 allows 20 % more time, or a rate of 1 / 1.2.
        relative: a target; the others' values are divided by its values in the same round, so that
            runs on machines of different speed can be compared.

    Raises:
        NothingInCommonError: the runs have no case and target in common.
    """
    one, other = grouped(before), grouped(after)
    asked = _asked(after)
    same = {key for key, load in _asked(before).items() if asked.get(key) == load}
    found = []
    for key in one.keys() & same:
        case, target = key
        if target == relative:
            continue
        for measure in measures_of(one[key][0].kind):
            raw = [measure.values(rows.get(key, [])) for rows in (one, other)]
            # A figure that a row may lack for another reason is no regression if it is missing.
            if raw[0] and not raw[1] and (key not in other or measure.never is not None):
                was = statistics.median(raw[0])
                found.append(Change(case, target, measure, was, None, math.inf, regressed=True))
            if not all(raw):
                continue
            sizes = [statistics.median(each) for each in raw]
            beyond_floor = abs(sizes[1] - sizes[0]) > measure.floor
            if relative is not None:
                raw = [
                    by_round(rows[key], rows.get((case, relative), []), measure)
                    for rows in (one, other)
                ]
                if not all(raw):
                    continue
                sizes = [statistics.median(each) for each in raw]
            worse = _worse(measure, *sizes)
            regressed = beyond_floor and worse > 1 + tolerance and _beyond_chance(measure, *raw)
            found.append(Change(case, target, measure, sizes[0], sizes[1], worse, regressed))
    if not found:
        raise NothingInCommonError("no case and target that is not void is in both runs")
    return sorted(found, key=lambda change: (change.case, change.target))


def not_compared(before: Sequence[BenchRow], after: Sequence[BenchRow]) -> list[str]:
    """What ``changes`` leaves out, in sentences: cases of one run only, or changed since."""
    one, other = _asked(before), _asked(after)
    sentences = []
    for key in sorted(one.keys() | other.keys()):
        name = " ".join(key)
        if key not in other:
            sentences.append(f"{name}: not in the newer run")
        elif key not in one:
            sentences.append(f"{name}: not in the older run")
        elif one[key] != other[key]:
            sentences.append(f"{name}: not the same load in both runs")
        elif key not in grouped(before):
            sentences.append(f"{name}: void in the older run")
    return sentences


def _asked(rows: Sequence[BenchRow]) -> dict[tuple[str, str], tuple[object, ...]]:
    """By case and target, what was asked for: rows of other loads are no measure of these."""
    found: dict[tuple[str, str], tuple[object, ...]] = {}
    for row in rows:
        load = (row.kind, row.rate_per_s, row.count, row.partitions_per_topic, row.topics_present)
        way = (row.latency_ms, row.bound_records, row.connections, row.servers)
        faults = (row.fault_at_s, row.frozen_s, row.kill_leader)
        key = f"{row.scenario}.{row.case}", row.target
        found[key] = (*load, *way, *faults, row.warm_up)
    return found


def _worse(measure: Measure, before: float, after: float) -> float:
    low, high = (after, before) if measure.more else (before, after)
    if high == low:
        return 1.0
    return high / low if low > 0 else math.inf


def _beyond_chance(measure: Measure, was: Sequence[float], now: Sequence[float]) -> bool:
    """Whether the best row after is worse than the worst before; single rows cannot show this."""
    if min(len(was), len(now)) < 2:
        return True
    return max(now) < min(was) if measure.more else min(now) > max(was)
