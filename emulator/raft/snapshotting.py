"""Writes one snapshot at a time: encoded a slice per step, then written outside the event loop.

When the file is durable, and not before, the snapshot counts and the log is trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.raft import layout
from emulator.raft.layout import SnapshotId
from emulator.raft.replica import Replica
from emulator.raft.snapshots import SnapshotWriter
from emulator.raft.verify import read_back
from emulator.seam import DeleteFile, Effect, Log, WriteFile


class Snapshotting:
    """The snapshot that is being written, if any.

    Args:
        replica: gets the snapshot when it is finished.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._writer: SnapshotWriter | None = None
        self._encoded: tuple[SnapshotId, bytes] | None = None
        """What is on its way to the disk."""

    @property
    def busy(self) -> bool:
        """Whether one is being encoded or written."""
        return self.encoding or self._encoded is not None

    def writes(self, path: str) -> bool:
        """Whether one is on its way to that file."""
        return self._encoded is not None and layout.snapshot_path(self._encoded[0]) == path

    @property
    def encoding(self) -> bool:
        """Whether :meth:`go_on` has work."""
        return self._writer is not None

    def begin(
        self, snapshot: SnapshotId, records: Iterable[bytes], last_timestamp_ms: int
    ) -> list[Effect]:
        """Begin; see ``Raft.snapshot``.

        Raises:
            ValueError: one is being written, or the id does not fit this log.
        """
        if self.busy:
            raise ValueError("another snapshot is being written")
        self._check(snapshot)
        self._writer = SnapshotWriter(snapshot, records, last_timestamp_ms, read_back)
        return self.go_on()

    def go_on(self) -> list[Effect]:
        """Encode the next slice; when it is the last, hand the snapshot to the disk."""
        writer, replica = self._writer, self._replica
        if writer is None or not writer.step(replica.config.snapshot_slice_records):
            return []
        self._writer = None
        if self._overtaken(writer.id):
            return []
        data = writer.content()
        self._encoded = writer.id, data
        replica.log.roll()
        return [WriteFile(layout.snapshot_path(writer.id), data)]

    def written(self) -> list[Effect]:
        """The file is durable: keep the snapshot and trim the log."""
        assert self._encoded is not None, "a snapshot was handed to the disk"
        (snapshot, data), self._encoded = self._encoded, None
        replica = self._replica
        if self._overtaken(snapshot):
            here = replica.snapshots.data(snapshot) is not None
            kept = here or snapshot == replica.installing
            return [] if kept else [DeleteFile(layout.snapshot_path(snapshot))]
        replica.snapshots.add(snapshot, data)
        fields: dict[str, object] = {
            "end_offset": snapshot.end_offset,
            "epoch": snapshot.epoch,
            "bytes": len(data),
        }
        return [Log("info", "snapshot written", fields), *replica.trim()]

    def failed(self, why: str) -> list[Effect]:
        """The file could not be written: nothing is trimmed, and what is left of it goes."""
        assert self._encoded is not None, "a snapshot was handed to the disk"
        (snapshot, data), self._encoded = self._encoded, None
        fields: dict[str, object] = {
            "end_offset": snapshot.end_offset,
            "epoch": snapshot.epoch,
            "bytes": len(data),
            "why": why,
        }
        line = Log(
            "warning", "snapshot not written: the log is kept, and it is tried again", fields
        )
        replica = self._replica
        if replica.snapshots.data(snapshot) is not None or snapshot == replica.installing:
            return [line]  # the leader's, loaded meanwhile
        return [line, DeleteFile(layout.snapshot_path(snapshot))]

    def _overtaken(self, snapshot: SnapshotId) -> bool:
        """Whether the leader's snapshot was loaded meanwhile, and goes as far or further."""
        known = (self._replica.snapshots.latest, self._replica.installing)
        return any(one is not None and one.end_offset >= snapshot.end_offset for one in known)

    def _check(self, snapshot: SnapshotId) -> None:
        replica = self._replica
        log, latest = replica.log, replica.snapshots.latest
        if snapshot.end_offset > replica.committed_end:
            raise ValueError(f"{snapshot} is not committed, {replica.committed_end} is")
        if latest is not None and snapshot.end_offset <= latest.end_offset:
            raise ValueError(f"{snapshot} is not above {latest}")
        if snapshot.end_offset <= log.start_offset or not log.is_boundary(snapshot.end_offset):
            raise ValueError(f"{snapshot} does not end where a batch of the log ends")
        found = log.epochs.epoch_at(snapshot.end_offset - 1)
        if found != snapshot.epoch:
            raise ValueError(f"{snapshot}: the record below that offset is of epoch {found}")
