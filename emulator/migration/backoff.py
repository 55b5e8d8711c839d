"""When to try again: 100 ms, doubled each time up to a cap, from the start again after progress.

Source: KRaftMigrationDriver.PollTimeSupplier, Kafka 3.9, whose cap is 60 s; ours is lower since a
poll is a fraction of a second even on a large tree, and an operator is waiting.
"""

from __future__ import annotations

from typing import Final

FIRST_MS: Final = 100
CAP_MS: Final = 5_000


class Backoff:
    """The next time to poll.

    >>> backoff = Backoff()
    >>> [backoff.next(0) for _ in range(3)]
    [100, 200, 400]
    """

    def __init__(self) -> None:
        self._tries = 0

    def next(self, now_ms: int) -> int:
        """Return when to try again, and wait longer the time after."""
        delay_ms = min(FIRST_MS << min(self._tries, 16), CAP_MS)
        self._tries += 1
        return now_ms + delay_ms

    def reset(self) -> None:
        """Something changed: be quick again."""
        self._tries = 0
