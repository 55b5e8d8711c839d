"""The offsets of a log that change no metadata: NoOp records and control batches.

They are kept exactly as far back as the log goes. Below it they are kept in blocks of :data:`BLOCK`
offsets: a voter that follows may trim its log beyond the position of ZooKeeper, and asks
from there when it leads. Otherwise a process would keep a run for each change of its life.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

RUNS_MAX: Final = 65_536
BLOCK: Final = 1_024
"""A tenth of the first bound of records (``dual_write/bound.py``): the error of a count at most."""
BLOCKS_MAX: Final = 512
"""Half a million offsets before the log: three days of NoOps."""


class ChangeCount(NamedTuple):
    """Number of records after an offset, without known NoOps and control records.

    ``unknown`` counts records in a snapshot, whose types are not known.
    """

    known: int
    unknown: int


class IdleOffsets:
    """Offsets without a change, as runs; complete for offsets after ``since``.

    In a long log the oldest runs are dropped, which moves ``since``; see also :meth:`thin`.
    """

    def __init__(self, since: int) -> None:
        self.since = since
        self._firsts: list[int] = []
        self._before: list[int] = []
        """Idle offsets before each run."""
        self._total = 0
        self._last = -1
        """End of the last run."""

    def add(self, first: int, last: int) -> None:
        """Add a batch that changes nothing; offsets only grow."""
        if not self._firsts or first > self._last + 1:
            if len(self._firsts) >= RUNS_MAX:
                self._forget(RUNS_MAX // 2)
            self._firsts.append(first)
            self._before.append(self._total)
        self._total += last - first + 1
        self._last = last

    def rewind(self, last: int) -> None:
        """Drop the offsets above ``last``, which are no longer in the log."""
        while self._firsts and self._firsts[-1] > last:
            self._firsts.pop()
            self._total = self._before.pop()
            self._last = (
                self._firsts[-1] + self._total - self._before[-1] - 1 if self._firsts else -1
            )
        if self._firsts and self._last > last:
            self._total -= self._last - last
            self._last = last

    def thin(self, log_start: int) -> None:
        """The log begins at that offset now: keep no more than blocks of what is below it.

        The idle offsets of a block count as the first of it: from then on, up to ``BLOCK`` changes
        too many are counted above an offset inside one, and above its first none.
        """
        stop = min(bisect_left(self._firsts, log_start), len(self._firsts) - 1)
        if stop > 0 and self._firsts[stop - 1] + self._length(stop - 1) > log_start:
            stop -= 1  # a part of this run is in the log
        kept: list[int] = []
        for at in range(stop):
            if not kept or self._firsts[at] - self._firsts[kept[-1]] >= BLOCK:
                kept.append(at)
        # The length of a run is what the next one has before it: the first takes over all others.
        self._firsts[: max(stop, 0)] = [self._firsts[at] for at in kept]
        self._before[: max(stop, 0)] = [self._before[at] for at in kept]
        if len(kept) > BLOCKS_MAX:
            self._forget(len(kept) - BLOCKS_MAX)

    def changes(self, after: int, through: int) -> ChangeCount:
        """Count the records above offset ``after``, up to ``through``, the end of the log."""
        base = max(after, self.since)
        known = max(0, through - base - self._after(base))
        return ChangeCount(known, max(0, min(self.since, through) - after))

    def _after(self, offset: int) -> int:
        """Idle offsets above ``offset``."""
        at = bisect_right(self._firsts, offset) - 1
        if at < 0:
            return self._total - (self._before[0] if self._before else 0)
        length = self._length(at)
        left = max(0, self._firsts[at] + length - 1 - offset)
        return self._total - self._before[at] - length + left

    def _length(self, at: int) -> int:
        """How many offsets a run has."""
        end = self._before[at + 1] if at + 1 < len(self._before) else self._total
        return end - self._before[at]

    def _forget(self, runs: int) -> None:
        self.since = max(self.since, self._firsts[runs] - 1)
        del self._firsts[:runs], self._before[:runs]
