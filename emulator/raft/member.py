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
from emulator.raft.joining import remembered, text
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import UNKNOWN, Replica
from emulator.seam import DeleteFile, Effect, ReplaceFile
from wire import messages as m
from wire.errors import ErrorCode


class Member:
    """See the module's docstring.

    Args:
        replica: log, snapshots and quorum state of this voter.
        rng: source of random times, and of whom to ask.
        joining: content of the file of that name; None if there is none.
    """

    def __init__(self, replica: Replica, rng: random.Random, joining: bytes | None) -> None:
        self.replica = replica
        self.alone = len(replica.config.voters) == 1
        empty = replica.log.end_offset == 0
        self.election = QuorumElection(
            replica.config,
            replica.quorum,
            rng,
            lambda: replica.log_end,
            remembered(joining, empty=empty),
            busy=lambda: replica.log.dirty,
        )
        self.following = Following(replica, self.election, rng)
        self._asks: list[Ask] = []
        self._joining = joining
        """What the disk says."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due."""
        times = (self.election.deadline_ms, self.following.deadline_ms)
        return min((one for one in times if one is not None), default=None)

    def take_asks(self) -> list[Ask]:
        """Requests to other voters since the last call; sent after the effects returned so far."""
        asks, self._asks = self._asks, []
        return asks

    def settle(self, now_ms: int) -> tuple[bool, list[Effect]]:
        """Write what changed and ask what is due; also tells whether the election state changed."""
        replica, election = self.replica, self.election
        changed, election.changed = election.changed, False
        effects: list[Effect] = []
        if changed:
            effects.append(ReplaceFile(layout.QUORUM_STATE, replica.quorum.render()))
            replica.begin_epoch()
            self.following.changed(now_ms)
        if replica.quorum.is_leader or replica.caught_up:
            election.joined()
        effects += self._lacking()
        asked = self.following.poll(now_ms)
        if asked is not None:
            self._asks.append(asked)
        self._asks += election.asks
        election.asks.clear()
        effects += [] if self.alone else election.log
        election.log.clear()
        return changed, effects

    def _lacking(self) -> list[Effect]:
        """Remember what this voter lacks, or may lack, in a file."""
        if self.alone:
            return []
        # What is not durable may be gone after a crash, and then it was never here.
        empty = self.replica.log.durable_end == 0
        wanted = text(self.election.lack, empty=empty)
        if wanted == self._joining:
            return []
        self._joining = wanted
        file = layout.JOINING
        return [DeleteFile(file) if wanted is None else ReplaceFile(file, wanted)]

    def voter_fetched(self, voter_id: int, offset: int, now_ms: int) -> bool:
        """A follower has everything below ``offset``; True if the high watermark moved."""
        replica, progress = self.replica, self.election.progress
        if not replica.quorum.is_leader or voter_id not in progress.voters:
            return False
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
        told = _told(message)
        if told is not None:
            self.election.told(*told, now_ms)
            if self.election.changed:
                # What was asked in the epoch before does not count any more.
                self.following.changed(now_ms)
        if isinstance(message, m.VoteResponse):
            granted = told is not None and _partition(message).vote_granted
            self.election.vote_answered(ask, granted=granted, now_ms=now_ms)
        elif isinstance(message, (m.FetchResponse, m.FetchSnapshotResponse)):
            return self.following.answered(ask, message, now_ms)
        return []


def _told(message: Any) -> tuple[int, int] | None:
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
