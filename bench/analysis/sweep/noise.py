"""By how much figures of one and the same code differ on this machine: an A/A comparison."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.analysis.sweep.one_run import Group, Run

FIGURES: Final[tuple[tuple[str, Callable[[Run], float | None], float], ...]] = (
    ("commit p50", lambda run: run.p50_ms, 0.5),
    ("commit p99", lambda run: run.p99_ms, 5.0),
    ("ZooKeeper's lag, p99 at most", lambda run: run.lag_p99_high_ms, 5.0),
    ("changes done a second", lambda run: run.achieved_per_s, 0.0),
)
"""Name, value, and what is added to it: below, a difference means nothing (as `bench compare`)."""
_MOST_REPEATS: Final = 12
"""Of more than so many, the first: 924 ways to deal them."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Of one figure: 0.2 is a difference of 20 %, of the medians of two halves of the repeats.

    ``rates``: each rate's middle difference, over all ways to halve its repeats.
    ``middle``, ``most``: half of all differences are within, and 95 %.
    """

    figure: str
    rates: tuple[float, ...]
    deals: int
    middle: float
    most: float


def noise(runs: Iterable[Run], code: Mapping[str, str]) -> list[Noise]:
    """Deal the repeats of each rate into two halves, in every way, and compare these.

    Args:
        runs: those that count are taken.
        code: of each run, by its id: runs of other code are not repeats.
    """
    repeats: defaultdict[tuple[Group, float, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.counts and run.rate is not None and code.get(run.run_id):
            repeats[run.group, run.rate, code[run.run_id]].append(run)
    found = []
    for name, value, floor in FIGURES:
        by_rate = []
        for members in repeats.values():
            known = [each for run in members if (each := value(run)) is not None]
            deals = list(halves([each + floor for each in known if math.isfinite(each)]))
            if deals:
                by_rate.append(deals)
        every = sorted(each for deals in by_rate for each in deals)
        if every:
            middles = tuple(sorted(statistics.median(deals) for deals in by_rate))
            most = every[math.ceil(0.95 * len(every)) - 1]
            found.append(Noise(name, middles, len(every), statistics.median(every), most))
    return found


def halves(values: Sequence[float]) -> Iterable[float]:
    """By how much the medians of two halves differ, for each way to halve the values.

    >>> [round(each, 2) for each in halves([1.0, 2.0])], list(halves([3.0]))
    ([1.0, 1.0], [])
    >>> [round(each, 2) for each in halves([1.0, 2.0, 1.0, 2.0])]
    [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """
    some = [each for each in values if each > 0][:_MOST_REPEATS]
    places = range(len(some))
    for chosen in itertools.combinations(places, len(some) // 2):
        if not chosen:
            return
        one = statistics.median(some[at] for at in chosen)
        other = statistics.median(some[at] for at in places if at not in chosen)
        yield max(one, other) / min(one, other) - 1
