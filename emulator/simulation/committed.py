"""What the log of one quorum has committed, kept outside the controllers.

Records are read with ``wire/`` alone, and committed in order. So a record that a later life lacks
or has with other content is noticed, and every earlier state can be looked up.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from emulator.simulation import tree_check
from emulator.simulation.facts import EMPTY, SILENT, Draft, Facts
from emulator.simulation.tree_check import NOTHING, Expected, Meaning
from emulator.simulation.violation import Violated, ensure
from wire import records as r
from wire.batch import Batch
from wire.record_serde import decode_record

SURVIVES = "committed-survives"


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed record."""

    epoch: int
    value: bytes


class CommittedLog:
    """Committed records, facts by offset, and every meaning a znode may rightly have had.

    Args:
        znodes: whether there is a ZooKeeper that shows them.
    """

    def __init__(self, *, znodes: bool = True) -> None:
        self._znodes = znodes
        self.entries: dict[int, Entry] = {}
        self.legit: dict[str, set[Meaning | None]] = {}
        self._offsets: list[int] = [-1]
        self._points: list[Expected] = [NOTHING]
        self._changes: list[tuple[int, int]] = []
        self._end = 0
        self._draft = Draft(EMPTY)
        self._before: Facts | None = None
        """The facts that an abort returns to, inside a metadata transaction."""
        self._group: list[int] = []
        """First and last offset of what becomes visible next, and whether it changes anything."""

    def fork(self) -> CommittedLog:
        """An independent copy, for a quorum that begins from a copy of the disk."""
        twin = CommittedLog(znodes=self._znodes)
        for name in ("_offsets", "_points", "_changes", "_group"):
            setattr(twin, name, list(getattr(self, name)))
        twin.entries = dict(self.entries)
        twin.legit = {path: set(known) for path, known in self.legit.items()}
        twin._end = self._end  # one class
        twin._before = self._before
        ensure(self._before is None, "simulator", "a ledger inside a transaction is not copied")
        twin._draft = Draft(self.facts)
        return twin

    # ---------------------------------------------------------------- what may be asked
    @property
    def end_offset(self) -> int:
        """First offset that is not committed."""
        return self._end

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open at the end."""
        return self._before is not None

    @property
    def facts(self) -> Facts:
        """The newest that may be shown."""
        return self._points[-1].facts

    @property
    def points(self) -> list[Expected]:
        """Every point the log has passed through, oldest first."""
        return self._points

    def at(self, offset: int) -> Expected:
        """The tree that follows from the records through ``offset``."""
        return self._points[bisect_right(self._offsets, offset) - 1]

    def changed_records(self, after: int, through: int) -> int:
        """Records behind an offset, through another, of groups that change anything."""
        found = 0
        for last_offset, count in reversed(self._changes):
            if last_offset <= after:
                break
            found += count if last_offset <= through else 0
        return found

    # ---------------------------------------------------------------- what is held against it
    def holds(self, batch: Batch) -> bool:
        """Whether the last record of a batch is committed, in the same epoch."""
        entry = self.entries.get(batch.last_offset)
        return entry is not None and entry.epoch == batch.leader_epoch

    def hold_against(self, batch: Batch) -> None:
        """A disk holds a batch whose offsets are committed: with the same records.

        Raises:
            Violated: with others.
        """
        for index, (_, value) in enumerate(batch.records):
            self.served(batch.base_offset + index, batch.leader_epoch, value)

    def served(self, offset: int, epoch: int, value: bytes) -> None:
        """Somebody has this record.

        Raises:
            Violated: another one is committed with its offset.
        """
        entry = self.entries.get(offset)
        same = entry is None or entry == Entry(epoch, value)
        ensure(same, SURVIVES, f"offset {offset} holds another record than was committed")

    def commit(self, batch: Batch) -> None:
        """A batch is committed now, or was.

        Raises:
            Violated: other records were committed with its offsets, or one before it is missing.
        """
        if batch.last_offset < self._end:
            self.hold_against(batch)
        else:
            self._commit(batch)

    # ---------------------------------------------------------------- replay
    def _commit(self, batch: Batch) -> None:
        ensure(
            batch.base_offset == self._end,
            SURVIVES,
            f"offset {batch.base_offset} follows {self._end - 1}",
        )
        for index, (_, value) in enumerate(batch.records):
            self.entries[batch.base_offset + index] = Entry(batch.leader_epoch, value)
        self._end = batch.last_offset + 1
        for offset, (_, value) in enumerate(batch.records, batch.base_offset):
            if batch.is_control:
                self._include(offset, changes=False)
            else:
                self._apply(decode_record(value)[0], offset, batch.base_offset)
        if self._before is None:
            self._close()

    def _apply(self, record: object, offset: int, base_offset: int) -> None:
        match record:
            case r.BeginTransactionRecord():
                if offset > base_offset:
                    self._close()
                self._before = self._draft.facts(offset)
                self._draft = Draft(self._before)
            case r.AbortTransactionRecord():
                assert self._before is not None
                self._draft, self._before = Draft(self._before), None
                self._group = self._group[:2] and [*self._group[:2], 0]
            case r.EndTransactionRecord():
                self._before = None
        self._include(offset, changes=not isinstance(record, (*SILENT, r.AbortTransactionRecord)))
        try:
            self._draft.apply(record)
        except KeyError as error:
            what = f"offset {offset}: {record!r} speaks of what is not there: {error}"
            raise Violated("log-makes-sense", what) from error

    def _include(self, offset: int, *, changes: bool) -> None:
        if not self._group:
            self._group = [offset, offset, 0]
        self._group[1] = offset
        self._group[2] |= changes

    def _close(self) -> None:
        """Make the records that were applied since the last call visible."""
        first, last, changes = self._group
        self._group = []
        before = self._points[-1]
        facts = self._draft.facts(last)
        self._draft = Draft(facts)
        shown = self._znodes and changes
        after = before.then(facts) if shown else Expected(facts, before.parts)
        self._offsets.append(last)
        self._points.append(after)
        if changes:
            self._changes.append((last, last - first + 1))
        if changes and self._znodes:
            for path, means in tree_check.allowed(before, after):
                self.legit.setdefault(path, set()).add(means)
