"""The part of one node in its quorum: elections, following, and what is due after each of them.

Every event of the quorum ends in ``settle``: it makes the election state durable before anything
that depends on it is sent, and asks for what comes next.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from emulator.raft import asking, layout, snapshots
from emulator.raft.asking import Ask, LogEnd
from emulator.raft.election import QuorumElection
from emulator.raft.layout import RecoveryError, SnapshotId
from emulator.raft.log import LogBatch, MetadataLog
from emulator.raft.quorum_state import NONE, Held, Holding, VoterState, remembered
from emulator.raft.replica import UNKNOWN, Replica
from emulator.seam import Effect, Halt, Log, ReplaceFile, WriteFile, earlier
from wire import messages as m
from wire.batch import HEADER_BYTES, batch_crc_holds, batch_header
from wire.errors import DecodeError, ErrorCode, named

# A leader whose log lacks what was committed here: this voter stops, and does not start again.
#
# Either the folders of a majority were emptied or restored from old copies, or this one holds
# records that the quorum never had. Whoever truncates decides it, so an operator must. The file
# keeps a supervisor, which starts the process again, from deciding.
#
# Source: KafkaRaftClient.truncateToEndOffset, Kafka 3.9, which throws, and after a restart, when it
# has forgotten the high watermark, truncates.

_WAY_OUT: Final = (
    "The folders of other voters were emptied or restored from old copies, or this one is not of "
    "their quorum; nothing was changed. To keep what this node has, stop all voters, give the "
    f"others a copy of its folder {layout.FOLDER}, then remove this file from all. To give it up, "
    f"remove the folder {layout.FOLDER} of this node: it loads the leader's log"
)


def contradicted(replica: Replica, lacks: str) -> list[Effect]:
    """Stop this voter for good.

    Args:
        replica: of this voter; unchanged.
        lacks: the end of a sentence about the leader, with what it does.
    """
    quorum = replica.quorum
    why = (
        f"node {quorum.leader_id} leads epoch {quorum.epoch} {lacks}, but all below "
        f"{replica.committed_end} was committed here"
    )
    return [
        *replica.recovery_point.write(replica.committed_end),
        ReplaceFile(layout.CONTRADICTED, f"{why}\n".encode()),
        Log("error", "the leader lacks what was committed here", {"why": why}),
        Halt(1, f"{why}. {_WAY_OUT}"),
    ]


def other_batch(log: MetadataLog, data: bytes) -> int | None:
    """Offset of a leader's batch that begins in our log and ends beyond it; None: there is none.

    Logs of one quorum that have one epoch at an offset are the same up to there, and batches are
    appended whole. So this is the log of another quorum, as of an earlier one with this cluster id.

    Raises:
        DecodeError: ``data`` does not begin with a batch.
    """
    if len(data) < HEADER_BYTES:
        return None
    header = batch_header(data)
    begins, ends = header.base_offset, header.last_offset
    if not log.start_offset <= begins < log.end_offset <= ends or header.size > len(data):
        return None
    same = header.leader_epoch == log.last_epoch
    return begins if same and batch_crc_holds(data, 0) else None


def refuse_contradicted(files: Mapping[str, bytes]) -> None:
    """Refuse to start while an operator has not decided.

    Raises:
        RecoveryError: the file is there; the text says what it says, and the way out.
    """
    data = files.get(layout.CONTRADICTED)
    if data is not None:
        why = data.decode(errors="replace").strip()
        raise RecoveryError(layout.CONTRADICTED, None, f"{why}. {_WAY_OUT}")


# The log of a voter that follows: asks the leader for it, appends, truncates, loads a snapshot.
#
# One request at a time, and only when everything appended is durable: the offset of a Fetch says to
# the leader what is durable here. While no leader is known any voter is asked, whose answer names
# the leader. An answer counts only while the epoch and the leader are those that were asked.
#
# While a snapshot of the leader is on its way to the disk nothing can be taken, for minutes
# perhaps. A leader whose other voters are down would resign meanwhile, as it hears of no majority.
# So this voter asks for one byte of a snapshot now and then: FetchSnapshot counts for that, as in
# Kafka.
#
# Source: KafkaRaftClient.handleFetchResponse, handleFetchSnapshotResponse, Kafka 3.9; KIP-595,
# KIP-630.

LOOKING_MS: Final = 100
"""Pause between requests that look for the leader."""
REFUSED_MS: Final = 1_000
"""Pause after an answer that no repetition changes soon; at most half of the fetch timeout."""
SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A leader that names a larger snapshot is not believed."""
_LATER: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""What a voter answers that does not lead, or not in this epoch."""


@dataclass(slots=True)
class _Loading:
    """A snapshot of one node, as far as it is here.

    A snapshot of one id differs from node to node, but never changes on one. ``size`` is what the
    node sent with the first piece, 0 before. ``offered``: the leader of this epoch named it; an
    epoch that ends takes this back, and keeps the pieces.
    """

    snapshot: SnapshotId
    node_id: int
    size: int = 0
    data: bytearray = field(default_factory=bytearray)
    packed: snapshots.Packed = field(default_factory=snapshots.Packed)
    """The same."""
    offered: bool = True


class Following:
    """See the module's docstring.

    Args:
        replica: the log and the snapshots; changed by the answers.
        election: the state of the voter; takes the epochs that answers name.
        rng: whom to ask while no leader is known.
    """

    def __init__(self, replica: Replica, election: QuorumElection, rng: random.Random) -> None:
        self.rewritten = 0
        """How often records that were appended here have been dropped, or replaced."""
        self.contradicted = False
        """The leader lacks what is committed here: the node stops."""
        self.caught_up_ms: int | None = None
        """When the durable log last reached the high watermark that the leader had just sent."""
        self._answered = False
        """Whether the leader has answered a Fetch since the last one was sent."""
        self._replica = replica
        self._election = election
        self._rng = rng
        self._asked: Ask | None = None
        self._asked_ms = 0
        self._due_ms = 0
        self._loading: _Loading | None = None
        self._loaded = snapshots.Packed()
        """The snapshot that is on its way to the disk (``Replica.installing``)."""
        self._named: SnapshotId | None = None
        """One that the leader has, as far as is known, while that is so."""
        self._others = sorted(set(replica.config.voters) - {replica.config.node_id})

    @property
    def _asks(self) -> bool:
        """Whether this voter has to ask another one for the log, or for the leader."""
        quorum = self._replica.quorum
        looking = quorum.state is VoterState.UNATTACHED and bool(self._others)
        return not self.contradicted and (looking or quorum.state is VoterState.FOLLOWER)

    @property
    def deadline_ms(self) -> int | None:
        """When ``poll`` has something to ask; None while it waits for an answer or the disk."""
        waits = self._replica.log.dirty or self._asked is not None or not self._asks
        return None if waits else self._due_ms

    def changed(self, now_ms: int) -> None:
        """The epoch or the leader is another one: what was asked before does not count."""
        self._asked = None
        self._due_ms = now_ms
        if self._replica.quorum.is_leader:
            self._loading = None
        elif self._loading is not None:
            self._loading.offered = False

    def poll(self, now_ms: int) -> Ask | None:
        """The next request, if one is due."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        replica = self._replica
        if self._answered and replica.caught_up:
            self.caught_up_ms = now_ms
        self._answered = False
        quorum, config = replica.quorum, replica.config
        leader_id = quorum.leader_id
        node_id = self._rng.choice(self._others) if leader_id == NONE else leader_id
        loading, to = self._loading, (config, node_id, quorum.epoch)
        if replica.installing is not None:
            self._asked = asking.sign_of_life(*to, replica.log_end, self._named)
        elif loading is not None and loading.offered:
            self._asked = asking.fetch_snapshot(*to, loading.snapshot, len(loading.data))
        else:
            self._asked = asking.fetch(*to, replica.log_end)
        self._asked_ms = now_ms
        return self._asked

    def unanswered(self, ask: Ask, now_ms: int) -> None:
        """A request got no answer."""
        if ask is self._asked:
            self._asked = None
            self._due_ms = now_ms + self._replica.config.times.retry_ms

    def answered(self, ask: Ask, message: object, now_ms: int) -> list[Effect]:
        """Take the answer to a request of ``poll``.

        One that would have records dropped that are committed stops the node, see ``contradicted``.
        """
        if ask is not self._asked:
            return []
        self._asked = None
        self._due_ms = now_ms
        quorum = self._replica.quorum
        leads = quorum.state is VoterState.FOLLOWER and quorum.leader_id == ask.node_id
        try:
            match message:
                case m.FetchResponse(error_code=0, responses=[topic]) if topic.partitions:
                    partition = topic.partitions[0]
                    if not self._refused(partition.error_code, now_ms, leads=leads):
                        return self._fetched(partition, now_ms)
                case m.FetchSnapshotResponse(error_code=0, topics=[topic]) if topic.partitions:
                    piece = topic.partitions[0]
                    if piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
                        self._loading = self._named = None
                        self._due_ms = now_ms + self._replica.config.times.retry_ms
                    elif not self._refused(piece.error_code, now_ms, leads=leads):
                        return self._downloaded(piece, now_ms)
                case m.FetchResponse(error_code=code) | m.FetchSnapshotResponse(error_code=code):
                    self._refused(code or ErrorCode.INVALID_REQUEST, now_ms, leads=leads)
                case _:
                    raise AssertionError(f"no request has this answer: {message!r}")
        except (DecodeError, RecoveryError) as error:
            self._loading = None
            return self._useless(str(error), now_ms)
        return []

    def _useless(self, why: str, now_ms: int) -> list[Effect]:
        """An answer that brings nothing; the same question would bring the same one."""
        self._pause(now_ms)
        return [Log("warning", "the leader sent an invalid answer", {"why": why})]

    def _pause(self, now_ms: int) -> None:
        # A leader that answers is not silent, so the next answer must come within the timeout.
        self._due_ms = now_ms + min(REFUSED_MS, self._replica.config.times.fetch_ms // 2)

    def _refused(self, code: int, now_ms: int, *, leads: bool) -> bool:
        """Whether the answer holds nothing to take; sets the pause before the next request."""
        if code == ErrorCode.NONE and leads:
            return False
        if not leads:
            self._due_ms = now_ms + LOOKING_MS
        elif code in _LATER:
            self._due_ms = now_ms + self._replica.config.times.retry_ms
        else:
            # What is here of a snapshot may be why: it is begun anew.
            self._loading = None
            self._pause(now_ms)
            why: dict[str, object] = {"why": named(code)}
            self._election.log.append(Log("warning", "the leader refuses our requests", why))
        return True

    # ---------------------------------------------------------------- Fetch
    def _fetched(self, found: m.FetchResponse.PartitionData, now_ms: int) -> list[Effect]:
        self._election.fetched(now_ms)
        diverging, snapshot = found.diverging_epoch, found.snapshot_id
        if self._replica.installing is not None:
            if snapshot.end_offset >= 0 and snapshot.epoch >= 0:
                self._named = SnapshotId(snapshot.end_offset, snapshot.epoch)
            return self._in_contact(now_ms)
        self._answered = True
        if diverging.epoch >= 0 and diverging.end_offset >= 0:
            return self._truncate(LogEnd(diverging.epoch, diverging.end_offset), now_ms)
        if snapshot.end_offset >= 0 and snapshot.epoch >= 0:
            self._election.leader_committed(found.high_watermark)
            named = SnapshotId(snapshot.end_offset, snapshot.epoch)
            return self._load(named, found.high_watermark, now_ms)
        self._loading = None
        replica, committed = self._replica, self._replica.high_watermark
        if (other := other_batch(replica.log, found.records or b"")) is not None:
            return self._stop(f"with another batch at offset {other}, of the same epoch as ours")
        batches = self._batches(found.records or b"")
        # Before they are appended: it compares with what is durable.
        self._election.leader_committed(found.high_watermark)
        effects: list[Effect] = []
        opened = [replica.log.append(batch) for batch in batches]
        if any(opened):
            effects.append(replica.epochs_file())
        replica.appended_bytes += sum(len(batch.data) for batch in batches)
        replica.leader_committed(found.high_watermark)
        if not batches and replica.high_watermark == committed:
            # A leader without new records waits before it answers; a leader that does not wait is
            # not asked in a loop.
            self._due_ms = max(now_ms, self._asked_ms + replica.config.times.retry_ms)
        return [*effects, *replica.log.flush()]

    def _batches(self, data: bytes) -> list[LogBatch]:
        """The whole batches of an answer; a part of one at its end is dropped, however short.

        Raises:
            DecodeError: one of them is damaged, or does not follow what is here.
        """
        log, position = self._replica.log, 0
        batches: list[LogBatch] = []
        end_offset, epoch = log.end_offset, log.last_epoch
        while len(data) - position >= HEADER_BYTES:
            header = batch_header(data, position)
            if position + header.size > len(data):
                break
            if header.base_offset != end_offset:
                raise _nonsense(f"a batch at {header.base_offset} instead of {end_offset}")
            if header.count != header.last_offset - header.base_offset + 1:
                raise _nonsense(f"{header.count} records in a batch at {header.base_offset}")
            if not epoch <= header.leader_epoch <= self._replica.quorum.epoch:
                raise _nonsense(f"epoch {header.leader_epoch} in a batch at {header.base_offset}")
            if not batch_crc_holds(data, position):
                raise _nonsense(f"a wrong checksum in the batch at {header.base_offset}")
            end_offset, epoch = header.last_offset + 1, header.leader_epoch
            whole = data[position : position + header.size]
            batches.append(LogBatch(header.base_offset, header.last_offset, epoch, whole))
            position += header.size
        return batches

    def _truncate(self, leader: LogEnd, now_ms: int) -> list[Effect]:
        """Drop the end of the log that the leader does not have."""
        self._loading = None
        replica = self._replica
        log = replica.log
        epoch, own_end = replica.end_offset(leader.epoch)
        cut = min(own_end, leader.offset) if epoch == leader.epoch else own_end
        cut = log.boundary_below(min(cut, log.end_offset))
        if cut < replica.committed_end:
            return self._stop(f"with a log that differs from offset {cut} on")
        if cut == log.end_offset:
            ends = f"{leader.offset} in epoch {leader.epoch}"
            return self._useless(f"a log that ends at {ends}: ours does not differ", now_ms)
        self.rewritten += 1
        fields: dict[str, object] = {"from": log.end_offset, "to": cut}
        return [
            Log("warning", "the end of the log was truncated: the leader has another", fields),
            *replica.recovery_point.cutting(cut, replica.committed_end),
            *log.truncate_to(cut),
        ]

    def _stop(self, lacks: str) -> list[Effect]:
        self.contradicted = True
        return contradicted(self._replica, lacks)

    # ---------------------------------------------------------------- FetchSnapshot
    def _load(self, snapshot: SnapshotId, committed: int, now_ms: int) -> list[Effect]:
        """Begin to load what the leader names; ``committed``: its high watermark, -1 if unknown."""
        replica, loading = self._replica, self._loading
        leader_id, known = replica.quorum.leader_id, replica.snapshots.latest
        if known == snapshot and snapshot.end_offset == replica.committed_end:
            self._loading = None
            return self._useless(f"to be loaded is {snapshot}, which is here", now_ms)
        if snapshot.end_offset == 0:
            raise _nonsense("a snapshot of nothing")
        other = known is not None and snapshot.end_offset == known.end_offset
        if snapshot.end_offset < replica.committed_end or other:
            which = f" of epoch {snapshot.epoch}" if other else ""
            return self._stop(f"and wants us to load a snapshot up to {snapshot.end_offset}{which}")
        self._check_possible(snapshot, committed)
        replica.outrun = True
        fields: dict[str, object] = {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch}
        if loading is not None and (loading.snapshot, loading.node_id) == (snapshot, leader_id):
            loading.offered = True
            fields["bytes"] = len(loading.data)
            return [Log("info", "loading a snapshot from the leader goes on", fields)]
        self._loading = _Loading(snapshot, leader_id)
        return [Log("info", "loading a snapshot from the leader", fields)]

    def _check_possible(self, snapshot: SnapshotId, committed: int) -> None:
        """Refuse a name that no snapshot can have: the log would go on from there.

        Raises:
            DecodeError: its epoch is after the leader's, or before that of what is committed here;
                or it ends where the leader itself has committed nothing; or records here behind it
                are not older than its last one, so the leader may have them, and count on ours.
        """
        replica, log = self._replica, self._replica.log
        known, last = replica.snapshots.latest, replica.quorum.epoch
        first = log.epochs.epoch_at(replica.committed_end - 1)
        if first is None:
            first = 0 if known is None else known.epoch
        if not first <= snapshot.epoch <= last:
            raise _nonsense(f"a snapshot of epoch {snapshot.epoch}, outside {first} to {last}")
        if 0 <= committed < snapshot.end_offset:
            raise _nonsense(f"a snapshot up to {snapshot.end_offset} of {committed} records")
        if log.end_offset > snapshot.end_offset and log.last_epoch >= snapshot.epoch:
            raise _nonsense(f"{snapshot}, and the log goes on here in epoch {log.last_epoch}")

    def _downloaded(
        self, piece: m.FetchSnapshotResponse.PartitionSnapshot, now_ms: int
    ) -> list[Effect]:
        self._election.fetched(now_ms)
        if self._replica.installing is not None:
            return self._in_contact(now_ms)
        loading = self._loading
        assert loading is not None, "a snapshot was asked for"
        snapshot, data = loading.snapshot, loading.data
        if SnapshotId(piece.snapshot_id.end_offset, piece.snapshot_id.epoch) != snapshot:
            raise _nonsense(f"another snapshot than {snapshot}")
        if piece.position != len(data) or not 0 < piece.size <= SNAPSHOT_BYTES_MAX:
            raise _nonsense(f"position {piece.position} of {piece.size}, {len(data)} are here")
        if loading.size not in {0, piece.size}:
            raise _nonsense(f"{snapshot} has {piece.size} bytes, and had {loading.size}")
        loading.size = piece.size
        more = piece.unaligned_records or b""
        data += more
        loading.packed.add(more)
        if len(data) > piece.size or (not more and len(data) < piece.size):
            raise _nonsense(f"{len(data)} bytes of a snapshot of {piece.size}")
        return [] if len(data) < piece.size else self._install(loading, now_ms)

    def _install(self, loading: _Loading, now_ms: int) -> list[Effect]:
        """The snapshot is complete: write it, outside the event loop; nothing is taken meanwhile.

        This voter goes on to answer, and is no candidate: its log is about to be replaced.
        """
        self._loading = None
        snapshot, data = loading.snapshot, bytes(loading.data)
        path = layout.snapshot_path(snapshot)
        snapshots.check(path, data, snapshot)
        replica = self._replica
        known = replica.snapshots.latest
        if known is not None and snapshot.end_offset <= known.end_offset:
            raise _nonsense(f"{snapshot} is not above {known}")
        replica.installing, self._loaded, self._named = snapshot, loading.packed, snapshot
        self._in_contact(now_ms)
        point = replica.recovery_point.replacing(snapshot, replica.committed_end)
        return [*point, WriteFile(path, data)]

    def _in_contact(self, now_ms: int) -> list[Effect]:
        """The leader has answered while its snapshot is being written: nothing of it is taken."""
        self._due_ms = now_ms + self._replica.config.times.sign_ms
        return []

    def written(self) -> list[Effect]:
        """The snapshot that was loaded is durable: it replaces the log."""
        replica = self._replica
        snapshot, data = replica.installing, self._loaded
        assert snapshot is not None, "a snapshot was handed to the disk"
        replica.installing, self._loaded = None, snapshots.Packed()
        # The answer to a sign of life is not waited for.
        self._asked, self._due_ms = None, 0
        self.rewritten += 1
        replica.snapshots.add(snapshot, data)
        effects: list[Effect] = replica.log.restart_at(snapshot.end_offset, snapshot.epoch)
        replica.loaded(snapshot.end_offset)
        effects += replica.recovery_point.write(replica.committed_end)
        fields: dict[str, object] = {"end_offset": snapshot.end_offset, "bytes": data.size}
        return [*effects, *replica.trim(), Log("info", "the log begins at a snapshot", fields)]


def _nonsense(why: str) -> DecodeError:
    return DecodeError("metadata log", -1, "", 0, why)


class Member:
    """One node's part in its quorum; after each event it does what is due then.

    Args:
        replica: log, snapshots and quorum state of this voter.
        rng: source of random times, and of whom to ask.
        voter_state: content of the file of that name; None if there is none.
    """

    def __init__(self, replica: Replica, rng: random.Random, voter_state: bytes | None) -> None:
        self.replica = replica
        self.alone = len(replica.config.voters) == 1
        held = remembered(voter_state, empty=replica.log.end_offset == 0)
        self.election = QuorumElection(
            replica.config,
            replica.quorum,
            rng,
            lambda: replica.log_end,
            Held(Holding.WHOLE) if self.alone else held,
        )
        self.following = Following(replica, self.election, rng)
        self._asks: list[Ask] = []
        self._voter_state = voter_state
        """What the disk says."""
        self._quorum_state = b""
        """The same, of what this life has written."""
        self._syncing: tuple[int, int] | None = None
        """The durable end of the log while more is to become durable, and since when."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due; never in a quorum of one, which leads and asks no other voter."""
        if self.alone:
            return None
        return earlier(self.election.deadline_ms, self.following.deadline_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due in the election."""
        if not self.alone:
            self.election.disk_late(self._syncing_since(now_ms))
        self.election.tick(now_ms)

    def take_asks(self) -> list[Ask]:
        """Requests to other voters since the last call; sent after the effects returned so far."""
        asks, self._asks = self._asks, []
        return asks

    def settle(self, now_ms: int) -> tuple[bool, list[Effect]]:
        """Write what changed, send due requests; also return whether the election state changed."""
        replica, election = self.replica, self.election
        changed, election.changed = election.changed, False
        effects: list[Effect] = []
        if changed:
            effects += self._write_state()
            replica.begin_epoch()
            self.following.changed(now_ms)
        if not self.alone:
            effects += self._remember()
            election.disk_late(self._syncing_since(now_ms))
            asked = self.following.poll(now_ms)
            if asked is not None:
                self._asks.append(asked)
            self._asks += election.asks
            election.asks.clear()
        if election.log:
            effects += [line for line in election.log if not self.alone or line.level != "info"]
            election.log.clear()
        return changed, effects

    def _write_state(self) -> list[Effect]:
        """Write ``quorum-state`` if it changed; not at a resignation, when the disk may hang."""
        wanted = self.replica.quorum.render()
        if wanted == self._quorum_state:
            return []
        self._quorum_state = wanted
        return [ReplaceFile(layout.QUORUM_STATE, wanted)]

    def _remember(self) -> list[Effect]:
        """Write ``voter-state`` when it changes; of several voters."""
        replica, election = self.replica, self.election
        # What is not durable may be gone after a crash, and then it was never here.
        empty = replica.log.durable_end == 0
        election.held = election.held.settled(empty=empty, caught_up=replica.caught_up)
        wanted = election.held.render()
        implied = self._voter_state is None and election.held.holding is Holding.WHOLE
        if implied or wanted == self._voter_state:
            return []
        self._voter_state = wanted
        return [ReplaceFile(layout.VOTER_STATE, wanted)]

    def _syncing_since(self, now_ms: int) -> int | None:
        """Since when the log waits for the disk, for a sync or a snapshot; None if it does not."""
        log = self.replica.log
        if not (log.dirty or self.replica.installing is not None):
            self._syncing = None
            return None
        if self._syncing is None or self._syncing[0] != log.durable_end:
            self._syncing = log.durable_end, now_ms
        return self._syncing[1]

    def voter_fetched(self, voter_id: int, offset: int, now_ms: int, *, follows: bool) -> bool:
        """The log of a follower ends at ``offset``; True if the high watermark moved.

        ``follows``: it is a part of ours. If it is not, the follower is sent how it becomes one,
        with the high watermark: what it had acknowledged beyond counts for no later one.
        """
        replica, progress = self.replica, self.election.progress
        if not replica.quorum.is_leader or voter_id not in progress.voters:
            return False
        acknowledged = progress.voters[voter_id].end_offset
        if offset < acknowledged:
            # Its log is a part of ours since its first Fetch in this epoch: nothing was truncated.
            self.election.voter_lost(voter_id, offset, acknowledged)
            progress.voters[voter_id].end_offset = offset
        if not follows:
            return False
        progress.fetched(voter_id, offset, replica.log.end_offset, now_ms)
        return self.advance()

    def advance(self) -> bool:
        """Move the high watermark as far as it is known to be; True if it moved."""
        replica = self.replica
        if not replica.quorum.is_leader:
            return replica.follow_leader()
        if replica.epoch_start_offset == UNKNOWN:
            return False
        return replica.lead_to(self.election.progress.majority_end(replica.log.durable_end))

    def unanswered(self, ask: Ask, now_ms: int) -> None:
        """A request to another voter got no answer."""
        self.following.unanswered(ask, now_ms)
        if not isinstance(ask.message, (m.FetchRequest, m.FetchSnapshotRequest)):
            self.election.unanswered(ask, now_ms)

    def answered(self, ask: Ask, message: object, now_ms: int) -> list[Effect]:
        """Take the answer of another voter."""
        named = _named(message)
        if named is not None:
            self.election.epoch_named(*named, now_ms, answered=True)
            if self.election.changed:
                # What was asked in the epoch before does not count any more.
                self.following.changed(now_ms)
        if isinstance(message, m.VoteResponse):
            granted = named is not None and _partition(message).vote_granted
            self.election.vote_answered(ask, granted=granted, now_ms=now_ms)
        elif isinstance(message, (m.FetchResponse, m.FetchSnapshotResponse)):
            effects = self.following.answered(ask, message, now_ms)
            # If all was truncated, this must be known to be right before it is done.
            return [*self._remember(), *effects] if self.replica.log.end_offset == 0 else effects
        return []


def _named(message: Any) -> tuple[int, int] | None:
    """Epoch and leader that an answer names; None if it names none."""
    if message.error_code != ErrorCode.NONE:
        return None
    match message:
        case m.FetchResponse(responses=[topic]) | m.FetchSnapshotResponse(topics=[topic]):
            if not topic.partitions:
                return None
            leader = topic.partitions[0].current_leader
            return (leader.leader_epoch, leader.leader_id) if leader.leader_epoch >= 0 else None
        case (
            m.VoteResponse(topics=[topic])
            | m.BeginQuorumEpochResponse(topics=[topic])
            | m.EndQuorumEpochResponse(topics=[topic])
        ) if topic.partitions:
            partition = topic.partitions[0]
            return partition.leader_epoch, max(NONE, partition.leader_id)
        case _:
            return None


def _partition(message: m.VoteResponse) -> m.VoteResponse.PartitionData:
    return message.topics[0].partitions[0]
