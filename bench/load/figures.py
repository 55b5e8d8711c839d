"""What may be said of values: percentiles that enough of them lie beyond, intervals that hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BEYOND: Final = 10
"""A percentile has at least so many values beyond it; of fewer, the greatest is to be shown."""
COVERAGE: Final = 0.95
"""Of an interval; the range of five repeats, as many as ``make bench`` takes, has 0.9375."""
REPEATS: Final = 5
"""The fewest that have such an interval."""


def enough(samples: int, share: float) -> bool:
    """Whether ``BEYOND`` of the samples lie beyond that share of them.

    >>> enough(1_000, 0.99), enough(999, 0.99), enough(20, 0.5)
    (True, False, True)
    """
    return samples - _rank(samples, share) >= BEYOND


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of them do not exceed; None if not ``enough``.

    >>> percentile(range(1, 21), 0.5), percentile(range(1, 20), 0.5)
    (10, None)
    """
    if not enough(len(values), share):
        return None
    return sorted(values)[_rank(len(values), share) - 1]


def interval(repeats: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values that hold the true median with ``COVERAGE``, however values scatter.

    Of ``REPEATS`` values it is their range.

    How many of ``n`` values lie below the true median is binomial, with one half (the sign test).

    Returns:
        None under ``REPEATS`` values.

    >>> interval([3.0, 1.0, 9.0, 2.0, 4.0]), interval([1.0, 2.0, 3.0, 4.0])
    ((1.0, 9.0), None)
    """
    count = len(repeats)
    depth, outside = 0, 0.0
    while (outside := outside + 2 * math.comb(count, depth) / 2**count) <= 1 - COVERAGE:
        depth += 1
    depth = depth or int(count == REPEATS)
    ordered = sorted(repeats)
    return (ordered[depth - 1], ordered[-depth]) if depth else None


def _rank(samples: int, share: float) -> int:
    # Rounded: a share such as 0.999 times a count may be a whole number but for its last digit.
    return max(1, math.ceil(round(share * samples, 6)))
