"""When a snapshot of the metadata begins: enough bytes were appended, or enough time has passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulator.config.load import Config
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.snapshot import to_records
from emulator.raft.machine import Raft
from emulator.seam import Effect, FileNotWritten, FileWritten
from wire.record_serde import encode_record

RETRY_MS: Final = 60_000
"""Pause after a snapshot that could not be written; it doubles up to ``RETRY_MS_MAX``."""
RETRY_MS_MAX: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class SnapshotFailure:
    """The newest snapshot that could not be written, and none was since. Times are in ms."""

    why: str
    at_ms: int
    again_ms: int
    """When the next one begins at the earliest."""
    times: int
    """How many failed, one after the other."""


class SnapshotSchedule:
    """Counts what the newest snapshot lacks, also what an earlier process has appended of it.

    Otherwise a node that is restarted more often than snapshots are due would never begin one, and
    its log would only grow. The Raft machine writes what was begun in slices. One that cannot be
    written, as on a disk with room for records only, is tried again: a node that ended would end
    again soon after each start.

    Source: SnapshotGenerator, Kafka 3.9, which counts from the start of the process; KIP-630,
    KIP-876. There a failure is told and counted, too, and the node goes on.
    """

    def __init__(self, config: Config, raft: Raft, history: History, now_ms: int) -> None:
        self._bytes_between = config.snapshot_bytes_between
        self._interval_ms = config.snapshot_interval_ms
        self._raft = raft
        self._history = history
        self._alone = len(config.voters) == 1
        self._bytes = 0
        self.failure: SnapshotFailure | None = None
        self.failures = 0
        """How many could not be written in the life of this process."""
        self._due_ms = _lacks_since_ms(raft, now_ms) + config.snapshot_interval_ms

    def begin_if_due(self, now_ms: int) -> list[Effect]:
        """Begin one of what is stable, if that ends where a batch does; else wait until it does."""
        raft = self._raft
        old = self._interval_ms > 0 and now_ms >= self._due_ms
        due = raft.appended_bytes - self._bytes >= self._bytes_between or old
        if self.failure is not None:
            due = now_ms >= self.failure.again_ms
        image = self._history.stable
        latest = raft.latest_snapshot
        covered = latest.end_offset if latest is not None else 0
        if not due or raft.snapshotting or image.offset < covered or self._unconfirmed(image):
            return []
        last = next(raft.read(image.offset, image.offset), None)
        if last is None or last.last_offset != image.offset:
            return []
        self._bytes = raft.appended_bytes
        self._due_ms = now_ms + self._interval_ms
        values = (encode_record(record, version) for record, version in to_records(image))
        return raft.snapshot(image.offset + 1, image.epoch, values, last.base_timestamp)

    def ended(self, event: FileWritten | FileNotWritten, now_ms: int) -> list[Effect]:
        """The one that was begun, or the leader's, is durable; or ours could not be written."""
        if isinstance(event, FileWritten):
            own = self._raft.writes(event.path)
            effects = self._raft.written(event.path, now_ms)
            if own:
                self.failure = None
                self._history.trimmed(self._raft.log_start_offset)
            return effects
        self._failed(event.why, now_ms)
        return self._raft.snapshot_failed(event.why)

    def _failed(self, why: str, now_ms: int) -> None:
        times = 1 if self.failure is None else self.failure.times + 1
        pause_ms = min(RETRY_MS << min(times - 1, 10), RETRY_MS_MAX)
        self.failure = SnapshotFailure(why, now_ms, now_ms + pause_ms, times)
        self.failures += 1

    def _unconfirmed(self, image: Image) -> bool:
        """Whether ZooKeeper may follow another log than that of the leader of several voters.

        A leader that it has not confirmed appends its activation alone. The log of restored folders
        would grow by that beyond the place that ZooKeeper names, and if it were trimmed to behind
        it, nothing could be compared there any more (``continuity``).
        """
        if self._alone or image.migration_state is not MigrationState.MIGRATION:
            return False
        return self._raft.epoch_at(self._history.confirmed_leader) != image.epoch


def _lacks_since_ms(raft: Raft, now_ms: int) -> int:
    """When the first record was appended that the newest snapshot lacks; now, if there is none."""
    latest = raft.latest_snapshot
    first = 0 if latest is None else latest.end_offset
    batch = next(raft.read(first, first), None)
    # Another machine's clock wrote it, which may be ahead.
    return now_ms if batch is None else min(batch.base_timestamp, now_ms)
