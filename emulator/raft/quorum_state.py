"""The election state of one voter: the states, the allowed changes, and the file on disk.

``NEXT`` is the state diagram. With one voter only RESIGNED or UNATTACHED -> CANDIDATE -> LEADER
occur. Source: QuorumState, Kafka 3.9 (KIP-595).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from emulator.raft.errors import RecoveryError
from emulator.raft.layout import QUORUM_STATE

NONE: Final = -1
"""No leader known, or no vote given."""


_WAY_OUT: Final = (
    "new voters with empty logs could elect a leader without these records. Configure the voters "
    "as they were. Or, to change them, stop all, copy the log's folder of the one with the most "
    "records to every new voter, and remove this file from each copy and from the original"
)

_EPOCH_MAX: Final = 2**31 - 1
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ALONE: Final = "if this is the only voter, remove it, the log has the last epoch too"


class VoterState(enum.Enum):
    """State of a voter in its epoch."""

    UNATTACHED = "Unattached"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


NEXT: Final[Mapping[VoterState, AbstractSet[VoterState]]] = {
    VoterState.UNATTACHED: {
        VoterState.UNATTACHED,
        VoterState.CANDIDATE,
        VoterState.FOLLOWER,
        VoterState.RESIGNED,
    },
    VoterState.CANDIDATE: {
        VoterState.UNATTACHED,
        VoterState.CANDIDATE,
        VoterState.LEADER,
        VoterState.FOLLOWER,
        VoterState.RESIGNED,
    },
    VoterState.LEADER: {VoterState.UNATTACHED, VoterState.FOLLOWER, VoterState.RESIGNED},
    VoterState.FOLLOWER: {
        VoterState.UNATTACHED,
        VoterState.CANDIDATE,
        VoterState.FOLLOWER,
        VoterState.RESIGNED,
    },
    VoterState.RESIGNED: {VoterState.UNATTACHED, VoterState.CANDIDATE, VoterState.FOLLOWER},
}
"""State -> the states that may follow it. All but a leader's own resignation to RESIGNED is a voter
whose disk was lost, and which learns that it led a later epoch."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The persistent election state: one epoch, at most one vote and at most one leader in it."""

    epoch: int = 0
    leader_id: int = NONE
    voted_id: int = NONE


class _Voter(msgspec.Struct, rename="camel"):
    voter_id: int


class _QuorumStateFile(msgspec.Struct, rename="camel"):
    leader_id: int
    leader_epoch: int
    voted_id: int
    current_voters: list[_Voter]
    cluster_id: str = ""
    applied_offset: int = 0
    data_version: int = msgspec.field(default=0, name="data_version")


def render(election: ElectionState, voters: AbstractSet[int]) -> bytes:
    """Text of ``quorum-state`` for a static quorum, key for key as Kafka 3.9.2 writes it.

    >>> render(ElectionState(1, 3000), {3000}).decode()  # doctest: +NORMALIZE_WHITESPACE
    '{"clusterId":"","leaderId":3000,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":3000}],"data_version":0}'
    """
    return msgspec.json.encode(
        {
            "clusterId": "",
            "leaderId": election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": election.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in sorted(voters)],
            "data_version": 0,
        }
    )


def parse(data: bytes, voters: AbstractSet[int]) -> ElectionState:
    """Read ``quorum-state``.

    Raises:
        RecoveryError: not such a file, one of a dynamic quorum (data_version 1, kraft.version 1),
            an impossible epoch, leader or vote, or one written for other voters.
    """
    try:
        file = msgspec.json.decode(data, type=_QuorumStateFile)
    except _UNREADABLE as error:
        raise RecoveryError(
            QUORUM_STATE, None, f"not an election state: {error}", _ALONE
        ) from error
    if file.data_version != 0:
        why = f"data_version {file.data_version} belongs to a dynamic quorum, only 0 is known"
        raise RecoveryError(QUORUM_STATE, None, why)
    written = {voter.voter_id for voter in file.current_voters}
    if written and written != voters:
        why = f"written for voters {sorted(written)}, configured are {sorted(voters)}; {_WAY_OUT}"
        raise RecoveryError(QUORUM_STATE, None, why)
    if not 0 <= file.leader_epoch <= _EPOCH_MAX:
        why = f"leaderEpoch {file.leader_epoch} is no epoch"
        raise RecoveryError(QUORUM_STATE, None, why, _ALONE)
    for what, node_id in (("leaderId", file.leader_id), ("votedId", file.voted_id)):
        if node_id != NONE and node_id not in voters:
            raise RecoveryError(QUORUM_STATE, None, f"{what} {node_id} is no voter", _ALONE)
    return ElectionState(file.leader_epoch, file.leader_id, file.voted_id)


