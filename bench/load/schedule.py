"""When an answer counts towards the rate that a schedule asked for."""

from __future__ import annotations

from typing import Final

GRACE: Final = 0.01
"""An answer may come so much later than the schedule's end, as a share of its length: the last
requests take time too, but a system that falls behind by more has not achieved what was due."""


def latest(begin: float, end: float) -> float:
    """The last instant that counts, in the unit of the schedule's begin and end.

    >>> latest(10.0, 20.0)
    20.1
    """
    return end + GRACE * (end - begin)
