"""The knee of a sweep of rates: the highest rate that a system still keeps up with.

Three criteria, each of the median over repeats: at least 99 % of the intended operations were
achieved; the lag has no upward trend; p99 is at most twice that of the lowest rate. Each is judged
on the interval of the median: it holds, it fails, or it cannot be said.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from bench.load.figures import interval

ACHIEVED: Final = 0.99
P99_FACTOR: Final = 2.0
TREND_SHARE: Final = 0.01
"""A lag that grows by less than this share of what is committed is no trend (as for ACHIEVED)."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run at one rate; None: not measured, and of that nothing can be said.

    ``growth``: by how much the lag grows, as a share of the records committed meanwhile, at the
    lower end of its interval.
    """

    rate: float
    achieved: float | None
    growth: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rate: medians, the criteria that fail, and those of which nothing can be said."""

    rate: float
    repeats: int
    achieved: float | None
    growth: float | None
    p99_ms: float | None
    fails: tuple[str, ...]
    unsure: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a sweep stops to keep up, between two rates per second that were measured.

    ``low``: up to it everything holds; None: not even at the lowest rate. ``high``: the highest
    rate before one at which something fails; None: something fails at the lowest.
    ``next_rate``: the rate after ``high``, which fails; None: the sweep ended before.
    """

    low: float | None
    high: float | None
    next_rate: float | None
    repeats: int


def at_most(values: Iterable[float | None], limit: float) -> bool | None:
    """Whether the true median of values is at most a limit; None: it cannot be said.

    >>> at_most([1.0, 2.0, 3.0, 1.0, 2.0], 3.0), at_most([4.0] * 5, 3.0), at_most([4.0], 3.0)
    (True, False, None)
    """
    return between([(value, value) for value in values], limit)


def between(values: Iterable[tuple[float | None, float | None]], limit: float) -> bool | None:
    """The same of values each of which lies between two others."""
    found = [*values]
    lows = interval([low for low, _ in found if low is not None])
    if lows is not None and lows[0] > limit and all(low is not None for low, _ in found):
        return False
    highs = interval([high for _, high in found if high is not None])
    known = highs is not None and all(high is not None for _, high in found)
    return True if known and highs is not None and highs[1] <= limit else None


def verdicts(runs: Iterable[Measured]) -> list[Verdict]:
    """Judge each rate, from the lowest up."""
    judged: list[Verdict] = []
    base: Sequence[float | None] = ()
    for rate, repeats in by_rate(runs, lambda run: run.rate).items():
        p99s = [run.p99_ms for run in repeats]
        base = base or p99s
        holds = {
            "achieved": at_most((_minus(run.achieved) for run in repeats), -ACHIEVED),
            "lag": at_most((run.growth for run in repeats), TREND_SHARE),
            "p99": _no_slower(p99s, base),
        }
        judged.append(
            Verdict(
                rate,
                len(repeats),
                _median(run.achieved for run in repeats),
                _median(run.growth for run in repeats),
                _median(p99s),
                tuple(name for name, held in holds.items() if held is False),
                tuple(name for name, held in holds.items() if held is None),
            )
        )
    return judged


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _no_slower(p99s: Sequence[float | None], base: Sequence[float | None]) -> bool | None:
    """Whether the median is at most ``P99_FACTOR`` times that of the lowest rate."""
    if p99s is base:
        return None if None in base else at_most([0.0] * len(base), 0.0)
    of_base = interval([value for value in base if value is not None])
    if of_base is None or None in base:
        return None
    limits = [P99_FACTOR * each for each in of_base]
    held = at_most(p99s, limits[0])
    return held or (False if at_most(p99s, limits[1]) is False else None)


def knee(runs: Sequence[Measured]) -> Knee | None:
    """Find the knee. None without runs."""
    judged = {each.rate: each for each in verdicts(runs)}
    return bracket(
        {
            rate: False if each.fails else None if each.unsure else True
            for rate, each in judged.items()
        },
        min((each.repeats for each in judged.values()), default=0),
    )


def bracket(held: Mapping[float, bool | None], repeats: int) -> Knee | None:
    """Between which rates something stops to hold.

    Args:
        held: rate, from the lowest up -> whether it holds there; None: it cannot be said.
        repeats: of the rate that has the fewest.

    Returns:
        None without rates.
    """
    if not held:
        return None
    rates = [*held]
    surely = next((at for at, rate in enumerate(rates) if held[rate] is not True), len(rates))
    maybe = next((at for at, rate in enumerate(rates) if held[rate] is False), len(rates))
    low = rates[surely - 1] if surely else None
    high = rates[maybe - 1] if maybe else None
    return Knee(low, high, rates[maybe] if maybe < len(rates) else None, repeats)


def by_rate(runs: Iterable[R], rate: Callable[[R], float]) -> dict[float, list[R]]:
    """Runs by their rate, from the lowest up."""
    found: dict[float, list[R]] = defaultdict(list)
    for run in sorted(runs, key=rate):
        found[rate(run)].append(run)
    return found


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
