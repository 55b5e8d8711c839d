"""Retry times: 100 ms, doubled each time up to a maximum, and 100 ms again after progress.

Source: KRaftMigrationDriver.PollTimeSupplier, Kafka 3.9, whose maximum is 60 s. Here it is lower: a
poll takes less than a second even on a large tree, and an operator waits.
"""

from __future__ import annotations

from typing import Final

FIRST_MS: Final = 100
CAP_MS: Final = 5_000


class Retry:
    """When to poll next: ``due_ms``, None for not before something happens.

    >>> retry = Retry()
    >>> [retry.later(0) for _ in range(3)]
    [100, 200, 400]
    """

    def __init__(self) -> None:
        self._tries = 0
        self.due_ms: int | None = None

    def due(self, now_ms: int) -> bool:
        """Whether to poll now."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def later(self, now_ms: int) -> int:
        """It failed: poll again later, each time after a longer wait. Returns when."""
        delay_ms = min(FIRST_MS << min(self._tries, 16), CAP_MS)
        self._tries += 1
        self.due_ms = now_ms + delay_ms
        return self.due_ms

    def begin(self, due_ms: int | None) -> None:
        """Poll then, and begin with the shortest wait again."""
        self._tries = 0
        self.due_ms = due_ms

    def sooner(self, now_ms: int) -> None:
        """Something changed: if a poll is to come, poll at once."""
        self._tries = 0
        if self.due_ms is not None:
            self.due_ms = now_ms
