"""Faults planted in the quorum of three: a named seed notices each, by the promise it breaks."""

from dataclasses import replace

import pytest

from emulator.raft.asking import LogEnd
from emulator.raft.election import Progress, QuorumElection
from emulator.raft.member import Following
from emulator.raft.quorum_state import Held, QuorumState, VoterState
from emulator.simulation.models.process import Process
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios.scenario import Scenario

STILL = Scenario(controllers=3, migration=False, topics=0, changes=30, change_every_ms=100)
SLOW = replace(STILL, changes=60, sync_us=(1 * MS, 60 * MS))
CRASHED = replace(
    SLOW, faults_within_ms=6_000, faults=tuple(f"voter-crash/{name}" for name in "abcdef")
)
PARTED = replace(
    STILL,
    changes=60,
    change_every_ms=200,
    faults_within_ms=9_000,
    faults=(
        "voters-parted/a",
        "voters-parted/b",
        "voter-crash@ELECTED_AGAIN+5",
        "voter-crash/d",
        "voters-parted@ELECTED_AGAIN+20/e",
    ),
)
LOST = replace(
    PARTED,
    faults=(
        "voters-parted/a",
        "voters-parted/b",
        "voter-disk-lost/a",
        "voter-crash/d",
        "voter-disk-lost/b",
    ),
)
SNAPSHOTS = replace(
    PARTED,
    snapshot_interval_ms=1_500,
    faults=("voter-disk-lost/a", "voters-parted/b", "voter-disk-lost/b", "voter-crash/b"),
)


def found(simulate, seed, scenario):
    return simulate(seed, scenario).invariant


@pytest.mark.parametrize(
    ("seed", "scenario"),
    [(2, STILL), (2, SLOW), (3, CRASHED), (4, PARTED), (4, LOST), (4, SNAPSHOTS)],
)
def test_nothing_planted_nothing_noticed(simulate, seed, scenario):
    assert found(simulate, seed, scenario) == ""


def test_a_leader_that_counts_only_itself(simulate, monkeypatch):
    monkeypatch.setattr(Progress, "majority_end", lambda self, own_end: own_end)
    assert found(simulate, 2, STILL) == "mark-is-committed"


def test_a_leader_that_counts_itself_before_its_disk_has_it(simulate, monkeypatch):
    real = Progress.majority_end
    monkeypatch.setattr(Progress, "majority_end", lambda self, _: real(self, 2**62))
    assert found(simulate, 2, SLOW) == "mark-is-committed"


def test_a_leader_that_leads_its_epoch_on_without_what_it_has_sent(simulate, monkeypatch):
    real = QuorumElection.start

    def start(self, now_ms):
        real(self, now_ms)
        if self.quorum.state is VoterState.RESIGNED:
            self.quorum._set(VoterState.LEADER, self.quorum.election)
            self.granting = {self.config.node_id, *self._others}
            self.progress = Progress(self._others, now_ms)
            self._begin_epoch(now_ms)

    monkeypatch.setattr(QuorumElection, "start", start)
    assert found(simulate, 3, CRASHED) == "log-matches"


def test_a_follower_that_acknowledges_what_is_not_durable(simulate, monkeypatch):
    def deadline_ms(self):
        return None if self._asked is not None or not self._asks else self._due_ms

    monkeypatch.setattr(Following, "deadline_ms", property(deadline_ms))
    assert found(simulate, 2, STILL) == "mark-is-committed"


def test_a_vote_that_is_not_on_the_disk(simulate, monkeypatch):
    real = QuorumState.render

    def render(self):
        voted = self.state is VoterState.UNATTACHED
        election = self.election
        self.election = replace(election, voted_id=-1) if voted else election
        try:
            return real(self)
        finally:
            self.election = election

    monkeypatch.setattr(QuorumState, "render", render)
    assert found(simulate, 2, STILL) == "one-vote"


def test_a_candidate_that_needs_no_vote_but_its_own(simulate, monkeypatch):
    monkeypatch.setattr(QuorumElection, "majority", property(lambda _: 1))
    assert found(simulate, 2, STILL) == "one-vote"


def test_a_follower_that_says_that_it_is_active(simulate, monkeypatch):
    monkeypatch.setattr(Process, "active_epoch", property(lambda one: one.node.raft.leader_epoch))
    assert found(simulate, 2, STILL) in {"one-active", "one-leader"}


def test_a_voter_that_votes_for_a_shorter_log(simulate, monkeypatch):
    real = QuorumElection.vote_asked

    def vote_asked(self, *args):
        own, self._log_end = self._log_end, lambda: LogEnd(0, 0)
        try:
            return real(self, *args)
        finally:
            self._log_end = own

    monkeypatch.setattr(QuorumElection, "vote_asked", vote_asked)
    assert found(simulate, 4, PARTED) == "leader-is-complete"


def test_a_voter_whose_disk_was_lost_and_that_elects_as_before(simulate, monkeypatch):
    monkeypatch.setattr(Held, "may_elect", lambda *_: True)
    assert found(simulate, 4, LOST) == "leader-is-complete"


def test_a_log_that_is_deleted_before_its_snapshot_is_written(simulate, monkeypatch):
    real = Following._install

    def install(self, loading, now_ms):
        snapshot = loading.snapshot
        *before, write = real(self, loading, now_ms)
        cut = self._replica.log.restart_at(snapshot.end_offset, snapshot.epoch)
        return [*before, *cut, write]

    monkeypatch.setattr(Following, "_install", install)
    assert found(simulate, 4, SNAPSHOTS) == "committed-survives"
