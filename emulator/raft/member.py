"""The part of one node in its quorum: elections, following, and what is due after each of them.

Every event of the quorum ends in ``settle``: it makes the election state durable before anything
that depends on it is sent, and asks for what comes next.
"""

from __future__ import annotations

import random
from typing import Any

from emulator.raft import layout
from emulator.raft.asking import Ask
from emulator.raft.election import QuorumElection
from emulator.raft.follower import Following
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import UNKNOWN, Replica
from emulator.raft.voter_state import Held, Holding, remembered
from emulator.seam import Effect, ReplaceFile, earlier
from wire import messages as m
from wire.errors import ErrorCode


class Member:
    """See the module's docstring.

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
        effects += self._remember()
        election.disk_late(self._syncing_since(now_ms))
        asked = self.following.poll(now_ms)
        if asked is not None:
            self._asks.append(asked)
        self._asks += election.asks
        election.asks.clear()
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
        """Write ``voter-state`` when it changes."""
        if self.alone:
            return []
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
        if self.alone or not (log.dirty or self.replica.installing is not None):
            self._syncing = None
            return None
        if self._syncing is None or self._syncing[0] != log.durable_end:
            self._syncing = log.durable_end, now_ms
        return self._syncing[1]

    def voter_fetched(self, voter_id: int, offset: int, now_ms: int) -> bool:
        """A follower has everything below ``offset``; True if the high watermark moved."""
        replica, progress = self.replica, self.election.progress
        if not replica.quorum.is_leader or voter_id not in progress.voters:
            return False
        acknowledged = progress.voters[voter_id].end_offset
        if offset < acknowledged:
            # Its log is a part of ours since its first Fetch in this epoch: nothing was truncated.
            self.election.voter_lost(voter_id, offset, acknowledged)
        progress.fetched(voter_id, offset, replica.log.durable_end, now_ms)
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
