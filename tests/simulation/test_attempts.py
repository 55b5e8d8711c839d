"""Migrations that an operator goes back from at any instant, and tries again on the same ZooKeeper.

The way back is the product's own course, cut off before any effect and run again.
"""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.operations.rollback import course, missing
from emulator.simulation.scenarios.attempts import NAME, STATES, attempts
from emulator.simulation.scenarios.going_back import SimulatedRollback
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow

SEEDS = range(0, 40, 4)
OF_ONE = Scenario(attempts=2, changes=15)
OF_THREE = Scenario(attempts=2, controllers=3, changes=15, change_every_ms=200)


@pytest.mark.requirement("B01", "B06", "B07", "G03", "G09")
@pytest.mark.parametrize("first", rest_slow(SEEDS, 1))
def test_a_cluster_goes_back_and_migrates_again_and_nothing_is_lost(simulate, first):
    for seed in range(first, first + 4):
        report = simulate(seed, kind="attempts")
        assert not report.failure, str(report)


@pytest.mark.requirement("B01", "B06")
@pytest.mark.parametrize("state", rest_slow(STATES, 1))
@pytest.mark.parametrize("scenario", [OF_ONE, OF_THREE], ids=["one", "three"])
def test_from_each_state_of_the_driver(simulate, state, scenario):
    report = simulate(3, replace(scenario, back_at=state))
    assert not report.failure, str(report)
    assert any("goes back from attempt 1" in line for line in report.lines)


@pytest.mark.slow
def test_brokers_elect_one_of_them_once_a_foreign_controller_is_gone(simulate):
    """In the model they did not, and the rollback waited for them for ever."""
    report = simulate(2000038, kind="attempts")
    assert not report.failure, str(report)


@pytest.mark.slow
def test_a_stop_whose_claim_is_answered_late_ends_at_once(simulate):
    """It began a takeover without a session, and waited a minute: the way back waited with it."""
    report = simulate(4000345, kind="attempts")
    assert not report.failure, str(report)


def test_the_seeds_do_what_they_are_for(simulate):
    """Back with and without a copy, cut off, and with the old controllers started again."""
    told = "\n".join(line for seed in range(6) for line in simulate(seed, kind="attempts").lines)
    for what in (
        "the command is cut off before: stop controller",
        "ZooKeeper has all of the log",
        "behind the copy",
        "ZooKeeper is as it was",
        "somebody starts the old controllers again",
        "is elected in ZooKeeper mode",
        "attempt 2",
    ):
        assert what in told, what
    drawn = [attempts(seed) for seed in range(40)]
    assert {one.controllers for one in drawn} == {1, 3}
    assert {one.attempts for one in drawn} == {2, 3}
    assert any(one.rolls for one in drawn)
    assert any(one.faults for one in drawn)


def test_a_seed_tells_the_same_story_twice(simulate):
    assert simulate(1, OF_ONE).digest == simulate(1, OF_ONE).digest


@pytest.mark.slow
def test_the_verb_draws_them_whatever_the_number_of_controllers():
    done = CliRunner().invoke(app, ["simulate", "--kind", "attempts", "--seed", "0"])
    assert done.exit_code == 0, done.output
    assert "1 seed of kind attempts from 0" in done.output
    three = ["simulate", "--kind", "attempts", "--controllers", "3", "--seed", "0"]
    refused = CliRunner().invoke(app, three)
    assert refused.exit_code == 2
    assert "--controllers 3: clusters of kind attempts draw how many" in refused.output


LATE = Scenario(
    attempts=2,
    back_at="DUAL_WRITE+400",
    changes=40,
    change_every_ms=10,
    zookeeper_delay_us=(60_000, 90_000),
)
"""ZooKeeper is far away: there is always something that it lacks."""


def broken(simulate, scenario=LATE, seeds=6):
    """Names of the promises that a few seeds find broken."""
    failures = (simulate(seed, scenario).failure for seed in range(seeds))
    return {failure.split(":")[0] for failure in failures if failure}


def test_nothing_planted_nothing_noticed(simulate):
    assert broken(simulate) == set()


def test_a_release_that_looks_at_no_log_loses_what_a_killed_controller_had_not_written(
    simulate, monkeypatch
):
    def kill(self, seen):
        for host in self._world.controllers.values():
            self._world.remove(host)
        return self.now()

    monkeypatch.setattr(SimulatedRollback, "stop", kill)
    monkeypatch.setattr(SimulatedRollback, "drain", lambda *_, **__: None)
    monkeypatch.setattr(missing, "missing", lambda *_: ())
    assert broken(simulate) == {NAME}


def test_a_release_while_controllers_run(simulate, monkeypatch):
    """They go on to acknowledge changes until they notice."""
    monkeypatch.setattr(course, "_stop", lambda *_: None)
    monkeypatch.setattr(course, "_lost", lambda *_: "")
    monkeypatch.setattr(SimulatedRollback, "over", lambda *_: None)
    assert NAME in broken(simulate)


def test_a_release_that_leaves_what_a_broker_wrote_into_delete_topics(simulate, monkeypatch):
    """ZooKeeper's controller would delete topics that live."""
    monkeypatch.setattr(course, "_dropped", lambda *_: True)
    assert broken(simulate) == {NAME}


def test_counters_that_are_left_behind(simulate, monkeypatch):
    """The second attempt takes ZooKeeper for one that follows its log, or is refused by it."""
    monkeypatch.setattr("emulator.simulation.scenarios.attempts.Operator._until", _once)
    assert broken(simulate, seeds=1) == set(), "only what follows is planted"
    monkeypatch.setattr(course.release, "forgotten", lambda _found: None)
    assert broken(simulate, seeds=1)


def _once(self, done, act):
    for _ in range(40):
        if not act(self._rng):
            return
