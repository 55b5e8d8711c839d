"""What a schedule achieved: one rule for a load of minutes, and for a storm of 0.2 s."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

GRACE: Final = 0.01
"""An answer may come so much later than the schedule's end, as a share of its length: the last
requests take time too, but a system that falls behind by more has not achieved what was due."""
SETTLED: Final = 0.99
"""Where answers take longer than the schedule, its time ends when so many of them had come: one
that is much later than all others does not make a rate of the others' time."""


def latest(begin: float, end: float) -> float:
    """The last instant that counts, in the unit of the schedule's begin and end.

    >>> latest(10.0, 20.0)
    20.1
    """
    return end + GRACE * (end - begin)


def achieved_per_s(begin_ns: int, due_ns: int, answered_ns: Iterable[int]) -> float:
    """Changes answered with success, per second of the time that they took.

    That time is from the first intended instant to the end of the schedule, or to when ``SETTLED``
    of the answers had come if that is later by more than ``GRACE``: what was due each second for a
    load that is kept up with, and the speed of the controller for one that comes at once.

    Args:
        begin_ns: when the first change was due.
        due_ns: when a next one would have been due; ``begin_ns`` if there is no schedule.
        answered_ns: when each was answered with success, in any order.

    >>> second = 10**9
    >>> achieved_per_s(0, 2 * second, [second, second, 2 * second, 9 * second])
    1.5
    >>> achieved_per_s(0, second // 5, [at * second for at in range(1, 201)])
    1.0
    """
    answers = sorted(answered_ns)
    if not answers:
        return 0.0
    settled_ns = answers[max(1, int(SETTLED * len(answers))) - 1]
    in_time_ns = latest(begin_ns, due_ns)
    if settled_ns <= in_time_ns and due_ns > begin_ns:
        return bisect_right(answers, in_time_ns) / ((due_ns - begin_ns) / 1e9)
    return bisect_right(answers, settled_ns) / max(1e-9, (settled_ns - begin_ns) / 1e9)
