"""The state of one replica of the metadata log, for the request handlers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from emulator.raft import layout
from emulator.raft.asking import LogEnd
from emulator.raft.config import OBSERVER_SESSION_MS, RaftConfig
from emulator.raft.layout import RecoveryPoint, SnapshotId
from emulator.raft.log import MetadataLog
from emulator.raft.quorum_state import NONE, QuorumState
from emulator.raft.snapshots import Snapshots
from emulator.seam import Effect, ReplaceFile
from wire.digest import batch_digest
from wire.errors import ErrorCode

RECOVERY_POINT_MS: Final = 5_000
"""How old the file may become while the log grows. Each time costs two fsyncs."""


class RecoveryPointFile:
    """Writes ``recovery-point``: what of the log was durable, and what committed, at that moment.

    With one voter it is written at an orderly stop. With several it is also written every few
    seconds while the log grows: their batches do not show which of them one sync covered (see
    ``recovery``), so without it any damage in the last segment would look like a torn end. There it
    also keeps what is committed over a restart, and the snapshot that is about to replace the log.

    Effects are performed in their order and each replace is durable before the next begins. So the
    file is written before the log is cut, and after it has grown.

    Args:
        log: whose durable end is written.
        found: what the file says; None: there is none.
        alone: whether this node is the only voter.
    """

    def __init__(self, log: MetadataLog, found: RecoveryPoint | None, *, alone: bool) -> None:
        self.committed = 0 if found is None else found.committed
        """What was known to be committed when the file was written last."""
        self._log = log
        self._alone = alone
        self._on_disk = found
        self.due_ms: float = math.inf if alone else 0
        """When the file is old; never with one voter."""

    def renew(self, committed_end: int, now_ms: int) -> list[Effect]:
        """The file is old: write down what is durable, and note when it is old again."""
        self.due_ms = now_ms + RECOVERY_POINT_MS
        return self.write(committed_end)

    def write(self, committed_end: int) -> list[Effect]:
        """Write down what is durable now."""
        return self._write(self._log.durable_end, committed_end)

    def cutting(self, offset: int, committed_end: int) -> list[Effect]:
        """Before the log is cut: from ``offset`` on it may soon be gone."""
        return self._write(min(offset, self._log.durable_end), committed_end)

    def replacing(self, snapshot: SnapshotId, committed_end: int) -> list[Effect]:
        """Before a snapshot is written that replaces the log.

        Once both files are there, nothing of the log is needed any more.
        """
        return self._write(self._log.durable_end, committed_end, snapshot)

    def _write(
        self, durable: int, committed_end: int, replacing: SnapshotId | None = None
    ) -> list[Effect]:
        committed = 0 if self._alone else committed_end
        point = RecoveryPoint(durable, committed, replacing)
        if point == self._on_disk:
            return []
        self._on_disk, self.committed = point, committed
        return [ReplaceFile(layout.RECOVERY_POINT, layout.render_recovery_point(*point))]


# The observers that fetch the metadata log: their log ends and times.

OBSERVERS_MAX: Final = 10_000
"""Observers that are remembered. Requests choose their ids, so there may be any number."""


@dataclass(slots=True)
class Observer:
    """One replica that is not a voter. Timestamps are milliseconds since the Unix epoch.

    ``last_caught_up_ms`` is when its log last reached the end of ours, -1 if never.
    ``sent_high_watermark`` is that of the last answer to it, None before the first.
    """

    replica_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1
    sent_high_watermark: int | None = None


class Observers:
    """Replicas by id and directory; they never count for the high watermark.

    Source: LeaderState.ReplicaState.updateFollowerState, KIP-836, Kafka 3.9.
    """

    def __init__(self) -> None:
        self._observers: OrderedDict[tuple[int, bytes], Observer] = OrderedDict()
        """In the order of their last Fetch."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._observers)

    def of(self, key: tuple[int, bytes]) -> Observer | None:
        """The observer with that id and directory, if it has fetched."""
        return self._observers.get(key)

    def fetched(
        self, key: tuple[int, bytes], offset: int, leader_end_offset: int, now_ms: int
    ) -> Observer:
        """Record a valid fetch: the replica has everything below ``offset``.

        If there are too many, the observer that fetched longest ago is forgotten for it.
        """
        observer = self._observers.pop(key, None)
        if observer is None:
            self._drop(now_ms, OBSERVERS_MAX - 1)
            observer = Observer(*key, offset, now_ms)
        self._observers[key] = observer
        if offset >= leader_end_offset:
            observer.last_caught_up_ms = now_ms
        elif offset >= observer.leader_end_at_fetch > 0:
            # It has reached the end that our log had at its previous fetch: it was caught up then.
            observer.last_caught_up_ms = max(observer.last_caught_up_ms, observer.last_fetch_ms)
        observer.leader_end_at_fetch = leader_end_offset
        observer.log_end_offset = offset
        observer.last_fetch_ms = now_ms
        return observer

    def alive(self, now_ms: int) -> Iterator[Observer]:
        """The observers that fetched in the last 300 s, by id; the others are dropped."""
        self._drop(now_ms, OBSERVERS_MAX)
        for key in sorted(self._observers):
            yield self._observers[key]

    def _drop(self, now_ms: int, most: int) -> None:
        """Forget observers that are gone, and the longest silent ones until ``most`` are left."""
        while self._observers:
            key, oldest = next(iter(self._observers.items()))
            if oldest.last_fetch_ms + OBSERVER_SESSION_MS >= now_ms and len(self) <= most:
                return
            del self._observers[key]


