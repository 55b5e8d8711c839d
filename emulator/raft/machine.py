"""The Raft machine of a node: the metadata log, its single voter, and its observers.

Pure: file contents come in at construction, ``Synced`` and the clock come in as calls, files change
through the returned effects. Records are opaque bytes here, apart from the check that they can be
read back. Source: KafkaRaftClient and KafkaMetadataLog, Kafka 3.9 (KIP-595, KIP-630, KIP-853).

Order of steps at a start: the new leader epoch is durable (``ReplaceFile``) before the first byte
of that epoch is written or sent; the LeaderChange record opens the epoch; the high watermark stays
unknown until that record is durable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from emulator.net.reply import Reply, Ticket
from emulator.raft import describe_quorum, fetch_snapshot, layout, voting
from emulator.raft.config import RaftConfig
from emulator.raft.errors import AppendRefusedError
from emulator.raft.fetch import Fetches
from emulator.raft.layout import SnapshotId
from emulator.raft.log import LogBatch
from emulator.raft.quorum_state import NONE, ElectionState, QuorumState, parse
from emulator.raft.recovery import leftovers, recover_log
from emulator.raft.replica import Replica, Serving
from emulator.raft.snapshots import (
    CONTROL,
    SnapshotWriter,
    recover_snapshots,
    values_of,
)
from emulator.raft.verify import CheckedRecords, check_sealed, checked, checked_control, read_back
from emulator.seam import Effect, Log, ReplaceFile
from emulator.slices import Slices, whole
from wire import messages as m
from wire import records as r
from wire.batch import Batch, decode_batches, seal_batch
from wire.record_serde import encode_control


class Raft:
    """One voter that is the whole quorum.

    Args:
        config: identity and bounds.
        files: relative path -> content of everything below the node's folder.
        rng: source of election jitter; not used by a quorum of one.
        now_ms: milliseconds since the Unix epoch, never going back; batches carry these times.

    Raises:
        RecoveryError: the files are damaged or belong to another quorum; the node must stop.
    """

    def __init__(
        self,
        config: RaftConfig,
        files: Mapping[str, bytes],
        rng: random.Random,
        now_ms: int,
    ) -> None:
        self.config = config
        self._rng = rng
        self._timestamp_ms = now_ms
        self.appended_bytes = 0
        """Bytes of all batches appended since construction; decides when a snapshot is due."""
        snapshots = recover_snapshots(files)
        log, repairs = recover_log(files, snapshots.ids(), config.segment_bytes)
        quorum = QuorumState(
            config.node_id, set(config.voters), _election(config, files, log.last_epoch)
        )
        self._replica = Replica(config, quorum, log, snapshots)
        self._fetches = Fetches(self._replica)
        self._replies: list[Reply] = []
        self._writer: SnapshotWriter | None = None
        self._opening: list[Effect] = [*leftovers(files), *repairs]
        if files.get(layout.PARTITION_METADATA) != layout.render_partition_metadata():
            self._opening.append(
                ReplaceFile(layout.PARTITION_METADATA, layout.render_partition_metadata())
            )

    # State

    @property
    def leader_epoch(self) -> int:
        """The current epoch; before ``start`` the last one known."""
        return self._replica.quorum.epoch

    @property
    def leader_id(self) -> int:
        """Leader of the current epoch, -1 when unknown."""
        return self._replica.quorum.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and may append."""
        return self._replica.quorum.is_leader

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""
        return self._replica.log.end_offset

    @property
    def log_start_offset(self) -> int:
        """First offset in the log; records below it are in a snapshot."""
        return self._replica.log.start_offset

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at ``offset``; None if the log does not hold it."""
        log = self._replica.log
        return log.epochs.epoch_at(offset) if 0 <= offset < log.end_offset else None

    def digest_at(self, offset: int) -> str:
        """Digest of the batch that holds ``offset``; empty when the log does not hold it."""
        return self._replica.digest_at(offset)

    def keep_from(self, offset: int | None) -> None:
        """Keep the log from ``offset`` on, even if snapshots cover it; None: no such limit."""
        self._replica.keep_from = offset

    def serve(self, serving: Serving, now_ms: int) -> None:
        """Decide what followers may be told; parked fetches are answered by it from now on."""
        if serving is not self._replica.serving:
            self._replica.serving = serving
            self._replies += self._fetches.wake(now_ms)

    @property
    def high_watermark(self) -> int:
        """First offset that is not committed; -1 until this epoch's first record is."""
        return self._replica.high_watermark

    @property
    def epoch_start_offset(self) -> int:
        """Offset of this epoch's LeaderChange record; -1 before ``start``."""
        return self._replica.epoch_start_offset

    @property
    def dirty(self) -> bool:
        """Whether an appended batch is not durable yet."""
        return self._replica.log.dirty

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest finished snapshot."""
        return self._replica.snapshots.latest

    @property
    def snapshot_records(self) -> Iterator[bytes]:
        """Encoded records of the newest snapshot, in order; none when there is no snapshot."""
        latest = self._replica.snapshots.latest
        data = None if latest is None else self._replica.snapshots.data(latest)
        if latest is None or data is None:
            return iter(())
        return values_of(layout.snapshot_path(latest), data)

    @property
    def snapshotting(self) -> bool:
        """Whether a snapshot is being written, a slice per ``tick``."""
        return self._writer is not None

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due; 0 means at once: a snapshot or woken fetches continue in slices."""
        return 0 if self._writer is not None else self._fetches.deadline_ms

    def take_replies(self) -> list[Reply]:
        """Answers that became ready since the last call, in order."""
        replies, self._replies = self._replies, []
        return replies

    def read(self, first: int, last: int) -> Iterator[Batch]:
        """Decoded batches that hold offsets ``first`` to ``last``, both included.

        Whole batches: the first may begin below ``first`` and the last end above ``last``. Control
        batches are among them (``is_control``).
        """
        for batch in self._replica.log.batches(first, last):
            yield from decode_batches(batch.data)

    # Events

    def start(self, now_ms: int) -> list[Effect]:
        """Become candidate in the next epoch, win it with the only vote, append LeaderChange.

        Returns:
            Effects: repairs after a crash, the new ``quorum-state``, then the first group.
        """
        replica = self._replica
        assert not replica.quorum.is_leader, "started once"
        replica.quorum.to_candidate()
        replica.quorum.to_leader()
        replica.epoch_start_offset = replica.log.end_offset
        voters = [r.LeaderChangeMessage.Voter(voter_id=each) for each in sorted(self.config.voters)]
        message = r.LeaderChangeMessage(
            version=0, leader_id=self.config.node_id, voters=voters, granting_voters=voters
        )
        self._append(checked_control(encode_control(message)), CONTROL, now_ms)
        fields: dict[str, object] = {
            "epoch": self.leader_epoch,
            "epoch_start_offset": replica.epoch_start_offset,
            "log_start_offset": replica.log.start_offset,
        }
        effects: list[Effect] = [
            *self._opening,
            ReplaceFile(layout.QUORUM_STATE, replica.quorum.render()),
            replica.epochs_file(),
            *replica.log.flush(),
            Log("info", "leader of the metadata log", fields),
        ]
        self._opening = []
        return effects

    def prepared(self, values: Sequence[bytes]) -> Slices[CheckedRecords]:
        """Make of encoded records what :meth:`append` takes; the log stays as it is.

        Raises:
            AppendRefusedError: there are none, or one cannot be decoded.
        """
        return checked(values)

    def append(self, records: Sequence[bytes] | CheckedRecords, now_ms: int) -> int:
        """Append encoded records as one batch, atomic for every reader; nothing is written yet.

        Args:
            records: at least one; or what :meth:`prepared` made of them.
            now_ms: the batch's timestamp.

        Returns:
            Offset of the first of them.

        Raises:
            AppendRefusedError: the batch is too large or cannot be decoded; the log is unchanged.
        """
        assert self.is_leader, "only a leader appends"
        if not isinstance(records, CheckedRecords):
            records = whole(self.prepared(records))
        return self._append(records, 0, now_ms)

    def flush(self, now_ms: int) -> list[Effect]:
        """Write and sync everything appended since the last group, unless a sync is running.

        Args:
            now_ms: milliseconds since the Unix epoch.
        """
        self._timestamp_ms = max(self._timestamp_ms, now_ms)
        return self._replica.log.flush()

    def synced(self, token: int, now_ms: int) -> list[Effect]:
        """A group is durable: move the high watermark, answer parked fetches, write the next."""
        before = self.high_watermark
        self._replica.log.synced(token)
        if self.high_watermark != before:
            self._replies += self._fetches.wake(now_ms)
        return [*self.flush(now_ms), *self._closing()]

    def tick(self, now_ms: int) -> list[Effect]:
        """Answer fetches whose time is up; write the next slice of a snapshot."""
        self._replies += self._fetches.tick(now_ms)
        return self._slice()

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Refuse fetches from now on (BROKER_NOT_AVAILABLE), also parked ones; flush the log.

        When all of it is durable, ``recovery-point`` is written: damage after the stop can then be
        distinguished from a torn end, and the next start need not rewrite the end.
        """
        self._replica.shutting_down = True
        self._replies += self._fetches.wake(now_ms)
        return [*self.flush(now_ms), *self._closing()]

    # Requests

    def fetch(self, request: m.FetchRequest, version: int, now_ms: int, ticket: Ticket) -> None:
        """Fetch (1): the reply is ready at once, or when something new is durable, or in 500 ms."""
        reply = self._fetches.handle(ticket, request, version, now_ms)
        if reply is not None:
            self._replies.append(reply)

    def fetch_snapshot(self, request: m.FetchSnapshotRequest, version: int, ticket: Ticket) -> None:
        """FetchSnapshot (59)."""
        response = fetch_snapshot.fetch_snapshot(self._replica, request, version)
        self._replies.append(Reply(ticket, response))

    def vote(self, request: m.VoteRequest, version: int, ticket: Ticket) -> None:
        """Vote (52)."""
        self._replies.append(Reply(ticket, voting.vote(self._replica, request, version)))

    def begin_quorum_epoch(
        self, request: m.BeginQuorumEpochRequest, version: int, ticket: Ticket
    ) -> None:
        """BeginQuorumEpoch (53)."""
        response = voting.begin_quorum_epoch(self._replica, request, version)
        self._replies.append(Reply(ticket, response))

    def end_quorum_epoch(
        self, request: m.EndQuorumEpochRequest, version: int, ticket: Ticket
    ) -> None:
        """EndQuorumEpoch (54)."""
        response = voting.end_quorum_epoch(self._replica, request, version)
        self._replies.append(Reply(ticket, response))

    def describe_quorum(
        self, request: m.DescribeQuorumRequest, version: int, now_ms: int, ticket: Ticket
    ) -> None:
        """DescribeQuorum (55)."""
        response = describe_quorum.describe_quorum(self._replica, request, version, now_ms)
        self._replies.append(Reply(ticket, response))

    # Snapshots

    def snapshot(
        self, end_offset: int, epoch: int, records: Iterable[bytes], last_timestamp_ms: int
    ) -> list[Effect]:
        """Begin a snapshot of everything below ``end_offset``; ``tick`` writes the rest in slices.

        Args:
            end_offset: exclusive; committed, on a batch boundary, above the last snapshot's.
            epoch: of the record just below ``end_offset``.
            records: encoded records of the image; read lazily, so the image must be immutable.
            last_timestamp_ms: of the batch that holds the last contained record.

        Raises:
            ValueError: one is being written, or the id does not fit this log.
        """
        if self._writer is not None:
            raise ValueError(f"snapshot {self._writer.id} is being written")
        self._check_snapshot(SnapshotId(end_offset, epoch))
        self._writer = SnapshotWriter(
            SnapshotId(end_offset, epoch), records, last_timestamp_ms, read_back
        )
        return self._slice()

    def _check_snapshot(self, snapshot: SnapshotId) -> None:
        log = self._replica.log
        latest = self._replica.snapshots.latest
        if snapshot.end_offset > self.high_watermark:
            raise ValueError(f"{snapshot} is not committed, {self.high_watermark} is")
        if latest is not None and snapshot.end_offset <= latest.end_offset:
            raise ValueError(f"{snapshot} is not above {latest}")
        if snapshot.end_offset <= log.start_offset or not log.is_boundary(snapshot.end_offset):
            raise ValueError(f"{snapshot} does not end where a batch of the log ends")
        found = log.epochs.epoch_at(snapshot.end_offset - 1)
        if found != snapshot.epoch:
            raise ValueError(f"{snapshot}: the record below that offset is of epoch {found}")

    def _slice(self) -> list[Effect]:
        writer = self._writer
        if writer is None or not writer.step(self.config.snapshot_slice_records):
            return []
        self._writer = None
        replica = self._replica
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

    def _append(self, records: CheckedRecords, attributes: int, now_ms: int) -> int:
        log = self._replica.log
        base_offset, epoch = log.end_offset, self.leader_epoch
        self._timestamp_ms = max(self._timestamp_ms, now_ms)
        head = Batch(base_offset, epoch, attributes, self._timestamp_ms, (), log.next_sequence)
        data = seal_batch(head, records.body, records.count)
        if len(data) > self.config.batch_bytes_max:
            raise AppendRefusedError(
                f"a batch of {len(data)} bytes, at most {self.config.batch_bytes_max} are allowed"
            )
        check_sealed(data, records)
        self.appended_bytes += len(data)
        log.append(LogBatch(base_offset, base_offset + records.count - 1, epoch, data))
        return base_offset

    def _closing(self) -> list[Effect]:
        """Write ``recovery-point`` when an orderly stop has nothing left to sync."""
        replica = self._replica
        if not replica.shutting_down or replica.log.dirty or self.high_watermark < 0:
            return []
        point = layout.render_recovery_point(replica.log.durable_end)
        return [ReplaceFile(layout.RECOVERY_POINT, point)]


def _election(config: RaftConfig, files: Mapping[str, bytes], log_epoch: int) -> ElectionState:
    """The election state in the folder; the log may have a later epoch."""
    data = files.get(layout.QUORUM_STATE)
    found = ElectionState() if data is None else parse(data, set(config.voters))
    if log_epoch > found.epoch:
        return replace(found, epoch=log_epoch, leader_id=NONE, voted_id=NONE)
    return found
