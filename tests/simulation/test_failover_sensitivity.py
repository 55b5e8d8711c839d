"""Faults planted in three controllers that migrate: each is noticed, by the promise it breaks."""

from dataclasses import replace

import pytest

from emulator.controller.api import broker_registration
from emulator.controller.rules.finalisation import HELD
from emulator.node import finalising
from emulator.node.finalising import Finalising
from emulator.raft.election import Progress, QuorumElection
from emulator.simulation.checkers.finalised import FinalIsFinal
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated
from tests.kit.shares import rest_slow
from tests.simulation import plants

STILL = Scenario(controllers=3, topics=3, changes=20, change_every_ms=100)
FAILS_OVER = replace(
    STILL,
    changes=50,
    multi_ops=3,
    faults_within_ms=4_000,
    faults=("voter-kill@DUAL_WRITE+200/a", "voter-crash@DUAL_WRITE+300/b"),
)
PARTED = replace(
    FAILS_OVER,
    faults=("voters-parted@DUAL_WRITE+200/a", "voters-parted@DUAL_WRITE+300/b"),
    zookeeper_delay_us=(5_000, 60_000),
)

VIRTUAL_MS = 60_000


def found(simulate, scenario, seeds=3):
    """The first promise that a few seeds find broken; empty if all held."""
    names = (simulate(seed, scenario, kind="failover").invariant for seed in range(seeds))
    return next((name for name in names if name), "")


@pytest.mark.parametrize("scenario", rest_slow((STILL, FAILS_OVER, PARTED), 1))
def test_nothing_planted_nothing_noticed(simulate, scenario):
    assert found(simulate, scenario, 2) == ""


def test_a_znode_ahead_of_what_is_committed(simulate, monkeypatch):
    plants.committed_at_once(monkeypatch)
    slow = replace(STILL, sync_us=(50_000, 300_000))
    assert found(simulate, slow) == "zookeeper-shows-committed"


def test_a_claim_that_leaves_the_epoch_to_the_leader_before(simulate, monkeypatch):
    plants.epoch_left(monkeypatch)
    assert found(simulate, FAILS_OVER) == "one-writer"


def test_a_leader_that_does_not_compare_what_the_one_before_has_written(simulate, monkeypatch):
    plants.last_operation_forgotten(monkeypatch)
    assert found(simulate, FAILS_OVER) == "tree-is-image"


def test_a_full_list_one_short(simulate, monkeypatch):
    plants.full_list_one_short(monkeypatch)
    assert found(simulate, FAILS_OVER) == "full-lists-all"


def test_an_answer_before_a_majority_has_the_change(simulate, monkeypatch):
    plants.answered_at_once(monkeypatch)
    assert found(simulate, FAILS_OVER, 6) == "answered-is-committed"


def test_a_leader_that_counts_only_itself(simulate, monkeypatch):
    monkeypatch.setattr(Progress, "majority_end", lambda self, own_end: own_end)
    assert found(simulate, STILL) in {"mark-is-committed", "zookeeper-shows-committed"}


def test_a_candidate_that_needs_no_vote_but_its_own(simulate, monkeypatch):
    monkeypatch.setattr(QuorumElection, "majority", property(lambda _: 1))
    assert found(simulate, STILL) == "one-vote"


@pytest.mark.slow
def test_a_migration_that_an_operator_finalises_in_vain(simulator, monkeypatch):
    run = simulator(0, replace(STILL, faults=("finalise@DUAL_WRITE/f",)))
    run.run(VIRTUAL_MS)
    assert run.checker(FinalIsFinal).final, "nothing is planted"
    monkeypatch.setattr(finalising, "lacking", lambda *_: [HELD])
    again = simulator(0, run.world.scenario)
    with pytest.raises(Violated, match="comes-to-rest"):
        again.run(VIRTUAL_MS)
    assert again.checker(FinalIsFinal).unrest() == "the migration is not final"


@pytest.mark.slow
def test_a_final_record_while_brokers_are_in_zookeeper_mode(simulate, monkeypatch):
    monkeypatch.setattr(finalising, "lacking", lambda *_: [])
    monkeypatch.setattr(Finalising, "_lacks_alone", property(lambda _: False))
    early = replace(STILL, changes=40, faults=("finalise@DUAL_WRITE/f",))
    assert simulate(4, early).invariant == "final-is-final"


@pytest.mark.slow
def test_a_broker_in_zookeeper_mode_that_is_let_in_after_the_end(simulate, monkeypatch):
    monkeypatch.setattr(broker_registration, "migrating", lambda *_: True)
    late = replace(STILL, changes=60, faults=("finalise@DUAL_WRITE/f",))
    assert simulate(3, late).invariant == "final-is-final"
