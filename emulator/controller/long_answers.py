"""Answers that take longer than a slice to make: a slice of one of them in each step, in turn.

What only reads, what is refused, and what an Envelope holds: none of it appends, and the image that
it is made of does not change, so any number of them may be under way, with a long call that appends
(``turns.py``) or without one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from emulator.controller.context import Call
from emulator.seam import Slices, Ticket


class LongAnswers:
    """The calls that are under way, each with what is left to do for it."""

    def __init__(self) -> None:
        self._under_way: deque[tuple[Call, Slices[None]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._under_way)

    @property
    def conns(self) -> set[int]:
        """The connections of these calls."""
        return {call.ticket.conn for call, _ in self._under_way}

    def put(self, call: Call, slices: Slices[None]) -> None:
        """Take a call whose first slice is done."""
        self._under_way.append((call, slices))

    def next(self) -> tuple[Call, Slices[None]]:
        """Remove the one whose turn it is; it is put back if there is more to do."""
        return self._under_way.popleft()

    def drop(self, gone: Callable[[Ticket], bool]) -> list[Call]:
        """Remove the calls of these tickets; returns them."""
        dropped: list[Call] = []
        for _ in range(len(self._under_way)):
            call, slices = self._under_way.popleft()
            if gone(call.ticket):
                dropped.append(call)
            else:
                self._under_way.append((call, slices))
        return dropped
