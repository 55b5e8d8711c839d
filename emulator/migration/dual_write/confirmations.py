"""Changes confirmed in ZooKeeper: lag, durations, and the changes to propagate to brokers."""

from __future__ import annotations

from emulator.migration.dual_write.backlog import Backlog, Written
from emulator.migration.dual_write.lag import Lag
from emulator.migration.dual_write.unit import Unit
from emulator.trace.distribution import Distribution
from emulator.trace.rows import RangeRow, Stage


class Confirmations:
    """Units in the order in which their last multi was confirmed.

    ``reconciled``: a comparison of the whole tree has been confirmed in this term; before that
    nothing is propagated to brokers. ``records``: offsets confirmed since the process began.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._written: list[Written] = []
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
        self._written.clear()
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
            self.reconciled = True
        elif unit.ops_count:
            self.delta_time_ms.observe(duration_ms)
        written = self._backlog.confirm(unit, propagate=self.reconciled)
        if written is not None:
            self._written.append(written)
        return RangeRow(Stage.ZK_ACKED, unit.first_offset, unit.last_offset, stamp_ns)

    def take(self) -> list[Written]:
        """Return the changes to propagate to brokers, since the last call, oldest first."""
        written, self._written = self._written, []
        return written
