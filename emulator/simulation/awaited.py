"""What begins when the migration reaches a state, or when a quorum has elected a leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ELECTED: Final = "ELECTED"
ELECTED_AGAIN: Final = "ELECTED_AGAIN"
"""The first leader of several voters has written its first record; another one has."""


class Awaited:
    """Faults that wait for a state.

    Args:
        one_by_one: of several that wait for one state of the migration, the first leader that
            reaches it starts the first, the next leader the second. Else all start together.
    """

    def __init__(self, *, one_by_one: bool) -> None:
        self._one_by_one = one_by_one
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._beside: dict[str, list[Callable[[], None]]] = {}
        self.state = ""
        """The last one that was reached."""
        self._elections = 0

    def when(self, state: str, action: Callable[[], None]) -> None:
        """Begin something when a state is reached."""
        self._waiting.setdefault(state, []).append(action)

    def beside(self, state: str, action: Callable[[], None]) -> None:
        """Begin something that is no fault when a state is reached, whatever else waits for it."""
        self._beside.setdefault(state, []).append(action)

    def reached(self, state: str) -> None:
        """The migration is in a state, as it was before or newly."""
        if state == self.state:
            return
        self.state = state
        waiting = self._waiting.pop(state, [])
        if self._one_by_one and waiting[1:]:
            waiting, self._waiting[state] = waiting[:1], waiting[1:]
        for action in (*waiting, *self._beside.pop(state, [])):
            action()

    def elected(self) -> list[Callable[[], None]]:
        """A leader writes its first record; returns what begins when that step is done."""
        again, self._elections = self._elections > 0, self._elections + 1
        return self._waiting.pop(ELECTED_AGAIN if again else ELECTED, [])
