"""When a leader without the migration flag gives way to a voter that has it.

The first time at once; then at most once in a time that doubles. A voter with the flag may be
unable to lead: its ZooKeeper is another one, or is gone. While it tries, brokers and callers are
refused.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CAUGHT_UP_MS: Final = 2_000
"""A voter that reached the end of the log within this time can be elected."""


class BackOff(NamedTuple):
    """How long a leader keeps its leadership after it gave way once, in ms; then twice as long."""

    first_ms: int
    max_ms: int


SERVING: Final = BackOff(60_000, 600_000)
"""Brokers and callers are served meanwhile: there is no hurry."""
REFUSING: Final = BackOff(5_000, 30_000)
"""They are refused in any case, until a voter with the flag leads."""
FORGETS_MS: Final = 2 * SERVING.max_ms
"""After such a time without giving way the next time is the first one again."""


class GivingWay:
    """How often this process gave way, and when last; ``to``: whom in this term."""

    def __init__(self) -> None:
        self.to: tuple[int, ...] = ()
        self.times = 0
        self.last_ms: int | None = None

    def due_ms(self, *, serves: bool) -> int:
        """From when on it may give way; 0: it may now.

        Args:
            serves: whether brokers and callers are served otherwise.
        """
        if self.last_ms is None:
            return 0
        first_ms, max_ms = SERVING if serves else REFUSING
        return self.last_ms + min(first_ms << min(self.times - 1, 10), max_ms)

    def give(self, voters: list[int], now_ms: int) -> None:
        """It gives way to these."""
        if self.last_ms is not None and now_ms - self.last_ms >= FORGETS_MS:
            self.times = 0
        self.to, self.times, self.last_ms = tuple(voters), self.times + 1, now_ms

    def end_term(self) -> None:
        """It leads no more."""
        self.to = ()

    def forget(self) -> None:
        """No voter has the flag any more."""
        self.to, self.times, self.last_ms = (), 0, None