OBSERVERS_BYTES_MAX = 256 * 1024 * 1024
"""Of the answers to all observers, if each gets one: a first copy is news for all of them."""
OBSERVER_BYTES_MIN = 64 * 1024
UNKNOWN = -1
"""An unknown high watermark or offset; the receiver ignores it."""


class Serving(Enum):
    """What observers, which follow this log and are no voters, may read; decided outside Raft."""

    ALL = "all"
    NOTHING = "nothing"
    """No records, and neither leader nor epoch: a follower that adopts a higher epoch from here
    refuses a right leader with a lower one."""


@dataclass(slots=True)
class Replica:
    """Log, snapshots and quorum state of one voter, and the checks its handlers share."""

    config: RaftConfig
    quorum: QuorumState
    log: MetadataLog
    snapshots: Snapshots
    recovery_point: RecoveryPointFile
    observers: Observers = field(default_factory=Observers)
    epoch_start_offset: int = UNKNOWN
    shutting_down: bool = False
    serving: Serving = Serving.ALL
    installing: SnapshotId | None = None
    """The leader's snapshot that is on its way to the disk, and then replaces the log."""
    keep_from: int | None = None
    """The log is kept from this offset on, even if snapshots cover it; None: no such limit."""
    high_watermark: int = UNKNOWN
    """First offset that is not committed, -1 while this is unknown; all below is durable here.

    A leader knows it when a majority has the LeaderChange at its epoch's start: only then is
    everything before it certainly committed. Source: LeaderState.maybeUpdateHighWatermark, Kafka
    3.9.
    """
    committed_end: int = 0
    """Everything below is committed, in whatever epoch this became known."""
    appended_bytes: int = 0
    """Bytes of all batches appended, own ones and the leader's: since the start, and before it
    those that the newest snapshot lacks."""
    outrun: bool = False
    """The leader has named a snapshot and no records since: what is here was committed long ago."""
    _leader_committed: int = UNKNOWN
    """The high watermark that the leader of this epoch sent, as far as our log follows its own."""

    def __post_init__(self) -> None:
        """What a snapshot holds is committed, and what was known to be before the restart."""
        latest = self.snapshots.latest
        below = 0 if latest is None else latest.end_offset
        self.committed_end = max(below, self.recovery_point.committed)
        lacks = self.log.batches(below, self.log.end_offset)
        self.appended_bytes = sum(len(batch.data) for batch in lacks)

    @property
    def log_end(self) -> LogEnd:
        """Epoch of the last record, and the offset of the next."""
        return LogEnd(self.log.last_epoch, self.log.end_offset)

    def begin_epoch(self) -> None:
        """The epoch, or what is known of its leader, is another: nothing is known in it yet."""
        self._leader_committed = UNKNOWN
        if not self.quorum.is_leader:
            self.epoch_start_offset = UNKNOWN
        else:
            self.high_watermark, self.outrun = UNKNOWN, False

    def leader_committed(self, high_watermark: int) -> None:
        """Take the high watermark of the leader that is followed; -1: the leader knows none."""
        self.outrun = False
        self._leader_committed = max(self._leader_committed, high_watermark)
        self.follow_leader()

    def loaded(self, end_offset: int) -> None:
        """A snapshot replaced the log: what it holds is committed; more may be."""
        self._commit(end_offset)

    @property
    def caught_up(self) -> bool:
        """Whether the log here reaches the high watermark that the leader of this epoch sent.

        A leader sends one when a record of its own epoch is committed: then no older committed
        record is missing. A leader itself is caught up from then on.
        """
        if self.quorum.is_leader:
            return self.high_watermark > UNKNOWN
        return not self.outrun and UNKNOWN < self._leader_committed <= self.log.durable_end

    def follow_leader(self) -> bool:
        """Move the high watermark as the leader's and the durable end allow; True if it moved."""
        end_offset = min(self._leader_committed, self.log.durable_end)
        return end_offset > 0 and self._commit(end_offset)

    def lead_to(self, majority_end: int) -> bool:
        """Move it to what a majority has; True if it moved."""
        return majority_end > self.epoch_start_offset and self._commit(majority_end)

    def _commit(self, end_offset: int) -> bool:
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        self.committed_end = max(self.committed_end, end_offset)
        return True

    @property
    def endpoint(self) -> tuple[int, str, int] | None:
        """Id, host and port of the known leader under the listener the quorum uses."""
        leader_id = self.quorum.leader_id
        if leader_id == NONE or leader_id not in self.config.voters:
            return None
        host, port = self.config.voters[leader_id]
        return leader_id, host, port

    def other_voter(self, replica_id: int) -> bool:
        """Whether a replica is one of the other voters."""
        return replica_id != self.config.node_id and replica_id in self.config.voters

    def bytes_max(self, replica_id: int) -> int:
        """Of one answer to a replica: log or snapshot. Observers share, voters do not wait."""
        most = self.config.fetch_bytes_max
        if self.other_voter(replica_id):
            return most
        share = OBSERVERS_BYTES_MAX // max(1, len(self.observers))
        return min(most, max(OBSERVER_BYTES_MIN, share))

    def withholds(self, replica_id: int) -> bool:
        """Whether a replica gets nothing. Voters get all: without them nothing is committed."""
        return self.serving is Serving.NOTHING and not self.other_voter(replica_id)

    def wrong_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request names another cluster; a request without a cluster id is accepted."""
        return cluster_id is not None and cluster_id != self.config.cluster_id

    def validate(self, epoch: int) -> ErrorCode:
        """Whether this node may answer a request for ``epoch`` as its leader.

        Source: KafkaRaftClient.validateLeaderOnlyRequest, Kafka 3.9.
        """
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not self.quorum.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.shutting_down:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return ErrorCode.NONE

    def end_offset(self, epoch: int) -> tuple[int, int]:
        """Largest own epoch not above ``epoch`` and where it ends; both are never negative.

        Source: KafkaMetadataLog.endOffsetForEpoch, Kafka 3.9.
        """
        found, end_offset = self.log.epochs.end_offset(epoch, self.log.end_offset)
        earliest = self.snapshots.earliest
        if earliest is not None and found == epoch and end_offset == earliest.end_offset:
            # Older than every epoch of the log: answer with the oldest snapshot.
            return earliest.epoch, end_offset
        return found, end_offset

    def divergence(self, offset: int, epoch: int) -> SnapshotId | tuple[int, int] | None:
        """Compare a follower that fetches at ``offset`` after ``epoch`` with this log.

        Returns:
            None: its log is a prefix of ours; a snapshot id: it must load that first; an epoch and
                end offset: it must truncate to there and fetch again.

        Source: ReplicatedLog.validateOffsetAndEpoch, KafkaRaftClient.tryCompleteFetchRequest, 3.9.
        """
        latest = self.snapshots.latest
        if offset == 0 and latest is not None:
            # A snapshot is always cheaper than replaying the log from its start.
            return latest
        start = self.log.start_offset
        if offset == 0 and start == 0:
            return None
        earliest = self.snapshots.earliest
        if earliest is not None and latest is not None:
            below = offset < start or epoch < earliest.epoch
            if below or (offset == start and epoch != earliest.epoch):
                return latest
        found, end_offset = self.end_offset(epoch)
        if found != epoch or end_offset < offset:
            assert min(found, end_offset) >= 0, "(-1, -1) would read as not diverging"
            return found, end_offset
        return None

    def digest_at(self, offset: int) -> str:
        """Digest of the batch that holds ``offset``; empty when the log does not hold it."""
        batch = next(self.log.batches(offset, offset), None)
        return "" if batch is None else batch_digest(batch.data)

    def grown(self, now_ms: int) -> list[Effect]:
        """More may be durable: write ``recovery-point`` if it is old, or if this is the end."""
        point = self.recovery_point
        if self.installing is not None:
            return []  # the file says what is about to replace the log
        if self.shutting_down:
            return [] if self.log.dirty else point.write(self.committed_end)
        return [] if now_ms < point.due_ms else point.renew(self.committed_end, now_ms)

    def epochs_file(self) -> ReplaceFile:
        """Write the file with the start offset of each leader epoch."""
        return self.log.epochs_file()

    def keep(self, offset: int | None) -> list[Effect]:
        """Keep the log from ``offset`` on; what only an earlier limit kept goes at once.

        Without a limit it goes with the next snapshot: a node that leads no more may lead again.
        """
        before, self.keep_from = self.keep_from, offset
        return [] if offset is None or offset == before else self.trim()

    def trim(self) -> list[Effect]:
        """Delete old snapshots, and the log below the oldest one left, down to ``keep_from``."""
        ids = self.snapshots.ids()
        for count in range(self.config.snapshots_retained, len(ids) + 1):
            oldest = ids[-count].end_offset
            # After a restart the log begins at the oldest snapshot, which must not be above the
            # limit.
            if self.keep_from is None or oldest <= self.keep_from:
                deleted = self.snapshots.forget_all_but(count)
                segments = self.log.truncate_from_start(oldest)
                return deleted + ([*segments, self.epochs_file()] if segments else [])
        return []
