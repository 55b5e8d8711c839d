"""Writes one snapshot at a time, a slice per step, and then trims the log."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.raft import layout
from emulator.raft.layout import SnapshotId
from emulator.raft.replica import Replica
from emulator.raft.snapshots import SnapshotWriter
from emulator.raft.verify import read_back
from emulator.seam import Effect, Log, ReplaceFile


class Snapshotting:
    """The snapshot that is being written, if any.

    Args:
        replica: gets the snapshot when it is finished.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._writer: SnapshotWriter | None = None

    @property
    def busy(self) -> bool:
        """Whether one is being written."""
        return self._writer is not None

    def begin(
        self, snapshot: SnapshotId, records: Iterable[bytes], last_timestamp_ms: int
    ) -> list[Effect]:
        """Begin; see ``Raft.snapshot``.

        Raises:
            ValueError: one is being written, or the id does not fit this log.
        """
        if self._writer is not None:
            raise ValueError(f"snapshot {self._writer.id} is being written")
        self._check(snapshot)
        self._writer = SnapshotWriter(snapshot, records, last_timestamp_ms, read_back)
        return self.go_on()

    def go_on(self) -> list[Effect]:
        """Write the next slice; when it is the last, keep the snapshot and trim the log."""
        writer, replica = self._writer, self._replica
        if writer is None or not writer.step(replica.config.snapshot_slice_records):
            return []
        self._writer = None
        latest = replica.snapshots.latest
        if latest is not None and latest.end_offset >= writer.id.end_offset:
            # The leader's snapshot was loaded meanwhile, and goes further.
            return []
        data = writer.content()
        replica.snapshots.add(writer.id, data)
        fields: dict[str, object] = {
            "end_offset": writer.id.end_offset,
            "epoch": writer.id.epoch,
            "bytes": len(data),
        }
        effects: list[Effect] = [
            ReplaceFile(layout.snapshot_path(writer.id), data),
            Log("info", "snapshot written", fields),
        ]
        replica.log.roll()
        return effects + replica.trim()

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