def voters_in(data: bytes) -> AbstractSet[int]:
    """Ids of the voters that a ``quorum-state`` was written for; none if it cannot be read."""
    try:
        file = msgspec.json.decode(data, type=_QuorumStateFile)
    except _UNREADABLE:
        return frozenset()
    return frozenset(voter.voter_id for voter in file.current_voters)


class QuorumState:
    """The current state, its epoch, leader and vote.

    Invariants: the epoch never falls; within an epoch the leader, once known, never changes, and a
    vote is never given to a second candidate. A node found as leader of its epoch on disk begins as
    RESIGNED: its leadership has ended, and it may lead again only in a later epoch. One that
    followed another voter follows it again. A voter that has voted is UNATTACHED until it knows the
    leader (Kafka: Voted).
    """

    __slots__ = ("_node_id", "_voters", "election", "state")

    def __init__(self, node_id: int, voters: AbstractSet[int], election: ElectionState) -> None:
        self._node_id = node_id
        self._voters = frozenset(voters)
        if election.leader_id == node_id:
            self.state = VoterState.RESIGNED
        elif election.leader_id in self._voters:
            self.state = VoterState.FOLLOWER
        else:
            self.state = VoterState.UNATTACHED
        self.election = election

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """Leader of the current epoch, -1 when unknown."""
        return self.election.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the current epoch."""
        return self.state is VoterState.LEADER

    def render(self) -> bytes:
        """Content of the file that must be durable before this state is used in a message."""
        return render(self.election, self._voters)

    def to_candidate(self) -> None:
        """Become candidate in the next epoch and vote for ourselves."""
        self._enter(VoterState.CANDIDATE, ElectionState(self.epoch + 1, NONE, self._node_id))

    def to_leader(self) -> None:
        """Become leader of the current epoch; the caller has counted a majority of votes."""
        self._enter(
            VoterState.LEADER, replace(self.election, leader_id=self._node_id, voted_id=NONE)
        )

    def to_unattached(self, epoch: int) -> None:
        """Enter a later epoch whose leader is unknown."""
        assert epoch > self.epoch, f"epoch {epoch} is not after {self.epoch}"
        self._enter(VoterState.UNATTACHED, ElectionState(epoch))

    def to_voted(self, candidate_id: int) -> None:
        """Give this epoch's vote to a candidate."""
        assert self.election.voted_id in {NONE, candidate_id}, "one vote in an epoch"
        assert self.leader_id == NONE, "no vote once the leader is known"
        self._enter(VoterState.UNATTACHED, replace(self.election, voted_id=candidate_id))

    def to_follower(self, epoch: int, leader_id: int) -> None:
        """Follow another voter in its epoch; as in Kafka 3.9 the vote is not kept then."""
        assert leader_id not in {NONE, self._node_id}, "another voter is followed"
        self._enter(VoterState.FOLLOWER, ElectionState(epoch, leader_id))

    def to_resigned(self, epoch: int) -> None:
        """Lead no more in an epoch in which this node was the leader.

        A later epoch than the own one: others know that this node led it, its disk does not.
        """
        self._enter(VoterState.RESIGNED, ElectionState(epoch, self._node_id))

    def _enter(self, state: VoterState, election: ElectionState) -> None:
        assert state in NEXT[self.state], f"{self.state.value} cannot become {state.value}"
        old = self.election
        assert election.epoch >= old.epoch, f"epoch {old.epoch} cannot go back to {election.epoch}"
        if election.epoch == old.epoch:
            known = old.leader_id != NONE
            assert not known or old.leader_id == election.leader_id, "one leader for an epoch"
        self.state = state
        self.election = election
