"""The knee of a sweep of rates: the highest rate that a system still keeps up with.

Three criteria, each judged on the median over repeats: at least 99 % of the intended operations
were achieved; the lag has no upward trend; p99 is at most twice that of the lowest rate. The knee
is the highest rate at which all hold, there and at each lower rate.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

ACHIEVED: Final = 0.99
P99_FACTOR: Final = 2.0
TREND_SHARE: Final = 0.01
"""A lag that grows by less than this share of what is committed is no trend (as for ACHIEVED)."""
R = TypeVar("R")
SAMPLES: Final = 2000
CRITERIA: Final = ("achieved", "lag", "p99")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run at one rate; None: not measured, and what was not measured does not hold.

    ``growth``: by how much the lag grows, as a share of the records committed meanwhile, at the
    lower end of its interval.
    """

    rate: float
    achieved: float | None
    growth: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rate: medians, and the criteria that fail."""

    rate: float
    repeats: int
    achieved: float | None
    growth: float | None
    p99_ms: float | None
    fails: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a sweep stops to keep up; rates per second.

    ``rate``: the highest rate kept up with; None: not even the lowest. ``next_rate``: the lowest
    rate it did not keep up with; None: the sweep ended before. ``low`` and ``high``: 95 % of the
    resampled knees; None with one repeat. ``by_criterion``: the same rate for each one alone.
    """

    rate: float | None
    next_rate: float | None
    low: float | None
    high: float | None
    repeats: int
    by_criterion: dict[str, float | None]


def verdicts(runs: Iterable[Measured]) -> list[Verdict]:
    """Judge each rate, from the lowest up."""
    judged: list[Verdict] = []
    base: float | None = None
    for rate, repeats in by_rate(runs, lambda run: run.rate).items():
        achieved = _median(run.achieved for run in repeats)
        growth = _median(run.growth for run in repeats)
        p99 = _median(run.p99_ms for run in repeats)
        base = p99 if base is None else base
        fails = [
            name
            for name, failed in (
                ("achieved", achieved is None or achieved < ACHIEVED),
                ("lag", growth is None or growth > TREND_SHARE),
                ("p99", p99 is None or base is None or p99 > P99_FACTOR * base),
            )
            if failed
        ]
        judged.append(Verdict(rate, len(repeats), achieved, growth, p99, tuple(fails)))
    return judged


def knee(runs: Sequence[Measured], seed: int = 1) -> Knee | None:
    """Find the knee; its interval by resampling the repeats of each rate. None without runs."""
    if not runs:
        return None
    judged = verdicts(runs)
    found = last_kept(judged, lambda verdict: not verdict.fails)
    rates = [verdict.rate for verdict in judged]
    after = [rate for rate in rates if found is None or rate > found]
    repeats = min(verdict.repeats for verdict in judged)
    low, high = interval(by_rate(runs, lambda run: run.rate), _kept, seed) or (None, None)
    alone = {
        name: last_kept(judged, lambda verdict, name=name: name not in verdict.fails)  # type: ignore[misc]  # a default binds the value of this turn
        for name in CRITERIA
    }
    return Knee(found, after[0] if after else None, low, high, repeats, alone)


def last_kept(judged: Sequence[Verdict], holds: Callable[[Verdict], bool]) -> float | None:
    """The highest rate up to which a condition holds at every rate."""
    kept = None
    for verdict in judged:
        if not holds(verdict):
            break
        kept = verdict.rate
    return kept


def interval(
    repeats: Mapping[float, Sequence[R]],
    kept: Callable[[Mapping[float, Sequence[R]]], float | None],
    seed: int = 1,
) -> tuple[float, float] | None:
    """95 % of the rates that resampled repeats keep up with; None if a rate has one repeat.

    Args:
        repeats: rate -> its runs.
        kept: the highest rate that such runs keep up with; None, below all rates, counts as 0.
        seed: of the resampling.
    """
    if not repeats or min(map(len, repeats.values())) < 2:
        return None
    random = np.random.default_rng(seed)
    found = []
    for _ in range(SAMPLES):
        drawn = {
            rate: [runs[at] for at in random.integers(0, len(runs), len(runs))]
            for rate, runs in repeats.items()
        }
        found.append(kept(drawn) or 0.0)
    low, high = np.quantile(found, [0.025, 0.975], method="nearest")
    return float(low), float(high)


def _kept(repeats: Mapping[float, Sequence[Measured]]) -> float | None:
    runs = (run for each in repeats.values() for run in each)
    return last_kept(verdicts(runs), lambda verdict: not verdict.fails)


def by_rate(runs: Iterable[R], rate: Callable[[R], float]) -> dict[float, list[R]]:
    """Runs by their rate, from the lowest up."""
    found: dict[float, list[R]] = defaultdict(list)
    for run in sorted(runs, key=rate):
        found[rate(run)].append(run)
    return found


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
