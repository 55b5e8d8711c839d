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
    """A measure of one case and target in two runs. ``worse``: 1.3 is 30 % worse, 0.9 is better."""

    case: str
    target: str
    measure: Measure
    before: float
    after: float
    worse: float
    regressed: bool

    def line(self) -> str:
        """In one line."""
        mark = "WORSE" if self.regressed else "ok"
        return (
            f"{mark:5} {self.case} {self.target}: {self.measure.title} "
            f"{self.before:,.4g} -> {self.after:,.4g}"
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
    the worst row before.

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
    found = []
    for key in one.keys() & other.keys():
        case, target = key
        if target == relative:
            continue
        for measure in measures_of(one[key][0].kind):
            raw = [_values(rows[key], measure) for rows in (one, other)]
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


def _worse(measure: Measure, before: float, after: float) -> float:
    low, high = (after, before) if measure.more else (before, after)
    if high == low:
        return 1.0
    return high / low if low > 0 else math.inf


def _beyond_chance(measure: Measure, was: Sequence[float], now: Sequence[float]) -> bool:
    """Whether the best after is worse than the worst before; of single rows nobody knows."""
    if min(len(was), len(now)) < 2:
        return True
    return max(now) < min(was) if measure.more else min(now) > max(was)


def _values(rows: Sequence[BenchRow], measure: Measure) -> list[float]:
    return [value for row in rows if (value := measure.of(row)) is not None]
