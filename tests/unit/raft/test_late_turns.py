"""A follower whose own turn is late does not take that for silence of its leader."""

from __future__ import annotations

import pytest

from emulator.raft.election import LATE_MS
from emulator.raft.quorum_state import ElectionState, VoterState
from tests.unit.raft.test_election import TIMES, One


def following() -> One:
    return One(ElectionState(3, 2))


def test_a_turn_in_time_stands_at_once():
    one = following()
    one.tick()
    assert one.quorum.state is VoterState.CANDIDATE
    assert one.now == 1_000_000 + TIMES.fetch_ms


@pytest.mark.parametrize("late_ms", [LATE_MS, 900, 60_000])
def test_a_late_turn_waits_for_one_more_answer(late_ms):
    one = following()
    assert one.election.deadline_ms is not None
    one.now = one.election.deadline_ms + late_ms
    one.election.tick(one.now)
    assert one.quorum.state is VoterState.FOLLOWER
    one.now += 2
    one.election.fetched(one.now)
    assert one.election.deadline_ms == one.now + TIMES.fetch_ms
    one.now = one.election.deadline_ms + late_ms
    one.election.tick(one.now)
    assert one.quorum.state is VoterState.FOLLOWER, "another late turn, another leader's answer"


def test_a_leader_that_stays_silent_is_left_though_each_turn_is_late():
    one = following()
    assert one.election.deadline_ms is not None
    one.now = one.election.deadline_ms + 900
    one.election.tick(one.now)
    assert one.election.deadline_ms is not None
    assert one.election.deadline_ms == one.now + TIMES.fetch_ms // 4
    one.now = one.election.deadline_ms + 900
    one.election.tick(one.now)
    assert one.quorum.state is VoterState.CANDIDATE
