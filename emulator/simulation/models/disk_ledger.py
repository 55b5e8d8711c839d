"""What is in the log on one disk, kept outside the controller.

Written from the bytes that a process hands to its disk, read with ``wire/`` alone, and durable when
the disk has synced them. ``Voters`` derives from that what the quorum has committed; a quorum of
one has committed what is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from emulator.raft import layout
from emulator.raft.layout import SnapshotId
from emulator.simulation.committed import SURVIVES, CommittedLog
from emulator.simulation.models.voters import Voters
from emulator.simulation.violation import ensure
from wire.batch import Batch, BatchTruncated, batch_header, decode_batches
from wire.errors import DecodeError


@dataclass(slots=True)
class _Written:
    """A batch that is in a file."""

    batch: Batch
    segment: int
    end: int
    """Where it ends in the file of that segment."""


class DiskLedger:
    """See the module's docstring.

    Args:
        committed: the log of the quorum of which this disk is a part.
        voters: of a quorum of several; None: this disk is the only one.
        node_id: whose disk it is.
    """

    def __init__(
        self, committed: CommittedLog, voters: Voters | None = None, node_id: int = -1
    ) -> None:
        self.committed = committed
        self._voters = voters
        self._node_id = node_id
        self._written: list[_Written] = []
        self._durable = 0
        """How many of them are durable."""
        self._sizes: dict[int, int] = {}
        self._parts: dict[int, bytes] = {}
        self._snapshots: set[SnapshotId] = set()
        self.epoch = 0
        """The epoch in ``quorum-state``, in a quorum of several."""
        self._another = True
        """What begins next finds a folder of which nothing is known."""

    def fork(self) -> DiskLedger:
        """The ledger of a copy of the disk, which goes its own way from now on."""
        return DiskLedger(self.committed.fork())

    # ---------------------------------------------------------------- what may be asked
    @property
    def held_end(self) -> int:
        """First committed offset that would be missing if the machine went down now."""
        return self._held(self._durable)

    def _held(self, count: int) -> int:
        """The same if only so many of the batches are left."""
        covered = max((one.end_offset for one in self._snapshots), default=0)
        for at in reversed(range(count)):
            if self.committed.holds(self._written[at].batch):
                return max(covered, self._written[at].batch.last_offset + 1)
        return covered

    # ---------------------------------------------------------------- what a process does
    def begins(self, files: Mapping[str, bytes]) -> None:
        """A process begins on these files: what was committed must be there.

        Raises:
            Violated: it is not, or the files hold something else.
        """
        before = 0 if self._another or self._voters is None else self.held_end
        known_end = self._durable_end
        self._read(files)
        if self._voters is None:
            held = self._followed_to()
            what = f"the files hold the log up to {held}, {self._end} records were committed"
            ensure(held >= self._end, SURVIVES, what)
            known_end = self._end
        elif self._another:
            known_end = self._written[-1].batch.last_offset + 1 if self._written else 0
        self._durable = sum(one.batch.last_offset < known_end for one in self._written)
        if self._voters is not None:
            self._state(files.get(layout.QUORUM_STATE))
            self._keeps(before, "after the start of a process")
            for at in range(len(self._written)):
                self._wrote(at)
            self._acknowledge()
        self._another = False

    def is_another(self) -> None:
        """The folder is lost, or another one has taken its place: nothing is promised of it."""
        self._another = True
        if self._voters is not None:
            self._voters.forget(self._node_id)
            self.epoch = 0

    def appended(self, path: str, data: bytes) -> None:
        """Bytes go to the end of a file."""
        base = layout.segment_base(path)
        if base is None:
            return
        data = self._parts.pop(base, b"") + data
        at = self._sizes.get(base, 0)
        for batch, size in self._sound(data):
            at += size
            data = data[size:]
            if self._voters is None:
                late = batch.base_offset >= self._end
                ensure(late, SURVIVES, f"offset {batch.base_offset} is given away a second time")
            self._drop(lambda one, first=batch.base_offset: one.batch.last_offset >= first)  # type: ignore[misc]  # a default binds the value of this turn
            self._written.append(_Written(batch, base, at))
            self._wrote(len(self._written) - 1)
        self._sizes[base] = at
        if data:
            self._parts[base] = data

    def truncated(self, path: str, size: int) -> None:
        """A file is cut."""
        base = layout.segment_base(path)
        if base is None:
            return
        before = 0 if self._voters is None else self.held_end
        self._sizes[base] = size
        self._parts.pop(base, None)
        self._drop(lambda one: one.segment == base and one.end > size)
        self._keeps(before, f"when {path} was cut")

    def deleted(self, path: str) -> None:
        """A file is unlinked."""
        if self._voters is None:
            return
        before = self.held_end
        snapshot = layout.snapshot_id(path)
        if snapshot is not None:
            self._snapshots.discard(snapshot)
        base = layout.segment_base(path)
        if base is not None:
            self._sizes.pop(base, None)
            self._parts.pop(base, None)
            self._drop(lambda one: one.segment == base)
        self._keeps(before, f"when {path} was deleted")

    def replaced(self, path: str, data: bytes) -> None:
        """A file has another content, durable at once."""
        if self._voters is None:
            return
        snapshot, base = layout.snapshot_id(path), layout.segment_base(path)
        if snapshot is not None:
            self._voters.wrote_snapshot(self._node_id, snapshot)
            self._snapshots.add(snapshot)
        elif base is not None:
            before = self.held_end
            self._drop(lambda one: one.segment == base)
            self._read_segment(base, data)
            self._durable = len(self._written)
            self._keeps(before, f"when {path} was written anew")
            self._acknowledge()
        elif path == layout.QUORUM_STATE:
            self._state(data)
            self._acknowledge()

    def synced(self, path: str, size: int) -> None:
        """The first ``size`` bytes of a file, and every segment before it, are durable."""
        base = layout.segment_base(path)
        if base is None:
            return
        while self._durable < len(self._written):
            one = self._written[self._durable]
            if (one.segment, one.end) > (base, size):
                break
            self._durable += 1
            if self._voters is None and one.batch.base_offset >= self._end:
                self.committed.commit(one.batch)
        self._acknowledge()

    # ---------------------------------------------------------------- inside
    @property
    def _end(self) -> int:
        return self.committed.end_offset

    @property
    def _durable_end(self) -> int:
        return self._written[self._durable - 1].batch.last_offset + 1 if self._durable else 0

    def _keeps(self, before: int, when: str) -> None:
        """The disk has not lost any committed record that it had."""
        if self._voters is not None:
            what = f"node {self._node_id} held the log up to {before}, and holds {self.held_end}"
            ensure(self.held_end >= before, SURVIVES, f"{what} {when}")

    def _drop(self, gone: Callable[[_Written], bool]) -> None:
        """Take batches away that are gone: all at one end, or all at the other."""
        while self._written and gone(self._written[-1]):
            self._written.pop()
        self._durable = min(self._durable, len(self._written))
        if self._written and gone(self._written[0]):
            self._durable -= sum(map(gone, self._written[: self._durable]))
            self._written = [one for one in self._written if not gone(one)]

    def _read(self, files: Mapping[str, bytes]) -> None:
        self._written.clear()
        self._durable = 0
        self._parts.clear()
        self._sizes.clear()
        found = map(layout.snapshot_id, files)
        self._snapshots = {one for one in found if one is not None}
        bases = sorted(base for path in files if (base := layout.segment_base(path)) is not None)
        for base in bases:
            self._read_segment(base, files[layout.segment_path(base)])

    def _read_segment(self, base: int, data: bytes) -> None:
        at, following = 0, base
        for batch, size in self._sound(data):
            if batch.base_offset != following:
                # Its offset is not in the checksum, and may be what the disk has lost.
                break
            following = batch.last_offset + 1
            at += size
            if self._voters is None:
                self.committed.hold_against(batch)
            self._written.append(_Written(batch, base, at))
        self._sizes[base] = at

    def _followed_to(self) -> int:
        """How far snapshots and segments follow each other."""
        held = max((one.end_offset for one in self._snapshots), default=0)
        for one in self._written:
            if one.batch.base_offset <= held:
                held = max(held, one.batch.last_offset + 1)
        return held

    def _sound(self, data: bytes) -> Iterable[tuple[Batch, int]]:
        return sound_batches(data) if self._voters is None else self._voters.sound(data)

    def _wrote(self, at: int) -> None:
        """Report a batch to the voters, with the epoch of the record before it."""
        if self._voters is None:
            return
        batch = self._written[at].batch
        if at:
            before = self._written[at - 1].batch
            ensure(
                before.last_offset + 1 == batch.base_offset,
                "log-matches",
                f"node {self._node_id} wrote {batch.base_offset} behind {before.last_offset}",
            )
            epoch: int | None = before.leader_epoch
        else:
            ends = {one.end_offset: one.epoch for one in self._snapshots}
            epoch = ends.get(batch.base_offset, 0 if batch.base_offset == 0 else None)
        self._voters.wrote(self._node_id, batch, epoch, held=self._held(at + 1))

    def _state(self, data: bytes | None) -> None:
        """Take the content of ``quorum-state``."""
        assert self._voters is not None
        if data is not None:
            before, self.epoch = self.epoch, self._voters.take_state(self._node_id, data)
            what = f"node {self._node_id} is in epoch {self.epoch} after epoch {before}"
            ensure(self.epoch >= before, "one-vote", what)

    def _acknowledge(self) -> None:
        """Report the end of what is durable, if its last batch is of the voter's own epoch."""
        if self._voters is None or not self._durable:
            return
        newest = self._written[self._durable - 1].batch
        if newest.leader_epoch == self.epoch:
            newest_first = (self._written[at].batch for at in reversed(range(self._durable)))
            self._voters.acknowledged(
                self._node_id, self.epoch, newest.last_offset + 1, newest_first
            )


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
