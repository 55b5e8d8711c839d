"""Virtual time: a queue of actions to come, and the lines of what has happened.

Nothing here looks at a clock. Two things due at the same microsecond happen in the order they were
asked for, so a run is a function of its seed alone; the digest of the lines shows whether two runs
were the same.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

EPOCH_MS: Final = 1_700_000_000_000
"""What the machines take for the time at the beginning: milliseconds since the Unix epoch."""
MS: Final = 1_000
"""Microseconds in a millisecond."""


class Scheduler:
    """The only clock of a simulated cluster; ``now_us`` counts microseconds from its beginning."""

    def __init__(self) -> None:
        self.now_us = 0
        self.lines: list[str] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def now_ms(self) -> int:
        """The machines' clock."""
        return EPOCH_MS + self.now_us // MS

    @property
    def now_ns(self) -> int:
        """The machines' clock for traces."""
        return self.now_us * 1_000

    @property
    def next_us(self) -> int | None:
        """When the next thing happens; None when nothing ever will."""
        return self._queue[0][0] if self._queue else None

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something later; at once is after all that is already due."""
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), next(self._order), action))

    def at_ms(self, time_ms: int, action: Callable[[], None]) -> None:
        """Do something when the machines' clock shows ``time_ms``."""
        self.after((time_ms - EPOCH_MS) * MS - self.now_us, action)

    def step(self) -> None:
        """Do the next thing."""
        time_us, _, action = heapq.heappop(self._queue)
        self.now_us = max(self.now_us, time_us)
        action()

    def add_line(self, source: str, what: str) -> None:
        """Add a line to the story."""
        self.lines.append(f"{self.now_us / MS:11.3f} {source:<12} {what}")

    def go_on(self, before: Scheduler) -> None:
        """Begin at the time at which another one is, behind its lines; nothing of it is to come."""
        self.now_us = before.now_us
        self.lines = [*before.lines]

    @property
    def digest(self) -> str:
        """Sixteen hex digits that two runs share only if their lines are the same."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]
