"""When observers whose Fetch waits are told what is new: at once, or gathered for a while.

Each committed change is news for every observer, and each answer is a request of its own: with 200
observers, 50 changes a second would be 10,000 answers a second. So after the observers were told,
they rest for a time that grows with their number, and what becomes known meanwhile is told at its
end, in one answer each. A few observers never rest, and neither do those who missed the last
telling: only what is newer than that is gathered. Voters are told at once, always.

Kafka has no such pause. There the leader gathers appended records for 25 ms before it writes them
(``controller.quorum.append.linger.ms``), and callers wait for that too.
"""

from __future__ import annotations

from typing import Final

PAUSE_US_PER_OBSERVER: Final = 250
"""Three or four times what one answer costs: telling 200 observers takes a third of the time."""
PAUSE_MS_MAX: Final = 50
"""An observer learns of a change at most this much later; a lease of a broker is 9 s."""


class ObserverPace:
    """See the module's docstring. Times are milliseconds that never go back."""

    def __init__(self) -> None:
        self._rests_until_ms = 0
        self._told_end = 0
        self._news = False

    @property
    def due_ms(self) -> int | None:
        """When those who wait are to be told; None while there is nothing new."""
        return self._rests_until_ms if self._news else None

    def news(self) -> None:
        """More is durable, or committed, than the observers were told last."""
        self._news = True

    def is_due(self, now_ms: int) -> bool:
        """Whether those who wait are to be told now."""
        return self._news and self._rests_until_ms <= now_ms

    def told(self, observers: int, end_offset: int, now_ms: int) -> None:
        """All who waited are told now.

        Args:
            observers: how many they are.
            end_offset: everything below is durable, and told.
            now_ms: the time.
        """
        pause_ms = min(PAUSE_MS_MAX, observers * PAUSE_US_PER_OBSERVER // 1000)
        self._rests_until_ms = now_ms + pause_ms
        self._told_end = end_offset
        self._news = False

    def rests(self, offset: int, now_ms: int) -> bool:
        """Whether a Fetch at an offset must wait for the next telling, whatever there is for it."""
        return self._news and now_ms < self._rests_until_ms and offset >= self._told_end
