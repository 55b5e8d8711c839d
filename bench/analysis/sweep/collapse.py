"""Whether blocking depends on ZooKeeper's utilisation alone: whether the curves collapse."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BIN: Final = 0.1
"""Utilisations are put together by tenths."""
APART: Final = 0.1
"""Curves that differ by more than this share of the time have not collapsed."""

Point = tuple[float, float]
"""Utilisation and blocked share of a run."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """Blocked share of the runs in one bin of utilisation.

    ``apart``: by how much the medians of its sweeps differ; None with one sweep.
    """

    utilisation: float
    runs: int
    sweeps: int
    least: float
    most: float
    apart: float | None


@dataclass(frozen=True, slots=True)
class Collapsing:
    """All bins, and the results over all of them.

    ``apart``: the greatest of the bins, at ``utilisation``; None: no bin has two sweeps.
    ``explained``: share of the variance of the blocked share, over the runs of bins with two
    sweeps, that the bins account for; None where nothing was blocked.
    """

    bins: list[Collapse]
    apart: float | None
    utilisation: float | None
    explained: float | None

    @property
    def collapses(self) -> bool | None:
        """Whether the curves fall on one, within ``APART``; None: there is nothing to compare."""
        return None if self.apart is None else self.apart <= APART


def collapsing(sweeps: Mapping[str, Sequence[Point]]) -> Collapsing:
    """Put the runs of several sweeps into bins and compare the sweeps there.

    >>> one, other = [(0.5, 0.0), (0.95, 0.4)], [(0.52, 0.0), (0.93, 0.6)]
    >>> found = collapsing({"one": one, "other": other})
    >>> found.collapses, round(found.apart, 2), round(found.utilisation, 2)
    (False, 0.2, 0.9)
    """
    at: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, points in sweeps.items():
        for utilisation, blocked in points:
            # Rounded: 0.3 / 0.1 is less than 3.
            at[int(round(utilisation / BIN, 9))][name].append(blocked)
    bins = [_bin(number * BIN, of) for number, of in sorted(at.items())]
    shared = [one for one in bins if one.apart is not None]
    worst = max(shared, key=lambda one: one.apart or 0.0, default=None)
    compared = [
        [value for values in of.values() for value in values] for of in at.values() if len(of) > 1
    ]
    return Collapsing(
        bins,
        None if worst is None else worst.apart,
        None if worst is None else worst.utilisation,
        _explained(compared),
    )


def _bin(utilisation: float, of: Mapping[str, Sequence[float]]) -> Collapse:
    every = [value for values in of.values() for value in values]
    medians = [statistics.median(values) for values in of.values()]
    apart = max(medians) - min(medians) if len(medians) > 1 else None
    return Collapse(utilisation, len(every), len(of), min(every), max(every), apart)


def _explained(groups: Sequence[Sequence[float]]) -> float | None:
    every = [value for group in groups for value in group]
    if not every:
        return None
    mean = statistics.fmean(every)
    whole = sum((value - mean) ** 2 for value in every)
    inside = sum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    return 1 - inside / whole if whole > 0 else None
