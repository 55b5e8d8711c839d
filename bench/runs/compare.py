"""Two runs of the same scenarios: what became slower, by more than chance makes of the same code.

A run has some hundred figures, and of the same code half of them differ. So one test is made of all
(Westfall and Young, 1993, single step, max T): rounds are dealt anew to the two runs, and a figure
became worse if its difference is greater than the greatest of all figures in 96 % of the deals.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.runs.row import BenchRow
from bench.runs.table import Measure, Round, Rows, by_round, grouped, measures_of, round_of

FEWEST: Final = 4
"""Rows of each run, for a verdict: 70 ways to deal them; three have 20, one of which is 5 %."""
CHANCE: Final = 0.04
"""That two runs of the same code are said to differ in any figure; in 13 of 400 they were."""
_DEALS: Final = 999
_GREATEST: Final = 20.0
"""Logarithm of the greatest factor that is shown."""
_LEAST: Final = 0.02
"""Added to what a figure scatters by: one that never differs does not differ much by chance."""


class NothingInCommonError(ValueError):
    """No case and target is in both runs."""


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of one case and target in two runs. ``worse``: 1.3 is 30 % worse, 0.9 is better.

    ``after`` None: no row of the newer run that is not void has it. ``regressed`` None: it cannot
    be said, as a run has fewer than ``FEWEST`` rows. ``noise``: from this factor on a difference is
    more than chance makes of the same code, 1.3: of 30 %; None: not known. ``improved``: better by
    more than that.
    """

    case: str
    target: str
    measure: Measure
    before: float
    after: float | None
    worse: float
    regressed: bool | None
    noise: float | None = None
    improved: bool = False

    def line(self) -> str:
        """In one line."""
        mark = {True: "WORSE", False: "ok", None: "?"}[self.regressed]
        after = "nothing" if self.after is None else f"{self.after:,.4g}"
        return (
            f"{mark:5} {self.case} {self.target}: {self.measure.title} "
            f"{self.before:,.4g} -> {after}"
        )


@dataclass(frozen=True, slots=True)
class _Pair:
    """One figure in both runs, by round; ``floor``: that of the measure was passed."""

    case: str
    target: str
    measure: Measure
    values: tuple[Mapping[Round, float], Mapping[Round, float]]
    passed: bool

    @property
    def sizes(self) -> tuple[float, float]:
        """The two medians."""
        one, other = (statistics.median(each.values()) for each in self.values)
        return one, other

    @property
    def told(self) -> bool:
        """Whether it has rows enough."""
        return min(map(len, self.values)) >= FEWEST


