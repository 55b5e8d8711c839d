"""How large a request to ZooKeeper may be so that the line carries it in time.

A request without an answer within 2/3 of the session timeout is given up with its connection. On a
slow line a large one would be sent again for ever. So the limit is halved when a request is given
up, and already when an answer took more than half of the time. It is doubled when a request of the
order of the limit was answered within an eighth of the time: twice as large, it takes about a
quarter. A ZooKeeper that stood still for a while looks the same; afterwards ten requests that fill
the limit bring it back from its minimum.

A request that holds one change only cannot be made smaller. After :data:`ROW` requests of its size
that were given up in a row, requests of that size count as too slow.

The time counts from the answer before, as requests follow each other on the line. The time of a
large answer to a read is no sign that requests are slow.
"""

from __future__ import annotations

from typing import Final

BYTES_MIN: Final = 1_024
"""Nothing is concluded from shorter requests, and the limit never falls below it."""
SLOW_BYTES_MIN: Final = 16 * 1024
"""No shorter request counts as too slow."""
ROW: Final = 3


class TimeLimit:
    """``bytes`` of a request that the line carries in time, as known now.

    Args:
        bytes_max: what it begins with and never exceeds.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = bytes_max
        self.halved_count = 0
        self._bytes_max = bytes_max
        self._slow = 0
        """Length of the first request of the last row that was given up."""
        self._row = 0
        """Requests of about that length, or longer, given up since one was answered."""

    def overdue(self, size: int) -> None:
        """A request of ``size`` bytes was given up: no part of its answer came in time."""
        if size < BYTES_MIN:
            return
        if self._row and size * 4 >= self._slow * 3:
            self._row += 1
        else:
            self._slow, self._row = size, 1
        self._halve(size)

    def took(self, size: int, took_ms: int, patience_ms: int, *, reads: bool) -> None:
        """A request was answered.

        Args:
            size: its bytes.
            took_ms: the time since it was sent, or since the answer before, if that came later.
            patience_ms: the time after which it would have been given up.
            reads: its answer may be long.
        """
        if size * 4 >= self._slow * 3:
            self._row = 0
        if size * 4 < self.bytes:
            return
        if took_ms * 2 > patience_ms and not reads:
            self._halve(size)
        elif took_ms * 8 * self.bytes <= patience_ms * size:
            # Reads fill less than half of the limit, so the time is taken for a whole one.
            self.bytes = min(2 * self.bytes, self._bytes_max)

    def too_slow(self, size: int) -> bool:
        """Whether a request of ``size`` bytes cannot be expected to arrive in time."""
        return self._row >= ROW and size >= max(self._slow, SLOW_BYTES_MIN)

    def _halve(self, size: int) -> None:
        # Those behind it were sent under the same limit, and one change may be longer: they
        # show nothing about requests that are half as long.
        smaller = max(BYTES_MIN, min(self.bytes, size // 2))
        self.halved_count += smaller < self.bytes
        self.bytes = smaller
