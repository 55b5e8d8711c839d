"""Retry times: 100 ms, doubled each time up to a maximum, and 100 ms again after progress.

Source: KRaftMigrationDriver.PollTimeSupplier, Kafka 3.9, whose maximum is 60 s. Here it is lower: a
poll takes less than a second even on a large tree, and an operator waits.
"""

from __future__ import annotations

from typing import Final

FIRST_MS: Final = 100
CAP_MS: Final = 5_000


class Backoff:
    """Computes the next time to poll.

    >>> backoff = Backoff()
    >>> [backoff.next(0) for _ in range(3)]
    [100, 200, 400]
    """

    def __init__(self) -> None:
        self._tries = 0

    def next(self, now_ms: int) -> int:
        """Return when to try again; the wait after that is longer."""
        delay_ms = min(FIRST_MS << min(self._tries, 16), CAP_MS)
        self._tries += 1
        return now_ms + delay_ms

    def reset(self) -> None:
        """Something changed: begin with the shortest wait again."""
        self._tries = 0
