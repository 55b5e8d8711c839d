"""The states of a voter and the file that remembers them."""

from __future__ import annotations

import pytest

from emulator.raft import RecoveryError
from emulator.raft.quorum_state import (
    NEXT,
    ElectionState,
    QuorumState,
    VoterState,
    parse,
    render,
    voters_in,
)


def test_every_state_has_a_way_on_and_none_leads_without_standing():
    assert set(NEXT) == set(VoterState)
    assert {before for before, after in NEXT.items() if VoterState.LEADER in after} == {
        VoterState.CANDIDATE
    }
    assert VoterState.LEADER not in NEXT[VoterState.LEADER]


@pytest.mark.parametrize(
    ("leader_id", "state"),
    [(3000, VoterState.RESIGNED), (3001, VoterState.UNATTACHED), (-1, VoterState.UNATTACHED)],
)
def test_a_leader_of_old_is_resigned_and_must_win_a_later_epoch(leader_id, state):
    quorum = QuorumState(3000, {3000}, ElectionState(4, leader_id))
    assert quorum.state is state
    with pytest.raises(AssertionError, match="cannot become Leader"):
        quorum.to_leader()
    quorum.to_candidate()
    assert (quorum.election, quorum.is_leader) == (ElectionState(5, -1, 3000), False)
    quorum.to_leader()
    assert (quorum.election, quorum.is_leader) == (ElectionState(5, 3000, -1), True)


def test_the_file_is_read_as_it_was_written():
    election = ElectionState(7, 3000, -1)
    assert parse(render(election, {3000}), {3000}) == election
    assert parse(render(ElectionState(7, -1, 3000), {3000}), {3000}) == ElectionState(7, -1, 3000)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an election state"),
        (b'{"leaderId":1}', "not an election state"),
        (render(ElectionState(-1), {3000}), "leaderEpoch -1 is no epoch"),
        (render(ElectionState(2**31), {3000}), "leaderEpoch 2147483648 is no epoch"),
        (render(ElectionState(1, 9), {3000}), "leaderId 9 is no voter"),
        (render(ElectionState(1, -1, -7), {3000}), "votedId -7 is no voter"),
        (render(ElectionState(1), {3000}).replace(b'""', b'"\xff"'), "not an election state"),
        (b'{"x":' + b"[" * 100_000, "not an election state"),
        (render(ElectionState(1), {3000, 3001}), r"written for voters \[3000, 3001\]"),
        (render(ElectionState(1), {3000}).replace(b'version":0', b'version":1'), "dynamic quorum"),
    ],
)
def test_a_file_that_cannot_be_ours_stops_the_node(data, why):
    with pytest.raises(RecoveryError, match=why):
        parse(data, {3000})
    assert voters_in(data) <= {3000, 3001}
