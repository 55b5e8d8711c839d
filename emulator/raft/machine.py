"""The Raft machine of a node: the metadata log, its voters, and its observers.

Pure: file contents come in at construction, ``Synced`` and the clock come in as calls, files change
through the returned effects. Records are opaque bytes here, apart from the check that they can be
read back. Source: KafkaRaftClient and KafkaMetadataLog, Kafka 3.9 (KIP-595, KIP-630, KIP-853).

Order of steps in an election: the new leader epoch is durable (``ReplaceFile``) before the first
byte of that epoch is written or sent; the LeaderChange record opens the epoch; the high watermark
stays unknown until a majority has that record. A quorum of one elects itself at the start.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from emulator.raft import layout
from emulator.raft.answering import Answering
from emulator.raft.asking import Ask
from emulator.raft.config import RaftConfig
from emulator.raft.election import YIELDS, VoterProgress
from emulator.raft.layout import AppendRefusedError, RecoveryError, SnapshotId
from emulator.raft.log import (
    CheckedRecords,
    LogBatch,
    check_sealed,
    checked,
    checked_control,
    read_back,
)
from emulator.raft.member import Member, refuse_contradicted
from emulator.raft.quorum_state import NONE, ElectionState, Held, QuorumState, VoterState, parse
from emulator.raft.recovery import leftovers, recover_log
from emulator.raft.replica import UNKNOWN, RecoveryPointFile, Replica, Serving
from emulator.raft.snapshots import CONTROL, Packed, SnapshotWriter, recover_snapshots, values_of
from emulator.seam import (
    DeleteFile,
    Effect,
    Log,
    ReplaceFile,
    Slices,
    Ticket,
    WriteFile,
    earlier,
    whole,
)
from wire import records as r
from wire.batch import Batch, decode_batches, seal_batch
from wire.record_serde import encode_control

# Writes one snapshot at a time: encoded a slice per step, then written outside the event loop.
#
# When the file is durable, and not before, the snapshot counts and the log is trimmed.


class Snapshotting:
    """The snapshot that is being written, if any.

    Args:
        replica: gets the snapshot when it is finished.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._writer: SnapshotWriter | None = None
        self.encoding = False
        """Whether :meth:`go_on` has work."""
        self._encoded: tuple[SnapshotId, Packed] | None = None
        """What is on its way to the disk."""

    @property
    def busy(self) -> bool:
        """Whether one is being encoded or written."""
        return self.encoding or self._encoded is not None

    def writes(self, path: str) -> bool:
        """Whether one is on its way to that file."""
        return self._encoded is not None and layout.snapshot_path(self._encoded[0]) == path

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
        self.encoding = True
        return self.go_on()

    def go_on(self) -> list[Effect]:
        """Encode the next slice; when it is the last, hand the snapshot to the disk."""
        writer, replica = self._writer, self._replica
        if writer is None or not writer.step(replica.config.snapshot_slice_records):
            return []
        self._writer, self.encoding = None, False
        if self._overtaken(writer.id):
            return []
        self._encoded = writer.id, writer.packed
        replica.log.roll()
        return [WriteFile(layout.snapshot_path(writer.id), writer.content())]

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
            "bytes": data.size,
        }
        return [Log("info", "snapshot written", fields), *replica.trim()]

    def failed(self, why: str) -> list[Effect]:
        """The file could not be written: nothing is trimmed, and what is left of it goes."""
        assert self._encoded is not None, "a snapshot was handed to the disk"
        (snapshot, data), self._encoded = self._encoded, None
        fields: dict[str, object] = {
            "end_offset": snapshot.end_offset,
            "epoch": snapshot.epoch,
            "bytes": data.size,
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


# What to do about a damaged folder of one of several voters, which has acknowledged what it held.
#
# The only voter may start without records, or without the file that names its vote: no other voter
# has them. One of several voters that did so could vote twice in one epoch, or elect a leader
# without what is committed. The others have everything, so it gets the log from them, and votes
# for no voter before (``quorum_state.py``).

OF_SEVERAL: Final = (
    "nothing was changed. While the other voters have a leader, move the folder "
    f"{layout.FOLDER} of this one away and start it: it loads the log of the leader, and votes for "
    "nobody before. Do so with one voter at a time"
)


@contextmanager
def remedies(voters: int) -> Iterator[None]:
    """Name the remedy that fits the number of voters.

    Raises:
        RecoveryError: as raised within; of several voters with that remedy.
    """
    try:
        yield
    except RecoveryError as error:
        if voters == 1 or not error.remedy:
            raise
        raise RecoveryError(error.path, error.position, error.found, OF_SEVERAL) from error


# The batches that this node appends as the leader: encoded, checked, stamped.


class LeaderAppender:
    """Appends to the log of one replica; nothing is written before its next flush.

    Args:
        replica: the log, the epoch and the bounds.
        now_ms: milliseconds since the Unix epoch; the times of batches never go back.
    """

    def __init__(self, replica: Replica, now_ms: int) -> None:
        self._replica = replica
        self._timestamp_ms = now_ms

    def at(self, now_ms: int) -> int:
        """The time of a batch that is appended now."""
        self._timestamp_ms = max(self._timestamp_ms, now_ms)
        return self._timestamp_ms

    def append(self, records: CheckedRecords, attributes: int, now_ms: int) -> int:
        """Append one batch; returns its base offset.

        Raises:
            AppendRefusedError: see ``Raft.append``.
        """
        replica = self._replica
        log, epoch = replica.log, replica.quorum.epoch
        base_offset, stamp = log.end_offset, self.at(now_ms)
        head = Batch(base_offset, epoch, attributes, stamp, (), log.next_sequence)
        data = seal_batch(head, records.body, records.count)
        bytes_max = replica.config.batch_bytes_max
        if len(data) > bytes_max:
            raise AppendRefusedError(
                f"a batch of {len(data)} bytes, at most {bytes_max} are allowed"
            )
        check_sealed(data, records)
        replica.appended_bytes += len(data)
        log.append(LogBatch(base_offset, base_offset + records.count - 1, epoch, data))
        return base_offset

    def leader_change(self, granting: Iterable[int], now_ms: int) -> int:
        """Append the record that opens an epoch; returns its offset."""
        config = self._replica.config
        kind = r.LeaderChangeMessage
        message = kind(
            version=0,
            leader_id=config.node_id,
            voters=[kind.Voter(voter_id=each) for each in sorted(config.voters)],
            granting_voters=[kind.Voter(voter_id=each) for each in sorted(granting)],
        )
        return self.append(checked_control(encode_control(message)), CONTROL, now_ms)


class Raft:
    """One voter of a quorum, or the whole of it.

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
        refuse_contradicted(files)
        self.config = config
        self._rng = rng
        alone, size = len(config.voters) == 1, config.segment_bytes
        with remedies(len(config.voters)):
            snapshots = recover_snapshots(files)
            log, repairs, point = recover_log(files, snapshots.ids(), size, alone=alone)
            election = _election(config, files, log.last_epoch)
        quorum = QuorumState(config.node_id, set(config.voters), election)
        recovery_point = RecoveryPointFile(log, point, alone=alone)
        self.replica = Replica(config, quorum, log, snapshots, recovery_point)
        """To be read only."""
        self._appender = LeaderAppender(self.replica, now_ms)
        self._member = Member(self.replica, rng, files.get(layout.VOTER_STATE))
        self._answering = Answering(self._member)
        self._snapshotting = Snapshotting(self.replica)
        self.effects: list[Effect] = []
        """What :meth:`take_effects` will return."""
        self.replies = self._answering.ready
        """To be looked at only: the answers to :meth:`take_replies`."""
        self.take_replies = self._answering.take
        """Returns the answers that became ready since the last call, in order."""
        self._opening: list[Effect] = [*leftovers(files), *repairs]
        if files.get(layout.PARTITION_METADATA) != layout.render_partition_metadata():
            self._opening.append(
                ReplaceFile(layout.PARTITION_METADATA, layout.render_partition_metadata())
            )

    # State

    @property
    def leader_epoch(self) -> int:
        """The current epoch; before ``start`` the last one known."""
        return self.replica.quorum.epoch

    @property
    def leader_id(self) -> int:
        """Leader of the current epoch, -1 when unknown."""
        return self.replica.quorum.leader_id

    @property
    def leaderless_since_ms(self) -> int | None:
        """Since when this node knows no leader; None while it knows one."""
        return self._member.election.leaderless_since_ms

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and may append."""
        return self.replica.quorum.is_leader

    @property
    def voter_state(self) -> VoterState:
        """Leader, follower, candidate, ..."""
        return self.replica.quorum.state

    @property
    def held(self) -> Held:
        """Whether this voter still has all that it acknowledged."""
        return self._member.election.held

    @property
    def progress(self) -> Mapping[int, VoterProgress]:
        """How far the other voters are, as this leader knows; of no meaning at a follower."""
        return self._member.election.progress.voters

    @property
    def caught_up(self) -> bool:
        """Whether the log here reaches the newest high watermark of the leader of this epoch."""
        return self.replica.caught_up

    @property
    def caught_up_ms(self) -> int | None:
        """When this follower last reached the high watermark of its leader; None: never yet."""
        return self._member.following.caught_up_ms

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""
        return self.replica.log.end_offset

    @property
    def log_start_offset(self) -> int:
        """First offset in the log; records below it are in a snapshot."""
        return self.replica.log.start_offset

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at ``offset``; None if the log does not hold it."""
        log = self.replica.log
        return log.epochs.epoch_at(offset) if 0 <= offset < log.end_offset else None

    def digest_at(self, offset: int) -> str:
        """Digest of the batch that holds ``offset``; empty when the log does not hold it."""
        return self.replica.digest_at(offset)

    def serve(self, serving: Serving, now_ms: int) -> None:
        """Decide what observers may read; parked fetches are answered by it from now on."""
        if serving is not self.replica.serving:
            self.replica.serving = serving
            self._answering.wake(now_ms)

    def yield_to_others(self, yields: bool) -> None:
        """Whether other voters become candidates first when a leader has resigned."""
        times = self.config.times
        self._member.election.yielded_ms = YIELDS * times.election_ms if yields else 0

    @property
    def high_watermark(self) -> int:
        """First offset that is not committed; -1 until this epoch's first record is."""
        return self.replica.high_watermark

    @property
    def appended_bytes(self) -> int:
        """Bytes of all batches that no snapshot held at construction, and appended since then."""
        return self.replica.appended_bytes

    @property
    def rewritten(self) -> int:
        """How often appended records were dropped, or replaced by a snapshot, as a follower."""
        return self._member.following.rewritten

    @property
    def committed_end(self) -> int:
        """Everything below is known to be committed, whatever the epoch; it never falls."""
        return self.replica.committed_end

    @property
    def epoch_start_offset(self) -> int:
        """Offset of this epoch's LeaderChange record; -1 before ``start``."""
        return self.replica.epoch_start_offset

    @property
    def dirty(self) -> bool:
        """Whether an appended batch is not durable yet."""
        return self.replica.log.dirty

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest finished snapshot."""
        return self.replica.snapshots.latest

    @property
    def snapshot_records(self) -> Iterator[bytes]:
        """Encoded records of the newest snapshot, in order; none when there is no snapshot."""
        latest = self.replica.snapshots.latest
        data = None if latest is None else self.replica.snapshots.data(latest)
        if latest is None or data is None:
            return iter(())
        return values_of(layout.snapshot_path(latest), data.read(0, data.size))

    @property
    def snapshotting(self) -> bool:
        """Whether a snapshot is being encoded, a slice per ``tick``, or written."""
        return self._snapshotting.busy or self.replica.installing is not None

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due; 0 means at once: a snapshot or woken fetches continue in slices."""
        if self.effects or self._snapshotting.encoding:
            return 0
        waiting_ms = self._answering.waiting.deadline_ms
        return waiting_ms if self._member.alone else earlier(waiting_ms, self._member.deadline_ms)

    def take_asks(self) -> list[Ask]:
        """Requests to other voters since the last call; sent after the effects returned so far."""
        return self._member.take_asks()

    def take_effects(self) -> list[Effect]:
        """What requests have caused; performed before the replies of ``take_replies`` are sent."""
        effects, self.effects = self.effects, []
        return effects

    def read(self, first: int, last: int) -> Iterator[Batch]:
        """Decoded batches that hold offsets ``first`` to ``last``, both included.

        Whole batches: the first may begin below ``first`` and the last end above ``last``. Control
        batches are among them (``is_control``).
        """
        for batch in self.replica.log.batches(first, last):
            yield from decode_batches(batch.data)

    # Events

    def start(self, now_ms: int) -> list[Effect]:
        """Repair after a crash, then take part in elections; a quorum of one leads at once."""
        effects, self._opening = self._opening, []
        if not self._member.alone:
            self.replica.log.all_durable()
        self._member.election.start(now_ms)
        return effects + self._settle(now_ms)

    def _settle(self, now_ms: int) -> list[Effect]:
        """Do what the last event makes due; every event ends here."""
        changed, effects = self._member.settle(now_ms)
        replica = self.replica
        if replica.quorum.is_leader and replica.epoch_start_offset == UNKNOWN:
            effects += self._open_epoch(now_ms)
        if changed:
            self._answering.wake(now_ms)
        if self._answering.moved:
            self._answering.news(now_ms)
        return effects

    def _open_epoch(self, now_ms: int) -> list[Effect]:
        """Append the LeaderChange record of an epoch that this node leads."""
        replica, granting = self.replica, self._member.election.granting
        replica.epoch_start_offset = self._appender.leader_change(granting, now_ms)
        start, log_start = replica.epoch_start_offset, replica.log.start_offset
        fields = {"epoch_start_offset": start, "log_start_offset": log_start}
        log = Log("info", "leader of the metadata log", {"epoch": self.leader_epoch, **fields})
        return [replica.epochs_file(), *replica.log.flush(), log]

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
        assert self.replica.quorum.is_leader, "only a leader appends"
        if not isinstance(records, CheckedRecords):
            records = whole(self.prepared(records))
        return self._appender.append(records, 0, now_ms)

    def flush(self, now_ms: int) -> list[Effect]:
        """Write and sync everything appended since the last group, unless a sync is running.

        Other voters are sent it at once.
        """
        self._appender.at(now_ms)
        if not self._member.alone:
            self._answering.appended(now_ms)
        return self.replica.log.flush()

    def synced(self, token: int, now_ms: int) -> list[Effect]:
        """A group is durable: move the high watermark, answer parked fetches, write the next."""
        self.replica.log.synced(token)
        # With other voters what is durable is served before it is committed.
        self._answering.moved = self._member.advance() or not self._member.alone
        effects = self._settle(now_ms)
        return [*effects, *self.replica.log.flush(), *self.replica.grown(now_ms)]

    def writes(self, path: str) -> bool:
        """Whether a file on its way to the disk is what :meth:`snapshot` began, not a leader's."""
        return self._snapshotting.writes(path)

    def written(self, path: str, now_ms: int) -> list[Effect]:
        """A large file is durable: the snapshot counts, and the log is cut, or begins with it."""
        if self.writes(path):
            return self._snapshotting.written()
        return self._member.following.written() + self._settle(now_ms)

    def snapshot_failed(self, why: str) -> list[Effect]:
        """The file that :meth:`snapshot` began could not be written: nothing has changed."""
        return self._snapshotting.failed(why)

    def tick(self, now_ms: int) -> list[Effect]:
        """Answer fetches whose time is up; elections; encode the next slice of a snapshot."""
        self._answering.tick(now_ms)
        self._member.tick(now_ms)
        return [*self.take_effects(), *self._settle(now_ms), *self._snapshotting.go_on()]

    def answered(self, ask: Ask, message: object, now_ms: int) -> list[Effect]:
        """Another voter answered a request of ``take_asks``.

        If records that are committed would have to be dropped, ``Halt`` is among the effects.
        """
        effects = self._member.answered(ask, message, now_ms)
        self._answering.moved |= self._member.advance()
        return effects + self._settle(now_ms)

    def unanswered(self, ask: Ask, now_ms: int) -> list[Effect]:
        """A request of ``take_asks`` gets no answer."""
        self._member.unanswered(ask, now_ms)
        return self._settle(now_ms)

    def resign(self, now_ms: int, first: Sequence[int] = ()) -> list[Effect]:
        """Resign as leader, if other voters may lead; they get EndQuorumEpoch.

        ``first``: voters to become candidates at once; if empty, the one with the longest log.
        """
        self._member.election.resign(now_ms, first)
        return self._settle(now_ms)

    def shutdown(self, now_ms: int, first: Sequence[int] = ()) -> list[Effect]:
        """Refuse fetches from now on (BROKER_NOT_AVAILABLE), also parked ones; flush the log.

        ``first`` is as of :meth:`resign`. When all of it is durable, ``recovery-point`` is written:
        damage after the stop is then no torn end, and the next start need not rewrite the end.
        """
        self.replica.shutting_down = True
        if not self._member.alone:
            self._member.election.leave(now_ms, first)
        self._answering.wake(now_ms)
        return [*self._settle(now_ms), *self.flush(now_ms), *self.replica.grown(now_ms)]

    def request(self, message: object, version: int, now_ms: int, ticket: Ticket) -> None:
        """Answer a request of another node, one of ``net.raft_requests``, now or later."""
        if self._answering.handle(message, version, now_ms, ticket):
            self.effects += self._settle(now_ms)

    # Snapshots

    def snapshot(
        self, end_offset: int, epoch: int, records: Iterable[bytes], last_timestamp_ms: int
    ) -> list[Effect]:
        """Begin a snapshot of everything below ``end_offset``; ``tick`` encodes the rest in slices.

        Then it is written outside the event loop; ``written`` says that this is done.

        Args:
            end_offset: exclusive; committed, on a batch boundary, above the last snapshot's.
            epoch: of the record just below ``end_offset``.
            records: encoded records of the image; read lazily, so the image must be immutable.
            last_timestamp_ms: of the batch that holds the last contained record.

        Raises:
            ValueError: one is being written, or the id does not fit this log.
        """
        snapshot = SnapshotId(end_offset, epoch)
        return self._snapshotting.begin(snapshot, records, last_timestamp_ms)


def _election(config: RaftConfig, files: Mapping[str, bytes], log_epoch: int) -> ElectionState:
    """The election state in the folder; the log may have a later epoch."""
    data = files.get(layout.QUORUM_STATE)
    found = ElectionState() if data is None else parse(data, set(config.voters))
    if log_epoch > found.epoch:
        return replace(found, epoch=log_epoch, leader_id=NONE, voted_id=NONE)
    return found
