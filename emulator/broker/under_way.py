"""Answers of a broker that take longer than a slice: in each step a slice of one, in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeAlias

from emulator.net.accepted import Connections
from emulator.net.reply import Request
from emulator.seam import Effect, Slices

Work: TypeAlias = list[Effect] | Slices[list[Effect]]
"""What is to be done for a request, done at once or in slices."""


class UnderWay:
    """The requests that are under way. Their connections are paused: what comes behind them waits.

    Args:
        connections: of the broker.
    """

    def __init__(self, connections: Connections) -> None:
        self._left: deque[tuple[Request, Slices[list[Effect]]]] = deque()
        self._connections = connections
        self._budget = connections.budget

    def __bool__(self) -> bool:
        return bool(self._left)

    def in_turn(self, request: Request, work: Callable[[], Work]) -> Callable[[], Work]:
        """The work of a request, later if its connection has something under way."""
        conn = request.ticket.conn
        waits = any(other.ticket.conn == conn for other, _ in self._left)
        return partial(_later, work) if waits else work

    def begin(self, request: Request, slices: Slices[list[Effect]]) -> list[Effect]:
        """Do the first slice of a request, unless the step is over; it may then be under way."""
        return self._put(request, slices) if self._budget.over else self._next(request, slices)

    def _next(self, request: Request, slices: Slices[list[Effect]]) -> list[Effect]:
        made = self._budget.end_of(slices)
        return made[0] if made else self._put(request, slices)

    def _put(self, request: Request, slices: Slices[list[Effect]]) -> list[Effect]:
        self._left.append((request, slices))
        self._connections.pause(request.ticket.conn)
        return []

    def go_on(
        self, guarded: Callable[[Request, Callable[[], list[Effect]]], list[Effect]]
    ) -> list[Effect]:
        """Do the next slice of one; before it, those that need no other one.

        Those whose client has gone are left out.

        Args:
            guarded: does the work of a request, and answers for what it raises.
        """
        effects: list[Effect] = []
        while self._left and not self._budget.over:
            request, slices = self._left.popleft()
            conn = request.ticket.conn
            if self._connections.owns(conn):
                effects += guarded(request, partial(self._next, request, slices))
                if self._left and self._left[-1][1] is slices:
                    break
                if all(other.ticket.conn != conn for other, _ in self._left):
                    self._connections.resume(conn)
        return effects


def _later(work: Callable[[], Work]) -> Slices[list[Effect]]:
    yield
    made = work()
    return (yield from made) if isinstance(made, Generator) else made
