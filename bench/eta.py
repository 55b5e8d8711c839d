"""How long what is left will take: steps in their order, each with how long it is thought to take.

What the finished steps took is the measure of the others: on a machine that is twice as slow each
takes twice as long. Waiting that a step does by the clock takes what it takes everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from emulator.config.words import duration


class Step(NamedTuple):
    """Seconds that a step is thought to take.

    ``worked_s``: on a machine as the one where they were taken; ``waited_s``: on any.
    """

    worked_s: float
    waited_s: float = 0.0


class Course:
    """Where a run is among its steps.

    >>> course = Course([Step(10), Step(0, waited_s=60), Step(20)])
    >>> course.begin(0, 0.0)
    >>> course.text(4.0)
    'about 86 s left'
    >>> course.begin(1, 20.0)  # the first one took twice as long
    >>> course.left_s(30.0), course.left_s(95.0)
    (90.0, 40.0)
    >>> course.begin(2, 95.0)
    >>> course.text(200.0)
    'longer than was thought'
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._at: int | None = None
        self._began_s = 0.0
        self._thought_s = self._took_s = 0.0
        """Of the steps that are finished, without the waiting."""

    def begin(self, number: int, now_s: float) -> None:
        """A step begins, and the one that was under way is finished; others may be left out.

        Args:
            number: of the step, from 0 on.
            now_s: by any clock.
        """
        if self._at is not None:
            done = self._steps[self._at]
            if done.worked_s:
                self._thought_s += done.worked_s
                self._took_s += max(0.0, now_s - self._began_s - done.waited_s)
        self._at, self._began_s = number, now_s

    def left_s(self, now_s: float) -> float:
        """Seconds, by what is known now; 0: the last step takes longer than was thought."""
        pace = self._took_s / self._thought_s if self._thought_s else 1.0
        left = [one.worked_s * pace + one.waited_s for one in self._steps[self._at or 0 :]]
        if self._at is None:
            return sum(left)
        return max(0.0, left[0] - (now_s - self._began_s)) + sum(left[1:])

    def text(self, now_s: float) -> str:
        """The same in words."""
        left_s = round(self.left_s(now_s))
        return f"about {duration(1_000 * left_s)} left" if left_s else "longer than was thought"
