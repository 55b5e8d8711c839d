"""How far ZooKeeper is behind the log: records, records that change something, and milliseconds.

Source: KIP-866 "Metrics" (ZkWriteBehindLag) and "Unavailable ZooKeeper". Unlike Kafka 3.9, whose
gauge reads 0 while ``/migration`` stands still, lag is computed only from offsets that ZooKeeper
has confirmed.
"""

from __future__ import annotations

from collections import deque

import msgspec

from emulator.migration.dual_write.backlog import Backlog, Written
from emulator.migration.dual_write.unit import Unit
from emulator.trace.distribution import Distribution
from emulator.trace.rows import PipelineStage, RangeRow


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
        self.longest = 0
        """The most that ``records`` has been since :meth:`forget_longest`."""
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
        self.forget_longest()
        self._changes.clear()
        if changes:
            self._changes.append(_Committed(committed, changes, now_ms))

    def forget_longest(self) -> None:
        """The longest lag counts from now."""
        self.longest = self.records

    def commit(self, first_offset: int, last_offset: int, now_ms: int, *, changes: bool) -> None:
        """A delta became stable."""
        assert last_offset >= self.committed, "the committed offset goes back"
        self.committed = last_offset
        self.longest = max(self.longest, self.records)
        if changes:
            self._changes.append(_Committed(last_offset, last_offset - first_offset + 1, now_ms))

    def confirm(self, offset: int) -> None:
        """``/migration`` is known to hold ``offset``."""
        assert offset >= self.confirmed, "the confirmed offset goes back"
        self.confirmed = offset
        while self._changes and self._changes[0].last_offset <= offset:
            self._changes.popleft()


# Changes confirmed in ZooKeeper: lag, durations, and the changes to propagate to brokers.


class Confirmations:
    """Units in the order in which their last multi was confirmed.

    ``reconciled``: a comparison of the whole tree has been confirmed in this term; before that
    nothing is propagated to brokers. ``records``: offsets confirmed since the process began.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.written: list[Written] = []
        """What :meth:`take` will return."""
        self.lag = Lag()
        self.reconciled = False
        self.compared_ms: int | None = None
        """When the last comparison of the whole tree was confirmed, in any term; None: never."""
        self.read_ms: int | None = None
        """When the reading of the whole tree began for that comparison; None: never."""
        self.claimed_ms: int | None = None
        """When the last claim was confirmed; None: never."""
        self.records = 0
        self.delta_time_ms, self.snapshot_time_ms = Distribution(), Distribution()

    def restart(self, committed: int, confirmed: int, changes: int = 0, now_ms: int = 0) -> None:
        """Begin or end a term: changes of an earlier term are not propagated any more.

        See ``Lag.restart``.
        """
        self.written.clear()
        self.reconciled = False
        self.lag.restart(committed, confirmed, changes, now_ms)

    def compared(self, read_ms: int, now_ms: int) -> None:
        """A comparison of the whole tree, whose reading began at ``read_ms``, is confirmed."""
        self.read_ms, self.compared_ms = read_ms, now_ms

    def confirm(self, unit: Unit, stamp_ns: int) -> RangeRow:
        """Take a unit that ZooKeeper holds completely; returns the row for the trace."""
        self.lag.confirm(unit.last_offset)
        self.records += max(0, unit.last_offset - unit.first_offset + 1)
        duration_ms = (stamp_ns - unit.begun_ns) / 1e6
        if unit.full:
            self.snapshot_time_ms.observe(duration_ms)
            if not self.reconciled:
                self.lag.forget_longest()  # before it, nothing was known of ZooKeeper
            self.reconciled = True
        elif unit.ops_count:
            self.delta_time_ms.observe(duration_ms)
        written = self._backlog.confirm(unit, propagate=self.reconciled)
        if written is not None:
            self.written.append(written)
        return RangeRow(PipelineStage.ZK_ACKED, unit.first_offset, unit.last_offset, stamp_ns)

    def take(self) -> list[Written]:
        """Return the changes to propagate to brokers, since the last call, oldest first."""
        written, self.written = self.written, []
        return written
