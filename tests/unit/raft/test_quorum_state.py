"""The states of a voter and the file that remembers them."""

from __future__ import annotations

from itertools import product

import pytest

from emulator.raft import RecoveryError, quorum_state
from emulator.raft.quorum_state import (
    NEXT,
    ElectionState,
    QuorumState,
    VoterEvent,
    VoterState,
    parse,
    render,
    voters_in,
)
from tests.kit.tables import Watched, check_pairs
from tests.unit.raft.test_election import One


def _voter_in(state: VoterState) -> One:
    """Voter 1 of three in the epoch 4, from a disk or through an election."""
    leader_id = {VoterState.RESIGNED: 1, VoterState.FOLLOWER: 2}.get(state, -1)
    elects = state in {VoterState.CANDIDATE, VoterState.LEADER}
    one = One(ElectionState(3 if elects else 4, leader_id))
    if elects:
        one.candidate()
    if state is VoterState.LEADER:
        one.answered(2, granted=True)
    assert (one.quorum.state, one.quorum.epoch) == (state, 4)
    return one


def test_every_row_of_the_table_is_reached(monkeypatch):
    table = Watched(monkeypatch, quorum_state)
    named = ((-1, VoterState.UNATTACHED), (3, VoterState.FOLLOWER), (1, VoterState.RESIGNED))
    for state, (leader_id, after) in product(VoterState, named):
        one = _voter_in(state)
        one.election.epoch_named(5, leader_id, one.now)
        assert (one.quorum.state, one.quorum.election) == (after, ElectionState(5, leader_id))
    for state in set(VoterState) - {VoterState.LEADER}:
        one = _voter_in(state)
        while one.quorum.epoch == 4:
            one.tick()
        assert one.quorum.state is VoterState.CANDIDATE
        assert one.quorum.election == ElectionState(5, -1, 1)
    one = _voter_in(VoterState.UNATTACHED)
    assert one.vote(3, 4, (3, 10))
    assert one.quorum.state is VoterState.UNATTACHED
    assert one.quorum.election == ElectionState(4, -1, 3)
    one = _voter_in(VoterState.LEADER)
    one.election.resign(one.now)
    assert (one.quorum.state, one.quorum.election) == (VoterState.RESIGNED, ElectionState(4, 1))
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused():
    def after(state, event):
        quorum = QuorumState(1, {1, 2, 3}, ElectionState(4))
        quorum.state = state
        quorum._enter(event, ElectionState(5))
        return quorum.state

    check_pairs(NEXT, VoterState, VoterEvent, after)


@pytest.mark.parametrize(
    ("leader_id", "state"),
    [(3000, VoterState.RESIGNED), (3001, VoterState.UNATTACHED), (-1, VoterState.UNATTACHED)],
)
def test_a_leader_of_old_is_resigned_and_must_win_a_later_epoch(leader_id, state):
    quorum = QuorumState(3000, {3000}, ElectionState(4, leader_id))
    assert quorum.state is state
    with pytest.raises(AssertionError, match="elected: not while"):
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
