"""The election state of one voter: the states, why they change, and the file on disk.

``NEXT`` is the state diagram. With one voter only RESIGNED or UNATTACHED -> CANDIDATE -> LEADER
occur. Source: QuorumState, Kafka 3.9 (KIP-595).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from emulator.raft.asking import LogEnd
from emulator.raft.layout import QUORUM_STATE, RecoveryError
from emulator.seam import state_after

# Whether a voter still holds every record that it acknowledged: ``voter-state``. Not in Kafka.
#
# A majority that elects is safe only if each voter in it has all that it acknowledged. An empty log
# is right on a voter of a new quorum, and wrong on one whose disk was lost; the log alone cannot
# tell which. So a file records it. The file is replaced, never deleted, since a deletion is not
# synced.
#
# | content | written | votes for | may be candidate |
# |---|---|---|---|
# | ``new`` | by ``format --new-quorum``; when all that was here is truncated | as Raft | yes |
# | ``whole`` | before the first record here is acknowledged | as Raft | yes |
# | ``unknown`` | when a start finds an empty log without ``new`` | no voter | no |
# | ``behind`` | when the first leader since the start has more | candidates that have it | no |
#
# No file means ``whole`` if there is a log. ``behind`` holds the leader's epoch and the end offset
# of what is committed: a log has that if it ends in that epoch or a later one, and not below the
# offset. ``unknown`` and ``behind`` end when everything is here that a leader knows to be
# committed.
#
# ``behind`` follows on each start with less than is committed, since an old copy of the disk looks
# like one that was down for a while. For the latter it changes nothing: what is committed without
# it is in the logs of a majority without it.
#
# Why ``behind`` is enough: from the answer that names the offset on, the leader counts this voter
# by what its new disk has. So whatever it had acknowledged and what is committed is below that
# offset. A log that ends in the leader's epoch at or above the offset has all of that, and the
# leader of a later epoch was elected by voters that have it.
#
# Of two voters the other one has everything that is committed, so it gets the vote in any case.

_TEXT: Final = re.compile(rb"0\n(?:(new|whole|unknown)|behind (\d{1,10}) (\d{1,19}))\n")


class Holding(enum.Enum):
    """How much of what a voter acknowledged it holds."""

    NEW = "new"
    """It acknowledged nothing that can be committed."""
    WHOLE = "whole"
    UNKNOWN = "unknown"
    BEHIND = "behind"
    """Not all; a leader has sent how far a log must reach to have the rest."""


_WAITING: Final = {
    Holding.UNKNOWN: (
        "not a candidate: records that this voter acknowledged may be lost. The log is empty, but "
        "was not formatted for a new quorum, or the file voter-state cannot be read. Waiting for a "
        "leader. If the quorum is new, stop this node and run kraft-bridge format --new-quorum "
        "--ignore-formatted"
    ),
    Holding.BEHIND: (
        "not a candidate: records that were committed are missing here; waiting for a leader"
    ),
}


class Held(NamedTuple):
    """The state of one voter; ``least`` is that end of a log, with BEHIND."""

    holding: Holding
    least: LogEnd = LogEnd(0, 0)

    @property
    def may_be_elected(self) -> bool:
        """Whether this voter may be elected by those whose log is not longer."""
        return self.hindrance is None

    @property
    def hindrance(self) -> str | None:
        """Why this voter may not be a candidate; None if it may."""
        return _WAITING.get(self.holding)

    def may_elect(self, end: LogEnd) -> bool:
        """Whether what may be lost here is in a log with that end."""
        match self.holding:
            case Holding.UNKNOWN:
                return False
            case Holding.BEHIND:
                return end.epoch >= self.least.epoch and end.offset >= self.least.offset
            case _:
                return True

    def followed(self, epoch: int, high_watermark: int, *, lacks: bool) -> Held:
        """A leader of this epoch sent its high watermark.

        Args:
            epoch: the leader's.
            high_watermark: everything below is committed; -1 if the leader does not know it.
            lacks: it is the first since the start, and our log does not reach it.

        >>> Held(Holding.UNKNOWN).followed(3, 10, lacks=True)
        Held(holding=<Holding.BEHIND: 'behind'>, least=LogEnd(epoch=3, offset=10))
        """
        if high_watermark <= 0 or not (lacks or self.holding is Holding.UNKNOWN):
            return self
        return Held(Holding.BEHIND, LogEnd(epoch, high_watermark))

    def settled(self, *, empty: bool, caught_up: bool) -> Held:
        """What the state is now.

        Args:
            empty: no record is durable here.
            caught_up: the durable log reaches the high watermark that a leader sent, and the
                leader's log goes on where ours ends.
        """
        if self.may_be_elected:
            return Held(Holding.NEW if empty else Holding.WHOLE)
        return Held(Holding.WHOLE) if caught_up and not empty else self

    def render(self) -> bytes:
        r"""Content of the file: a version, then the state.

        >>> Held(Holding.BEHIND, LogEnd(3, 10)).render()
        b'0\nbehind 3 10\n'
        """
        more = f" {self.least.epoch} {self.least.offset}" if self.holding is Holding.BEHIND else ""
        return f"0\n{self.holding.value}{more}\n".encode()


NEW_QUORUM: Final = Held(Holding.NEW).render()
"""What ``format --new-quorum`` writes."""


def remembered(data: bytes | None, *, empty: bool) -> Held:
    """The state at a start.

    Args:
        data: content of the file, None if there is none. Anything else in it counts as unknown.
        empty: recovery found no record.
    """
    found = None if data is None else _TEXT.fullmatch(data)
    if data is None:
        holding = Holding.WHOLE
    elif found is None:
        holding = Holding.UNKNOWN
    elif found[1] is None:
        return Held(Holding.BEHIND, LogEnd(int(found[2]), int(found[3])))
    else:
        holding = Holding(found[1].decode())
    if holding is Holding.WHOLE and empty:
        holding = Holding.UNKNOWN
    return Held(holding).settled(empty=empty, caught_up=False)


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


class VoterEvent(enum.Enum):
    """Why a voter changes its state."""

    TIMED_OUT = "timed out"
    """The election timeout or the fetch timeout is over, or there are no other voters."""
    VOTE_GRANTED = "vote granted"
    """To another voter."""
    ELECTED = "elected"
    """A majority has granted its vote."""
    EPOCH_NAMED = "epoch named"
    """A voter named a later epoch, and no leader of it."""
    LEADER_NAMED = "leader named"
    """A voter named another one as leader of a later epoch, or of this one."""
    SELF_NAMED = "self named"
    """A voter named this one as leader of a later epoch: its disk was lost, or is an old copy."""
    RESIGNED = "resigned"


_S, _E = VoterState, VoterEvent
NEXT: Final[Mapping[tuple[VoterState, VoterEvent], VoterState]] = {
    (_S.UNATTACHED, _E.TIMED_OUT): _S.CANDIDATE,
    (_S.UNATTACHED, _E.VOTE_GRANTED): _S.UNATTACHED,
    (_S.UNATTACHED, _E.EPOCH_NAMED): _S.UNATTACHED,
    (_S.UNATTACHED, _E.LEADER_NAMED): _S.FOLLOWER,
    (_S.UNATTACHED, _E.SELF_NAMED): _S.RESIGNED,
    (_S.CANDIDATE, _E.TIMED_OUT): _S.CANDIDATE,
    (_S.CANDIDATE, _E.ELECTED): _S.LEADER,
    (_S.CANDIDATE, _E.EPOCH_NAMED): _S.UNATTACHED,
    (_S.CANDIDATE, _E.LEADER_NAMED): _S.FOLLOWER,
    (_S.CANDIDATE, _E.SELF_NAMED): _S.RESIGNED,
    (_S.LEADER, _E.EPOCH_NAMED): _S.UNATTACHED,
    (_S.LEADER, _E.LEADER_NAMED): _S.FOLLOWER,
    (_S.LEADER, _E.SELF_NAMED): _S.RESIGNED,
    (_S.LEADER, _E.RESIGNED): _S.RESIGNED,
    (_S.FOLLOWER, _E.TIMED_OUT): _S.CANDIDATE,
    (_S.FOLLOWER, _E.EPOCH_NAMED): _S.UNATTACHED,
    (_S.FOLLOWER, _E.LEADER_NAMED): _S.FOLLOWER,
    (_S.FOLLOWER, _E.SELF_NAMED): _S.RESIGNED,
    (_S.RESIGNED, _E.TIMED_OUT): _S.CANDIDATE,
    (_S.RESIGNED, _E.EPOCH_NAMED): _S.UNATTACHED,
    (_S.RESIGNED, _E.LEADER_NAMED): _S.FOLLOWER,
    (_S.RESIGNED, _E.SELF_NAMED): _S.RESIGNED,
}
"""State and event -> the state after it. Any other event is a bug and stops the node."""


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

    __slots__ = ("_node_id", "_voters", "election", "epoch", "is_leader", "leader_id", "state")

    def __init__(self, node_id: int, voters: AbstractSet[int], election: ElectionState) -> None:
        self._node_id = node_id
        self._voters = frozenset(voters)
        if election.leader_id == node_id:
            self._set(VoterState.RESIGNED, election)
        elif election.leader_id in self._voters:
            self._set(VoterState.FOLLOWER, election)
        else:
            self._set(VoterState.UNATTACHED, election)

    def _set(self, state: VoterState, election: ElectionState) -> None:
        self.state, self.election = state, election
        # Read several times in every step, and changed in an election.
        self.epoch, self.leader_id = election.epoch, election.leader_id
        self.is_leader = state is VoterState.LEADER

    def render(self) -> bytes:
        """Content of the file that must be durable before this state is used in a message."""
        return render(self.election, self._voters)

    def to_candidate(self) -> None:
        """Become candidate in the next epoch and vote for ourselves."""
        self._enter(VoterEvent.TIMED_OUT, ElectionState(self.epoch + 1, NONE, self._node_id))

    def to_leader(self) -> None:
        """Become leader of the current epoch; the caller has counted a majority of votes."""
        self._enter(
            VoterEvent.ELECTED, replace(self.election, leader_id=self._node_id, voted_id=NONE)
        )

    def to_unattached(self, epoch: int) -> None:
        """Enter a later epoch whose leader is unknown."""
        assert epoch > self.epoch, f"epoch {epoch} is not after {self.epoch}"
        self._enter(VoterEvent.EPOCH_NAMED, ElectionState(epoch))

    def to_voted(self, candidate_id: int) -> None:
        """Give this epoch's vote to a candidate."""
        assert self.election.voted_id in {NONE, candidate_id}, "one vote in an epoch"
        assert self.leader_id == NONE, "no vote once the leader is known"
        self._enter(VoterEvent.VOTE_GRANTED, replace(self.election, voted_id=candidate_id))

    def to_follower(self, epoch: int, leader_id: int) -> None:
        """Follow another voter in its epoch; as in Kafka 3.9 the vote is not kept then."""
        assert leader_id not in {NONE, self._node_id}, "another voter is followed"
        self._enter(VoterEvent.LEADER_NAMED, ElectionState(epoch, leader_id))

    def to_resigned(self, epoch: int) -> None:
        """Lead no more in an epoch in which this node was the leader.

        A later epoch than the own one: others know that this node led it, its disk does not.
        """
        event = VoterEvent.RESIGNED if epoch == self.epoch else VoterEvent.SELF_NAMED
        self._enter(event, ElectionState(epoch, self._node_id))

    def _enter(self, event: VoterEvent, election: ElectionState) -> None:
        state = state_after(NEXT, self.state, event)
        old = self.election
        assert election.epoch >= old.epoch, f"epoch {old.epoch} cannot go back to {election.epoch}"
        if election.epoch == old.epoch:
            known = old.leader_id != NONE
            assert not known or old.leader_id == election.leader_id, "one leader for an epoch"
        self._set(state, election)
