"""Elections of one voter: votes, timeouts, resignation. Messages of the others are made up."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.config.quorum import QuorumTimes
from emulator.raft.asking import Ask, LogEnd
from emulator.raft.config import RaftConfig
from emulator.raft.election import QuorumElection
from emulator.raft.joining import VOTES_KEPT, Lack, remembered, text
from emulator.raft.quorum_state import ElectionState, QuorumState, VoterState
from tests.unit.raft.world import CLUSTER
from wire import messages as m

HAS_ALL = Lack(joining=False, records=True)
TIMES = QuorumTimes()
NOW = 1_000_000


class One:
    """Voter 1 of three, with a log that ends at (3, 10)."""

    def __init__(
        self,
        election: ElectionState = ElectionState(3),  # noqa: B008  # frozen
        lack: Lack = HAS_ALL,
        end: LogEnd = LogEnd(3, 10),  # noqa: B008  # frozen
        voters: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        config = RaftConfig(1, CLUSTER, {each: (f"host-{each}", each) for each in voters})
        self.quorum = QuorumState(1, set(voters), election)
        self.end = end
        self.election = QuorumElection(config, self.quorum, Random(1), lambda: self.end, lack)
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
    one.election.told(4, 1, one.now)
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
    one.election.told(9, -1, one.now)
    assert one.election.deadline_ms is None


@pytest.mark.parametrize(
    ("successors", "wait_ms"), [([1, 3], 0), ([3, 1], 500), ([3], 1_000), ([], 1_000)]
)
def test_a_follower_stands_by_its_place_among_the_successors(successors, wait_ms):
    one = One(ElectionState(3, 2))
    one.election.ended(2, 3, successors, one.now)
    assert one.election.deadline_ms == NOW + wait_ms


@pytest.mark.parametrize(("leader_id", "epoch"), [(2, 2), (3, 3)])
def test_a_resignation_of_nobody_we_follow_changes_nothing(leader_id, epoch):
    one = One(ElectionState(3, 2))
    one.election.ended(leader_id, epoch, [1], one.now)
    assert (one.quorum.election, one.election.deadline_ms) == (ElectionState(3, 2), NOW + 2_000)


def test_what_others_say_about_epochs():
    one = One()
    one.election.told(2, 3, NOW)
    assert one.quorum.epoch == 3
    one.election.told(4, 7, NOW)
    assert one.quorum.epoch == 3, "no voter"
    one.election.told(3, 2, NOW)
    assert (one.quorum.state, one.quorum.leader_id) == (VoterState.FOLLOWER, 2)
    one.election.told(3, 3, NOW)
    assert one.quorum.leader_id == 2, "one leader for an epoch"
    one.election.told(5, -1, NOW)
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.UNATTACHED, 5)
    one.election.told(6, 1, NOW)
    assert (one.quorum.state, one.quorum.epoch) == (VoterState.RESIGNED, 6)
    assert not one.vote(2, 6, (9, 99)), "we led that epoch, and our disk was lost"


@pytest.mark.parametrize("epoch", [2**30 + 1, 2**31 - 1])
def test_an_epoch_after_which_there_are_no_more_is_not_taken_over(epoch):
    one = One()
    assert not one.vote(2, epoch, (3, 10))
    one.election.told(epoch, 2, NOW)
    one.election.ended(2, epoch, [1], NOW)
    assert (one.quorum.epoch, one.quorum.election.voted_id) == (3, -1)
    assert [line.level for line in one.election.log] == ["error"] * 3
    assert one.candidate().quorum.epoch == 4


NEW = Lack(joining=True, records=False)
LATE = Lack(joining=True, records=True)
WHOLE = Lack(joining=False, records=True)


@pytest.mark.parametrize(
    ("lack", "own", "end", "granted"),
    [
        (NEW, (0, 0), (0, 0), True),
        (NEW, (0, 0), (3, 10), False),
        (LATE, (0, 0), (0, 0), False),
        (LATE, (0, 0), (3, 10), False),
        (LATE, (3, 2), (3, 10), False),
        (WHOLE, (0, 0), (0, 0), False),
        (WHOLE, (0, 0), (3, 10), True),
    ],
)
def test_a_voter_that_may_have_lost_records_elects_nobody_who_may_lack_them(
    lack, own, end, granted
):
    one = One(ElectionState(0), lack, LogEnd(*own))
    assert one.vote(2, 5, end) is granted


@pytest.mark.parametrize(
    ("lack", "own", "stands"),
    [
        (NEW, (0, 0), True),
        (LATE, (0, 0), False),
        (LATE, (3, 2), False),
        (WHOLE, (0, 0), False),
        (WHOLE, (3, 2), True),
    ],
)
def test_and_it_does_not_stand(lack, own, stands):
    one = One(ElectionState(0), lack, LogEnd(*own))
    one.tick()
    assert (one.quorum.state is VoterState.CANDIDATE) is stands


def test_one_that_helped_to_begin_the_log_has_lost_nothing():
    one = One(ElectionState(0), NEW, LogEnd(0, 0))
    assert one.vote(2, 1, (0, 0))
    assert one.vote(3, 2, (0, 0))
    assert one.election.lack == Lack(joining=True, records=False, voted=((1, 2), (2, 3)))
    assert not one.vote(3, 4, (1, 5)), "perhaps voter 3 won epoch 1, with other votes"
    assert one.vote(2, 5, (1, 1)), "it has the record that opened epoch 1"
    assert not one.election.lack.joining


def test_what_was_lost_is_remembered_in_a_file():
    for lack in (NEW, LATE, NEW.with_vote(1, 3000).with_vote(7, 3002)):
        data = text(lack, empty=True)
        assert data is not None
        assert remembered(data, empty=True) == lack
    assert text(HAS_ALL, empty=False) is None
    assert remembered(b"anything", empty=True) == LATE, "the worst"
    many = NEW
    for epoch in range(100):
        many = many.with_vote(epoch, 1)
    assert len(many.voted) == VOTES_KEPT


def test_of_two_voters_the_other_has_everything():
    one = One(ElectionState(0), LATE, LogEnd(0, 0), voters=(1, 2))
    assert one.vote(2, 5, (3, 10))


def test_a_voter_that_has_joined_votes_as_any_other():
    one = One(ElectionState(0), LATE, LogEnd(3, 10))
    one.election.joined()
    assert one.vote(2, 5, (3, 10))
