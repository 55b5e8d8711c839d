"""The offsets of a log that change no metadata: NoOp records and control batches."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

RUNS_MAX: Final = 65_536


class ChangeCount(NamedTuple):
    """Number of records after an offset, without known NoOps and control records.

    ``unknown`` counts records in a snapshot, whose types are not known.
    """

    known: int
    unknown: int


class IdleOffsets:
    """Offsets without a change, as runs; complete for offsets after ``since``.

    In a long log the oldest runs are dropped, which moves ``since``.
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
        end = self._before[at + 1] if at + 1 < len(self._before) else self._total
        of_run = end - self._before[at]
        left = max(0, self._firsts[at] + of_run - 1 - offset)
        return self._total - end + left

    def _forget(self, runs: int) -> None:
        self.since = max(self.since, self._firsts[runs] - 1)
        del self._firsts[:runs], self._before[:runs]
