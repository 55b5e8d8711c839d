"""Which share of a long list of parameters ``make quick`` takes; ``make test`` takes all."""

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(values: Iterable[Any], quick: int) -> list[Any]:
    """Parameters of which all but the first few are marked ``slow``.

    Args:
        values: one parameter each.
        quick: how many of them are not slow.

    >>> [len(getattr(one, "marks", ())) for one in rest_slow("abc", 1)]
    [0, 1, 1]
    """
    first = list(values)
    return [*first[:quick], *(pytest.param(one, marks=pytest.mark.slow) for one in first[quick:])]
