"""Intervals that hold what they are said to hold, however few and skewed the values are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

COVERAGE: Final = 0.95
"""Of an interval; the range of five repeats, as many as ``make bench`` takes, has 0.9375."""
REPEATS: Final = 5
"""The fewest that have such an interval."""


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
