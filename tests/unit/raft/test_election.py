"""Elections of one voter: votes, timeouts, resignation. Messages of the others are made up."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.config.quorum import QuorumTimes
from emulator.raft.asking import Ask, LogEnd
from emulator.raft.config import RaftConfig
from emulator.raft.election import ANSWERED_MAX, EPOCH_LAST, JUMP_MAX, YIELDS, QuorumElection
from emulator.raft.quorum_state import (
    NEW_QUORUM,
    ElectionState,
    Held,
    Holding,
    QuorumState,
    VoterState,
    remembered,
)
from tests.unit.raft.world import CLUSTER
from wire import messages as m

NEW = Held(Holding.NEW)
WHOLE = Held(Holding.WHOLE)
UNKNOWN = Held(Holding.UNKNOWN)
BEHIND = Held(Holding.BEHIND, LogEnd(3, 10))
TIMES = QuorumTimes()
NOW = 1_000_000


class One:
    """Voter 1 of three, with a log that ends at (3, 10)."""

    def __init__(
        self,
        election: ElectionState = ElectionState(3),  # noqa: B008  # frozen
        held: Held = WHOLE,
        end: LogEnd = LogEnd(3, 10),  # noqa: B008  # frozen
        voters: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        config = RaftConfig(1, CLUSTER, {each: (f"host-{each}", each) for each in voters})
        self.quorum = QuorumState(1, set(voters), election)
        self.end = end
        self.election = QuorumElection(config, self.quorum, Random(1), lambda: self.end, held)
        self.now = NOW
        self.election.start(NOW)

    def tick(self) -> None:
        """Let time pass until something is due."""
        deadline_ms = self.election.deadline_ms
        assert deadline_ms is not None
        self.now = max(self.now, deadline_ms)
        self.election.tick(self.now)

    def asked(self) -> list[tuple[int, type]]:
        asks, self.election.asks[:] = list(self.election.asks), []
        return [(ask.node_id, type(ask.message)) for ask in asks]

    def answered(self, node_id: int, epoch: int | None = None, *, granted: bool) -> None:
        ask = Ask(node_id, self.quorum.epoch if epoch is None else epoch, None)
        self.election.vote_answered(ask, granted=granted, now_ms=self.now)

    def vote(self, candidate_id: int, epoch: int, end: tuple[int, int]) -> bool:
        return self.election.vote_asked(candidate_id, epoch, LogEnd(*end), self.now)

    def candidate(self) -> One:
        self.tick()
        assert self.quorum.state is VoterState.CANDIDATE
        return self

    def leader(self) -> One:
        self.candidate().answered(2, granted=True)
        assert self.quorum.is_leader
        self.asked()
        return self


@pytest.mark.parametrize(
    ("found", "state", "after_ms"),
    [
        (ElectionState(3), VoterState.UNATTACHED, range(1_000, 2_000)),
        (ElectionState(3, -1, 2), VoterState.UNATTACHED, range(1_000, 2_000)),
        (ElectionState(3, 1), VoterState.RESIGNED, range(1_000, 2_000)),
        (ElectionState(3, 2), VoterState.FOLLOWER, [2_000]),
    ],
)
def test_a_start_goes_on_from_the_file_and_stands_in_the_next_epoch(found, state, after_ms):
    one = One(found)
    assert one.quorum.state is state
    assert one.election.deadline_ms - NOW in after_ms
    one.tick()
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.CANDIDATE, 4)
    assert one.election.changed
    assert one.asked() == [(2, m.VoteRequest), (3, m.VoteRequest)]


def test_a_majority_wins_and_the_others_are_told_now_and_again():
    one = One().candidate()
    one.asked()
    one.answered(2, granted=True)
    assert one.quorum.is_leader
    assert one.asked() == [(2, m.BeginQuorumEpochRequest), (3, m.BeginQuorumEpochRequest)]
    one.election.progress.fetched(2, 10, 10, one.now + 900)
    one.tick()
    assert one.now == NOW + one.now - NOW
    assert one.asked() == [(3, m.BeginQuorumEpochRequest)], "voter 2 fetches"


@pytest.mark.parametrize("epoch", [3, 5])
def test_votes_of_another_epoch_count_nothing(epoch):
    one = One().candidate()
    one.answered(2, epoch, granted=True)
    assert one.quorum.state is VoterState.CANDIDATE


def test_a_vote_that_comes_twice_counts_once():
    one = One(voters=(1, 2, 3, 4, 5)).candidate()
    one.answered(2, granted=True)
    one.answered(2, granted=True)
    assert one.quorum.state is VoterState.CANDIDATE
    one.answered(3, granted=True)
    assert one.quorum.is_leader


def test_an_election_that_cannot_be_won_is_followed_by_a_pause_and_another():
    one = One().candidate()
    one.answered(2, granted=False)
    before = one.now
    one.answered(3, granted=False)
    assert one.election.deadline_ms - before <= TIMES.backoff_max_ms
    one.tick()
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.CANDIDATE, 5)


def test_a_split_vote_does_not_wait_for_the_dead():
    one = One().candidate()
    (_, third) = one.election.asks
    one.election.unanswered(third, one.now)
    one.election.tick(one.now)
    patient_ms = one.election._timer_ms
    one.answered(2, granted=False)
    assert one.election._timer_ms < min(patient_ms, one.now + TIMES.backoff_max_ms)
    lone = One().candidate()
    patient_ms = lone.election._timer_ms
    for ask in list(lone.election.asks):
        lone.election.unanswered(ask, lone.now)
    assert lone.election._timer_ms == patient_ms, "alone it makes no epochs in haste"


@pytest.mark.parametrize(
    ("election", "candidate_id", "epoch", "end", "granted"),
    [
        (ElectionState(3), 2, 3, (3, 10), True),
        (ElectionState(3), 2, 9, (3, 10), True),
        (ElectionState(3), 2, 9, (4, 1), True),
        (ElectionState(3), 2, 9, (3, 9), False),
        (ElectionState(3), 2, 9, (2, 99), False),
        (ElectionState(3, -1, 2), 2, 3, (3, 10), True),
        (ElectionState(3, -1, 3), 2, 3, (3, 10), False),
        (ElectionState(3, -1, 3), 2, 4, (3, 10), True),
        (ElectionState(3, 3), 2, 3, (3, 10), False),
        (ElectionState(3, 3), 2, 4, (3, 10), True),
        (ElectionState(3, 1), 2, 3, (3, 10), False),
        (ElectionState(3), 7, 9, (9, 99), False),
        (ElectionState(3), 1, 9, (9, 99), False),
    ],
)
def test_whom_a_voter_votes_for(election, candidate_id, epoch, end, granted):
    one = One(election)
    assert one.vote(candidate_id, epoch, end) is granted
    known = candidate_id in {2, 3}
    news = one.quorum.election != election
    assert one.election.changed is news, "the file must hold it before the answer is sent"
    assert one.quorum.epoch == (epoch if known else 3), "nobody else makes epochs"
    assert one.vote(candidate_id, epoch, end) is granted, "the same question, the same answer"
    other = 5 - candidate_id if known else 2
    if granted:
        assert not one.vote(other, epoch, (9, 99)), "one vote in an epoch"


def test_a_leader_and_a_candidate_vote_for_nobody_in_their_epoch():
    assert not One().candidate().vote(2, 4, (9, 99))
    one = One().leader()
    assert not one.vote(2, 4, (9, 99))
    assert one.quorum.is_leader
    assert one.vote(2, 5, (9, 99))
    assert one.quorum.state is VoterState.UNATTACHED


def test_one_that_stands_again_and_again_does_not_keep_others_from_it():
    one = One()
    due_ms = one.election.deadline_ms
    for epoch in range(4, 9):
        one.now += 100
        assert not one.vote(2, epoch, (1, 1))
        assert one.election.deadline_ms == due_ms
    assert one.vote(3, 9, (3, 10))
    assert one.election.deadline_ms > due_ms, "a vote is a reason to wait"


def test_a_leader_that_no_majority_fetches_from_resigns():
    one = One().leader()
    start = one.now
    one.election.progress.fetched(3, 10, 10, start + 500)
    while one.quorum.is_leader:
        one.tick()
    assert one.now == start + 500 + TIMES.check_quorum_ms
    assert one.quorum.state is VoterState.RESIGNED
    kinds = {kind for _, kind in one.asked()}
    assert m.EndQuorumEpochRequest in kinds
    one.election.epoch_named(4, 1, one.now)
    assert one.quorum.state is VoterState.RESIGNED, "it does not lead on because somebody says so"


def test_a_leader_that_leaves_names_the_longest_log_first_and_stands_no_more():
    one = One().leader()
    one.election.progress.fetched(3, 10, 10, one.now)
    one.election.progress.fetched(2, 7, 10, one.now)
    one.election.leave(one.now)
    (first, _) = one.election.asks
    named: Any = first.message
    assert [each.candidate_id for each in named.topics[0].partitions[0].preferred_candidates] == [
        3,
        2,
    ]
    assert one.election.deadline_ms is None
    one.election.epoch_named(9, -1, one.now)
    assert one.election.deadline_ms is None


@pytest.mark.parametrize(
    ("successors", "wait_ms"), [([1, 3], 0), ([3, 1], 500), ([3], 1_000), ([], 1_000)]
)
def test_a_follower_stands_by_its_place_among_the_successors(successors, wait_ms):
    one = One(ElectionState(3, 2))
    one.election.ended(2, 3, successors, one.now)
    assert one.election.deadline_ms == NOW + wait_ms


def test_who_yields_lets_the_others_stand_first_when_a_leader_has_resigned():
    follows, leads = One(ElectionState(3, 2)), One().leader()
    follows.election.yielded_ms = leads.election.yielded_ms = YIELDS * TIMES.election_ms
    follows.election.ended(2, 3, [1, 3], follows.now)
    assert follows.election.deadline_ms == NOW + YIELDS * TIMES.election_ms
    leads.election.resign(leads.now)
    due_ms = leads.election.deadline_ms
    assert due_ms >= leads.now + (1 + YIELDS) * TIMES.election_ms
    follows = One(ElectionState(3, 2))
    follows.election.yielded_ms = YIELDS * TIMES.election_ms
    assert follows.election.deadline_ms == NOW + TIMES.fetch_ms, "not when one has died"


@pytest.mark.parametrize(("leader_id", "epoch"), [(2, 2), (3, 3)])
def test_a_resignation_of_nobody_we_follow_changes_nothing(leader_id, epoch):
    one = One(ElectionState(3, 2))
    one.election.ended(leader_id, epoch, [1], one.now)
    assert (one.quorum.election, one.election.deadline_ms) == (ElectionState(3, 2), NOW + 2_000)


def test_what_others_say_about_epochs():
    one = One()
    one.election.epoch_named(2, 3, NOW)
    assert one.quorum.epoch == 3
    one.election.epoch_named(4, 7, NOW)
    assert one.quorum.epoch == 3, "no voter"
    one.election.epoch_named(3, 2, NOW)
    assert (one.quorum.state, one.quorum.leader_id) == (VoterState.FOLLOWER, 2)
    one.election.epoch_named(3, 3, NOW)
    assert one.quorum.leader_id == 2, "one leader for an epoch"
    one.election.epoch_named(5, -1, NOW)
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.UNATTACHED, 5)
    one.election.epoch_named(6, 1, NOW)
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.RESIGNED, 6)
    assert not one.vote(2, 6, (9, 99)), "we led that epoch, and our disk was lost"


def test_an_old_copy_of_the_disk_of_a_leader_resigns_in_the_epoch_that_it_has_lost():
    one = One(ElectionState(3, 1))
    one.election.epoch_named(5, 1, NOW)
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.RESIGNED, 5)
    assert not one.vote(2, 5, (9, 99)), "it led that epoch"
    one.candidate()
    assert one.quorum.epoch == 6


@pytest.mark.parametrize("epoch", [3 + JUMP_MAX + 1, 2**30 + 1, 2**31 - 1])
def test_an_epoch_after_which_there_are_no_more_is_not_taken_over(epoch):
    one = One()
    assert not one.vote(2, epoch, (3, 10))
    one.election.epoch_named(epoch, 2, NOW)
    one.election.ended(2, epoch, [1], NOW)
    assert (one.quorum.epoch, one.quorum.election.voted_id) == (3, -1)
    assert [line.level for line in one.election.log] == ["warning"] * 3
    assert one.candidate().quorum.epoch == 4


@pytest.mark.parametrize("own", [3, 2**20, 2**30 - 1, 2**30, 2**30 + 1, 2**31 - 2**24])
def test_there_is_no_epoch_at_which_elections_change(own):
    """One that is far behind learns the epoch from answers, which its own requests ask for."""
    one = One(ElectionState(own))
    assert one.vote(2, own + 1, (own, 10))
    assert one.vote(3, own + JUMP_MAX + 1, (own, 10))
    assert not one.vote(2, one.quorum.epoch + JUMP_MAX + 1, (own, 10))
    assert one.quorum.epoch == own + JUMP_MAX + 1
    one.candidate().answered(2, granted=True)
    assert one.quorum.is_leader
    behind = One(ElectionState(0))
    behind.election.epoch_named(own, 2, NOW)
    assert behind.quorum.epoch == (own if own <= JUMP_MAX else 0)
    behind.election.epoch_named(own, 2, NOW, answered=True)
    assert (behind.quorum.epoch, behind.quorum.leader_id) == (own, 2)


def test_no_answer_takes_the_last_epochs_away_and_after_the_last_nobody_stands():
    one = One()
    one.election.epoch_named(ANSWERED_MAX + 1, 2, NOW, answered=True)
    assert one.quorum.epoch == 3
    last = One(ElectionState(EPOCH_LAST))
    for _ in range(5):
        last.tick()
    assert last.quorum.election == ElectionState(EPOCH_LAST)
    assert last.asked() == []
    assert [line.event for line in last.election.log if line.level == "warning"] == [
        "not a candidate: there is no later epoch"
    ]


@pytest.mark.parametrize(
    ("held", "own", "end", "granted"),
    [
        (NEW, (0, 0), (0, 0), True),
        (NEW, (0, 0), (3, 10), True),
        (WHOLE, (3, 2), (3, 10), True),
        (UNKNOWN, (0, 0), (0, 0), False),
        (UNKNOWN, (0, 0), (3, 10), False),
        (BEHIND, (0, 0), (0, 0), False),
        (BEHIND, (3, 2), (3, 9), False),
        (BEHIND, (3, 2), (2, 99), False),
        (BEHIND, (3, 2), (3, 10), True),
        (BEHIND, (3, 2), (4, 11), True),
    ],
)
def test_a_voter_that_may_have_lost_records_elects_nobody_who_may_lack_them(
    held, own, end, granted
):
    one = One(ElectionState(0), held, LogEnd(*own))
    assert one.vote(2, 5, end) is granted


@pytest.mark.parametrize(
    ("held", "own", "stands"),
    [
        (NEW, (0, 0), True),
        (WHOLE, (3, 2), True),
        (UNKNOWN, (0, 0), False),
        (BEHIND, (3, 2), False),
    ],
)
def test_and_it_does_not_stand(held, own, stands):
    one = One(ElectionState(0), held, LogEnd(*own))
    for _ in range(3):
        one.tick()
    assert (one.quorum.state is VoterState.CANDIDATE) is stands
    said = [line.event for line in one.election.log if line.level == "warning"]
    assert len(said) == (not stands), "once in an epoch"


def test_one_that_helped_to_begin_the_log_has_lost_nothing():
    one = One(ElectionState(0), NEW, LogEnd(0, 0))
    assert one.vote(2, 1, (0, 0))
    assert one.vote(3, 2, (0, 0))
    assert one.vote(3, 4, (1, 5)), "this voter has acknowledged nothing, whoever won"
    assert one.vote(2, 5, (1, 1))


@pytest.mark.parametrize("held", [NEW, WHOLE, UNKNOWN, BEHIND])
@pytest.mark.parametrize("empty", [True, False])
def test_what_was_lost_is_remembered_in_a_file(held, empty):
    found = remembered(held.render(), empty=empty)
    wholly = {(Holding.NEW, False): WHOLE, (Holding.WHOLE, True): UNKNOWN}
    assert found == wholly.get((held.holding, empty), held)
    assert remembered(None, empty=empty) == (UNKNOWN if empty else WHOLE)
    for damaged in (b"", b"new", b"0\nnew", b"1\nnew\n", b"0\nbehind 3\n", b"anything"):
        assert remembered(damaged, empty=empty) == UNKNOWN, "the worst"
    assert remembered(NEW_QUORUM, empty=True) == NEW


@pytest.mark.parametrize("caught_up", [True, False])
@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("held", [NEW, WHOLE, UNKNOWN, BEHIND])
def test_how_a_voter_becomes_whole(held, empty, caught_up):
    found = held.settled(empty=empty, caught_up=caught_up)
    if held in {NEW, WHOLE}:
        assert found == (NEW if empty else WHOLE)
    else:
        assert found == (WHOLE if caught_up and not empty else held)


@pytest.mark.parametrize("mark", [-1, 0, 1, 7])
@pytest.mark.parametrize("held", [NEW, WHOLE, UNKNOWN, BEHIND])
def test_the_first_that_a_leader_tells_is_remembered(held, mark):
    told = Held(Holding.BEHIND, LogEnd(8, mark))
    changes = held == UNKNOWN and mark > 0
    assert held.followed(8, mark, lacks=False) == (told if changes else held)
    assert held.followed(8, mark, lacks=True) == (told if mark > 0 else held)


@pytest.mark.parametrize("held", [UNKNOWN, BEHIND])
def test_of_two_voters_the_other_has_everything(held):
    one = One(ElectionState(0), held, LogEnd(0, 0), voters=(1, 2))
    assert one.vote(2, 5, (3, 1))


def test_a_voter_that_has_joined_votes_as_any_other():
    one = One(ElectionState(0), BEHIND, LogEnd(3, 10))
    one.election.held = one.election.held.settled(empty=False, caught_up=True)
    assert one.vote(2, 5, (3, 10))
    assert not one.vote(3, 6, (3, 9))
    assert one.candidate()


def test_a_leader_whose_disk_does_not_answer_resigns_though_others_fetch():
    one = One().leader()
    start = one.now
    one.election.disk_late(start + 500)
    while one.quorum.is_leader:
        one.tick()
        one.election.progress.fetched(2, 10, 10, one.now)
    assert one.now == start + 500 + TIMES.check_quorum_ms
    assert m.EndQuorumEpochRequest in {kind for _, kind in one.asked()}
    busy = One().leader()
    start = busy.now
    while busy.now < start + 20_000:
        busy.tick()
        busy.election.disk_late(busy.now - 500)
        busy.election.progress.fetched(2, 10, 10, busy.now)
    assert busy.quorum.is_leader, "each sync ends"


@pytest.mark.parametrize("state", [ElectionState(3), ElectionState(3, 1), ElectionState(3, 2)])
def test_nobody_stands_with_a_log_that_is_not_durable(state):
    one = One(state)
    one.election.disk_late(NOW)
    for now_ms in range(NOW, NOW + 20_000, 100):
        one.election.tick(now_ms)
    assert (one.quorum.election, one.asked()) == (state, [])
    one.election.disk_late(None)
    one.tick()
    assert one.quorum.state is VoterState.CANDIDATE


@pytest.mark.parametrize(("successors", "wait_ms"), [([1, 3], 0), ([3, 1], 500), ([], 1_000)])
@pytest.mark.parametrize("sync_ms", [10, 700, 2_500])
def test_a_successor_stands_as_soon_as_its_log_is_durable(successors, wait_ms, sync_ms):
    """What the leader sent last may still be on its way to the disk."""
    one = One(ElectionState(3, 2))
    one.election.disk_late(NOW)
    one.election.ended(2, 3, successors, NOW)
    one.election.fetched(NOW)
    assert one.election.deadline_ms is None, "an answer that was overtaken puts nothing off"
    one.election.tick(NOW + sync_ms)
    assert one.quorum.state is VoterState.FOLLOWER
    one.now = NOW + sync_ms
    one.election.disk_late(None)
    one.tick()
    assert one.quorum.state is VoterState.CANDIDATE
    assert one.now == NOW + max(wait_ms, sync_ms)


def test_a_candidate_whose_log_is_shorter_does_not_put_off_a_successor_that_waits_for_its_disk():
    one = One(ElectionState(3, 2))
    one.election.disk_late(NOW)
    one.election.ended(2, 3, [1, 3], NOW)
    one.now += 500
    assert not one.vote(3, 4, (3, 9))
    one.election.tick(one.now)
    assert one.quorum.state is VoterState.UNATTACHED
    one.now += 10
    one.election.disk_late(None)
    assert one.election.deadline_ms == NOW
    assert one.candidate().quorum.epoch == 5


def test_a_follower_of_a_leader_that_has_not_resigned_asks_first_when_its_disk_is_done():
    one = One(ElectionState(3, 2))
    one.election.disk_late(NOW)
    one.tick()
    one.election.disk_late(None)
    assert (one.now, one.quorum.state) == (NOW + TIMES.fetch_ms, VoterState.FOLLOWER)
    assert one.election.deadline_ms == NOW + 2 * TIMES.fetch_ms
