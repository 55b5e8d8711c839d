"""How far ZooKeeper is behind the log: records, records that change something, and milliseconds.

Source: KIP-866 "Metrics" (ZkWriteBehindLag) and "Unavailable ZooKeeper". Unlike Kafka 3.9, whose
gauge reads 0 while ``/migration`` stands still, lag is computed only from offsets that ZooKeeper
has confirmed.
"""

from __future__ import annotations

from collections import deque

import msgspec


class _Committed(msgspec.Struct, frozen=True):
    last_offset: int
    records: int
    commit_ms: int


class Lag:
    """Offsets committed and confirmed; the difference is the lag.

    Invariant: ``confirmed <= committed`` except before the first delta of a term is known.
    """

    def __init__(self) -> None:
        self.committed = -1
        self.confirmed = -1
        self._changes: deque[_Committed] = deque()

    @property
    def records(self) -> int:
        """Records committed and not confirmed, NoOps included."""
        return max(0, self.committed - self.confirmed)

    @property
    def changed_records(self) -> int:
        """Records of batches that change something, not confirmed; 0: the stores agree."""
        return sum(entry.records for entry in self._changes)

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest change not confirmed was committed; None: there is none."""
        return self._changes[0].commit_ms if self._changes else None

    def age_ms(self, now_ms: int) -> int:
        """Age of the oldest change not confirmed; 0 when there is none."""
        return max(0, now_ms - self._changes[0].commit_ms) if self._changes else 0

    def restart(self, committed: int, confirmed: int, changes: int = 0, now_ms: int = 0) -> None:
        """Begin a term.

        Args:
            committed: offset of the last committed record.
            confirmed: what ``/migration`` held at the claim.
            changes: records between the two, without those known to change nothing.
            now_ms: the clock; when they were committed is not known any more.
        """
        self.committed = committed
        self.confirmed = confirmed
        self._changes.clear()
        if changes:
            self._changes.append(_Committed(committed, changes, now_ms))

    def commit(self, first_offset: int, last_offset: int, now_ms: int, *, changes: bool) -> None:
        """A delta became stable."""
        self.committed = max(self.committed, last_offset)
        if changes:
            self._changes.append(_Committed(last_offset, last_offset - first_offset + 1, now_ms))

    def confirm(self, offset: int) -> None:
        """``/migration`` is known to hold ``offset``."""
        self.confirmed = max(self.confirmed, offset)
        while self._changes and self._changes[0].last_offset <= offset:
            self._changes.popleft()