def changes(
    before: Sequence[BenchRow],
    after: Sequence[BenchRow],
    *,
    tolerance: float,
    relative: str | None = None,
) -> list[Change]:
    """Compare the medians of every case, target and measure that both runs have.

    A measure regressed if its median is worse by more than ``tolerance``, by more than the
    measure's floor, and by more than chance; or if it was measured before, and rows were taken
    after, but every one is void or did not get there.

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
    found, pairs = [], []
    for key in one.keys() & same:
        case, target = key
        if target == relative:
            continue
        for measure in measures_of(one[key][0].kind):
            raw = [measure.values(rows.get(key, [])) for rows in (one, other)]
            if raw[0] and not raw[1] and (key not in other or _never(measure, other[key])):
                was = statistics.median(raw[0])
                found.append(Change(case, target, measure, was, None, math.inf, regressed=True))
            if all(raw):
                sizes = [statistics.median(each) for each in raw]
                passed = abs(sizes[1] - sizes[0]) > measure.floor
                older, newer = (_by_round(rows, key, measure, relative) for rows in (one, other))
                if older and newer:
                    pairs.append(_Pair(case, target, measure, (older, newer), passed))
    judged = _beyond_chance([pair for pair in pairs if pair.told])
    for pair in pairs:
        worse = _worse(pair.measure, *pair.sizes)
        change = Change(pair.case, pair.target, pair.measure, *pair.sizes, worse, None)
        if pair.told:
            told = judged[id(pair)]
            change = replace(
                change,
                regressed=pair.passed and worse > 1 + tolerance and told.worse,
                improved=pair.passed and worse < 1 and told.better,
                noise=told.noise,
            )
        found.append(change)
    if not found:
        raise NothingInCommonError("no case and target that is not void is in both runs")
    return sorted(found, key=lambda change: (change.case, change.target))


def _never(measure: Measure, rows: Sequence[BenchRow]) -> bool:
    """Whether rows lack a figure because they did not get there: any other reason is none."""
    return any(measure.or_never(row) is not None for row in rows)


def _by_round(
    rows: Rows, key: tuple[str, str], measure: Measure, relative: str | None
) -> dict[Round, float]:
    if relative is not None:
        return by_round(rows[key], rows.get((key[0], relative), []), measure)
    found = ((round_of(row), measure.or_never(row)) for row in rows[key])
    return {at: value for at, value in found if value is not None}


@dataclass(frozen=True, slots=True)
class _Judged:
    """Of a figure: whether it differs more than chance makes any differ; the factor of that."""

    worse: bool
    better: bool
    noise: float


def _beyond_chance(pairs: Sequence[_Pair]) -> dict[int, _Judged]:
    """Each pair, by its ``id``, beside the greatest difference of any of them in the deals."""
    if not pairs:
        return {}
    rounds = {(side, at) for pair in pairs for side in (0, 1) for at in pair.values[side]}
    order = {each: number for number, each in enumerate(sorted(rounds))}
    # Row 0 is how it was: the older run's rounds come first.
    keys = np.random.default_rng(1).random((_DEALS + 1, len(order)))
    keys[0] = np.arange(len(order))
    deals: dict[tuple[tuple[int, ...], int], npt.NDArray[np.bool_]] = {}
    dealt = [_differences(pair, order, keys, deals) for pair in pairs]
    each = np.array([differences for differences, _ in dealt])
    greatest, least = each.max(axis=0), each.min(axis=0)
    # In so many of the deals, this one among them, a figure may differ as much.
    most = float(np.sort(greatest)[-1 - int(CHANCE * len(greatest))])
    return {
        id(pair): _Judged(
            worse=bool((greatest >= found[0] - 1e-9).mean() <= CHANCE),
            better=bool((least <= found[0] + 1e-9).mean() <= CHANCE),
            noise=math.exp(min(most * unit, _GREATEST)),
        )
        for pair, found, (_, unit) in zip(pairs, each, dealt, strict=True)
    }


def _differences(
    pair: _Pair,
    order: Mapping[tuple[int, Round], int],
    keys: npt.NDArray[np.float64],
    deals: dict[tuple[tuple[int, ...], int], npt.NDArray[np.bool_]],
) -> tuple[npt.NDArray[np.float64], float]:
    """By how much the newer run is worse in each deal, in units of what the figure scatters by.

    And that unit, of the deal as it was: a logarithm.

    ``deals``: which rounds are dealt to the older run, made once for all figures of these rounds.
    """
    was, now = pair.values
    at = (*(order[0, each] for each in was), *(order[1, each] for each in now))
    sizes = _logarithms(pair.measure, [*was.values(), *now.values()])
    if (at, len(was)) not in deals:
        deals[at, len(was)] = keys[:, at].argsort(axis=1).argsort(axis=1) < len(was)
    older = deals[at, len(was)]
    first = (older * sizes).sum(axis=1) / len(was)
    second = (~older * sizes).sum(axis=1) / len(now)
    off = np.where(older, sizes - first[:, None], sizes - second[:, None])
    scatter = np.sqrt((off**2).sum(axis=1) / (len(at) - 2) * (1 / len(was) + 1 / len(now)))
    return (second - first) / (scatter + _LEAST), float(scatter[0]) + _LEAST


def _logarithms(measure: Measure, values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Greater is worse. What never came is ten times as far as the farthest that came."""
    sizes = np.asarray(values, float) + measure.floor
    known = sizes[(sizes > 0) & np.isfinite(sizes)]
    low, high = (known.min() / 10, known.max() * 10) if len(known) else (1.0, 1.0)
    logarithms = np.log(np.clip(sizes, low, high))
    return -logarithms if measure.more else logarithms


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
        way = (row.latency_ms, row.bound_records, row.connections, row.servers, row.brokers)
        come = (row.arrivals, row.log_sync_ms)
        faults = (row.fault_at_s, row.frozen_s, row.kill_leader)
        key = f"{row.scenario}.{row.case}", row.target
        found[key] = (*load, *way, *come, *faults, row.warm_up)
    return found


def _worse(measure: Measure, before: float, after: float) -> float:
    low, high = (after, before) if measure.more else (before, after)
    if high == low:
        return 1.0
    return high / low if low > 0 else math.inf
