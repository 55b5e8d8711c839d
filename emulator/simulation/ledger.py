"""What the metadata log on one disk has made durable, kept outside the controller.

Written from the bytes that a process hands to its disk, read with ``wire/`` alone, and counted as
committed when the disk has synced them: with one voter that is all it takes. So a record that a
later life lacks or has with other content is noticed, and every earlier state can be looked up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from emulator.raft import layout
from emulator.simulation import tree_check
from emulator.simulation.facts import EMPTY, SILENT, Draft, Facts
from emulator.simulation.tree_check import NOTHING, Expected, Meaning
from emulator.simulation.violation import Violated, ensure
from wire import records as r
from wire.batch import Batch, BatchTruncated, batch_header, decode_batches
from wire.errors import DecodeError
from wire.record_serde import decode_record

SURVIVES = "committed-survives"


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed record."""

    epoch: int
    value: bytes


@dataclass(slots=True)
class _Loose:
    """A batch that is in a file and may be lost with it."""

    batch: Batch
    segment: int
    end: int
    """Where it ends in the file of that segment."""


class Ledger:
    """Committed records, facts by offset, and every meaning a znode may rightly have had."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.legit: dict[str, set[Meaning | None]] = {}
        self._offsets: list[int] = [-1]
        self._points: list[Expected] = [NOTHING]
        self._changes: list[tuple[int, int]] = []
        self._loose: list[_Loose] = []
        self._sizes: dict[int, int] = {}
        self._parts: dict[int, bytes] = {}
        self._end = 0
        self._draft = Draft(EMPTY)
        self._before: Facts | None = None
        """Where an Abort would return to, inside a metadata transaction."""
        self._group: list[int] = []
        """First and last offset of what becomes visible next, and whether it changes anything."""

    def fork(self) -> Ledger:
        """An independent copy of this ledger, for a copy of the disk."""
        twin = Ledger()
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
        """What follows from the records through ``offset``."""
        return self._points[bisect_right(self._offsets, offset) - 1]

    def changed_records(self, after: int, through: int) -> int:
        """Records behind an offset, through another, of groups that change anything."""
        found = 0
        for last_offset, count in reversed(self._changes):
            if last_offset <= after:
                break
            found += count if last_offset <= through else 0
        return found

    # ---------------------------------------------------------------- what a process does
    def begins(self, files: Mapping[str, bytes]) -> None:
        """A process begins on these files: what was committed must be there."""
        self._loose.clear()
        self._parts.clear()
        self._sizes = {}
        covered = 0
        for path in sorted(files):
            base = layout.segment_base(path)
            if base is None:
                snapshot = layout.snapshot_id(path)
                covered = max(covered, 0 if snapshot is None else snapshot.end_offset)
        held = covered
        for path in sorted(files):
            base = layout.segment_base(path)
            if base is None:
                continue
            at, following = 0, base
            for batch, size in sound_batches(files[path]):
                if batch.base_offset != following:
                    # Its offset is not in the checksum, and may be what the disk has lost.
                    break
                following = batch.last_offset + 1
                at += size
                if batch.base_offset <= held:
                    held = max(held, batch.last_offset + 1)
                if batch.last_offset < self._end:
                    self._hold_against(batch)
                else:
                    self._loose.append(_Loose(batch, base, at))
            self._sizes[base] = at
        what = f"the files hold the log up to {held}, {self._end} records were committed"
        ensure(held >= self._end, SURVIVES, what)

    def appended(self, path: str, data: bytes) -> list[Batch]:
        """Bytes go to the end of a file; returns the batches they complete."""
        base = layout.segment_base(path)
        if base is None:
            return []
        data = self._parts.pop(base, b"") + data
        at = self._sizes.get(base, 0)
        batches = []
        for batch, size in sound_batches(data):
            batches.append(batch)
            at += size
            data = data[size:]
            late = batch.base_offset >= self._end
            ensure(late, SURVIVES, f"offset {batch.base_offset} is given away a second time")
            self._loose = [one for one in self._loose if one.batch.last_offset < batch.base_offset]
            self._loose.append(_Loose(batch, base, at))
        self._sizes[base] = at
        if data:
            self._parts[base] = data
        return batches

    def truncated(self, path: str, size: int) -> None:
        """A file is cut."""
        base = layout.segment_base(path)
        if base is None:
            return
        self._sizes[base] = size
        self._parts.pop(base, None)
        self._loose = [one for one in self._loose if one.segment != base or one.end <= size]

    def synced(self, path: str, size: int) -> None:
        """The first ``size`` bytes of a file, and every segment before it, are durable."""
        base = layout.segment_base(path)
        while base is not None and self._loose:
            one = self._loose[0]
            if (one.segment, one.end) > (base, size):
                break
            self._loose.pop(0)
            if one.batch.base_offset >= self._end:
                self._commit(one.batch)

    def fetched(self, offset: int, epoch: int, value: bytes) -> None:
        """An observer was served a record: only what is committed may leave."""
        ensure(offset < self._end, "served-is-committed", f"offset {offset} of {self._end} left")
        entry = self.entries.get(offset)
        same = entry is None or entry == Entry(epoch, value)
        ensure(same, SURVIVES, f"offset {offset} holds another record than was committed")

    def _hold_against(self, batch: Batch) -> None:
        for index, (_, value) in enumerate(batch.records):
            offset = batch.base_offset + index
            entry = self.entries.get(offset)
            same = entry is None or entry == Entry(batch.leader_epoch, value)
            ensure(same, SURVIVES, f"offset {offset} holds another record than was committed")

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
        """What was applied since the last time may be shown."""
        first, last, changes = self._group
        self._group = []
        before = self._points[-1]
        facts = self._draft.facts(last)
        self._draft = Draft(facts)
        after = before.then(facts)
        self._offsets.append(last)
        self._points.append(after)
        if changes:
            self._changes.append((last, last - first + 1))
            for path, means in tree_check.allowed(before, after):
                self.legit.setdefault(path, set()).add(means)


def end_of_log(files: Mapping[str, bytes]) -> int:
    """First offset behind all batches in the segments of a folder."""
    ends = [
        batch.last_offset + 1
        for path, data in files.items()
        if layout.segment_base(path) is not None
        for batch, _ in sound_batches(data)
    ]
    return max(ends, default=0)


def sound_batches(data: bytes) -> Iterator[tuple[Batch, int]]:
    """Batches with their sizes from the beginning of some bytes, as far as they are sound."""
    at = 0
    try:
        while at < len(data):
            size = batch_header(data, at).size
            for batch in decode_batches(data[at : at + size]):
                yield batch, size
            at += size
    except (DecodeError, BatchTruncated):
        return
