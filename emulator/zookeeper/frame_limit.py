"""How large a request to ZooKeeper may be: ``jute.maxbuffer`` of the server, found by trying.

On a slow line the time that a request takes may limit it further: ``time_limit``.

A server closes the connection, without an answer, when a request is longer than its
``jute.maxbuffer``, which no client can read. So the limit begins at :data:`BEGIN_BYTES`, half of
ZooKeeper's default. Two connections in a row that the server closes with a large request unanswered
halve it: one may have another cause; four if such a request was answered before. After that one is
enough, until a request of half the limit is answered. An answer to a request about as large as the
suspected one ends the suspicion; so does a lost one that was applied, as a later read shows. A
longer request that is answered raises the limit. It holds for all sessions of a process.

The cause may be another one after all: a ZooKeeper whose disk is full ends at every write. So after
:data:`PATIENCE` answers to requests of the order of the limit it is doubled; each time that this
turns out to be wrong, the next attempt comes after twice as many, until one turns out to be right.

A multi's answer is at most a third longer than the multi: a stat is 77 bytes, the request with path
and data at least 60. The answer to a read depends on what the znodes hold; its limit is halved in
the same way, though ZooKeeper itself has none for answers: a proxy may.

Source: measured on ZooKeeper 3.6.4, 3.8.4 and 3.9.5 (NIOServerCnxn.readLength).
"""

from __future__ import annotations

from typing import Final

# How large a request to ZooKeeper may be so that the line carries it in time.
#
# A request without an answer within 2/3 of the session timeout is given up with its connection. On
# a slow line a large one would be sent again for ever. So the limit is halved when a request is
# given up, and already when an answer took more than half of the time. It is doubled when a
# request of the order of the limit was answered within an eighth of the time: twice as large, it
# takes about a quarter. A ZooKeeper that stood still for a while looks the same; afterwards ten
# requests that fill the limit bring it back from its minimum.
#
# A request that holds one change only cannot be made smaller. After :data:`ROW` requests of its
# size that were given up in a row, requests of that size count as too slow.
#
# The time counts from the answer before, as requests follow each other on the line. The time of a
# large answer to a read is no sign that requests are slow.

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


__all__ = ["BEGIN_BYTES", "BYTES_MIN", "PATIENCE", "FrameLimit"]

BEGIN_BYTES: Final = 512 * 1024
BREAKS: Final = 2
"""Connections in a row that must end with a large request before that is its fault."""
BREAKS_IF_PROVEN: Final = 4
"""The same for a size that was answered before: connections may end at random."""
PATIENCE: Final = 1_000
PATIENCE_MAX: Final = 1_000_000


class FrameLimit:
    """The limit as known now. ``bytes`` is for requests, ``answer_bytes`` for answers to reads."""

    def __init__(self) -> None:
        self.in_time = TimeLimit(BEGIN_BYTES)
        self._taken = BEGIN_BYTES
        """What the server takes, as far as known."""
        self.answer_bytes = BEGIN_BYTES
        self.halved_count = 0
        self._suspect = 0
        """Length of the last request that was lost with its connection; an answer to one about as
        large clears it. 0: none is suspected.
        """
        self._breaks = 0
        """Connections in a row that ended with such a request."""
        self._proven = 0
        """Length of the longest request that was answered."""
        self._refused: int | None = None
        """Length of the shortest request that is known to be too large."""
        self._patience = PATIENCE
        self._good = 0
        """Answers to requests of the order of the limit since it was changed."""
        self._raised = False

    @property
    def bytes(self) -> int:
        """Bytes of a request at most, unless it holds one change only."""
        return min(self._taken, self.in_time.bytes)

    def answered(self, size: int) -> None:
        """A request of ``size`` bytes was answered, or was applied though its answer was lost."""
        self._proven = max(self._proven, size)
        if self._as_large_as_suspect(size):
            self._suspect = 0
        if self._refused is not None and size >= self._refused:
            self._refused = None
        if self._raised and size * 4 >= self._taken * 3:
            # It was right to raise it: what comes later has another cause.
            self._raised, self._patience = False, PATIENCE
        if self._taken >= BEGIN_BYTES:
            return
        if size > self._taken:
            self._taken = min(size, BEGIN_BYTES)
        elif size * 2 >= self._taken:
            self._good += 1
            if self._good >= self._patience:
                self._raise()

    def broken(self, size: int, *, reads: bool) -> None:
        """The server closed a connection.

        Args:
            size: bytes of the largest request without an answer.
            reads: whether a request that reads many znodes was among them.
        """
        if size < BYTES_MIN:
            return
        again = self._suspect and self._as_large_as_suspect(size)
        self._breaks = self._breaks + 1 if again else 1
        needed = BREAKS if size > self._proven else BREAKS_IF_PROVEN
        if self._breaks < needed and not self.refuses(size):
            self._suspect = size
            return
        self._refused = size if self._refused is None else min(self._refused, size)
        self._taken = max(BYTES_MIN, min(self._taken, size) // 2)
        # From here on one is enough, until a request of half the limit is answered.
        self._suspect, self._breaks = self._taken // 2, BREAKS - 1
        self._proven = min(self._proven, self._taken)
        if reads:
            self.answer_bytes = max(BYTES_MIN, self.answer_bytes // 2)
        self.halved_count += 1
        if self._raised:
            self._patience = min(2 * self._patience, PATIENCE_MAX)
        self._raised, self._good = False, 0

    def refuses(self, size: int) -> bool:
        """Whether a request of ``size`` bytes is known to be too large."""
        return self._refused is not None and size >= self._refused

    def _as_large_as_suspect(self, size: int) -> bool:
        """Whether the outcome of a request is evidence about the suspected size."""
        return size * 4 >= self._suspect * 3

    def _raise(self) -> None:
        """Try twice as much."""
        self._taken = min(2 * self._taken, BEGIN_BYTES)
        self.answer_bytes = min(2 * self.answer_bytes, BEGIN_BYTES)
        self._raised, self._good = True, 0
        if self._taken == BEGIN_BYTES:
            self._refused = None
