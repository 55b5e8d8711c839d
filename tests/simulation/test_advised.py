"""An operator who does nothing but what ``next`` says reaches every goal; wrong advice is found."""

from dataclasses import replace

import pytest

from emulator.operations import next_steps
from emulator.operations.next_steps import Action, BrokerMode, NextStep
from emulator.simulation.faults.troubles import TROUBLES
from emulator.simulation.scenarios.advised import GOALS, NAME, SAFE, STEPS_MAX, advised
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow

SEEDS = range(0, 32, 4)
OF_ONE = Scenario(goal="final", changes=10, brokers=2)
OF_THREE = Scenario(goal="final", controllers=3, changes=10, change_every_ms=200, brokers=2)
BEFORE = ("znode-malformed", "epoch-missing")
"""Before the first claim only."""
MENDS = ("broker-refused", "claim-taken", "znode-forbidden", *BEFORE)
"""What has to be repaired; the others are started, or restarted."""


@pytest.mark.parametrize("first", rest_slow(SEEDS, 1))
def test_the_advice_leads_to_the_goal_within_400_steps(simulate, first):
    for seed in range(first, first + 4):
        report = simulate(seed, kind="operator")
        assert not report.failure, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        985203,  # a broker restarted in ZooKeeper mode before the hold is ended
        985813,  # the same before the end of the migration
        995041,  # old controllers started again after a rollback from before the claim
        995093,  # a rollback while the controllers may not write a znode
        2000914,  # a znode to be mended that the controllers may not write
    ],
)
def test_what_was_once_a_dead_end(simulate, seed):
    report = simulate(seed, kind="operator")
    assert not report.failure, str(report)


@pytest.mark.parametrize("trouble", rest_slow(TROUBLES, 2))
@pytest.mark.parametrize("scenario", [OF_ONE, OF_THREE], ids=["one", "three"])
def test_it_knows_the_way_out_of_each_trouble(simulate, trouble, scenario):
    where = "" if trouble in BEFORE else "@DUAL_WRITE+20"
    faults = (f"{trouble}{where}/1",)
    report = simulate(3, replace(scenario, faults=faults, topics=3, faults_within_ms=10))
    assert not report.failure, str(report)
    told = "\n".join(report.lines)
    assert f"{trouble}: " in told
    assert ("mends" in told) == (trouble in MENDS), told


def test_it_knows_the_way_out_when_no_broker_is_left(simulate):
    """It said that none is registered, and not that one is to be started."""
    only = replace(OF_ONE, brokers=1, faults=("broker-dead@WAIT_FOR_BROKERS/1",))
    report = simulate(3, only)
    assert not report.failure, str(report)
    assert "no broker is registered in ZooKeeper: start the brokers" in "\n".join(report.lines)


@pytest.mark.parametrize("goal", ["final", "back"])
def test_a_broker_that_never_comes_back_is_unregistered(simulate, goal):
    """It was to be started, for ever: it named no other way for one in ZooKeeper mode."""
    gone = replace(OF_ONE, faults=("broker-gone@DUAL_WRITE+20/1",), goal=goal, brokers=3)
    report = simulate(3, replace(gone, attempts=1 if goal == "final" else 2, faults_within_ms=10))
    assert not report.failure, str(report)
    assert "gone for good: kafka-cluster.sh unregister" in "\n".join(report.lines)


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("scenario", [OF_ONE, OF_THREE], ids=["one", "three"])
def test_every_goal_from_a_held_end_too(simulate, scenario, goal):
    attempts = 1 if goal == "final" else 2
    held = replace(scenario, goal=goal, attempts=attempts, hold=True)
    told = "\n".join((report := simulate(5, held)).lines)
    assert not report.failure, str(report)
    assert ("the hold is ended" in told) == (goal != "back")
    assert ("is back after" in told) == (goal != "final")


def test_the_seeds_do_what_they_are_for():
    drawn = [advised(seed) for seed in range(60)]
    assert {one.goal for one in drawn} == set(GOALS)
    assert {one.controllers for one in drawn} == {1, 3}
    assert {name for one in drawn for name in TROUBLES if name in str(one.faults)} == set(TROUBLES)
    assert any(one.hold for one in drawn)
    assert any(one.rolls for one in drawn)


def test_a_seed_tells_the_same_story_twice(simulate):
    assert simulate(8, kind="operator").digest == simulate(8, kind="operator").digest


# ------------------------------------------------------------- wrong advice is found


def planted(monkeypatch, phase, step, times=STEPS_MAX):
    """In a phase the first advice is another one, so many times."""
    right, left = next_steps.next_steps, [times]

    def wrong(status, **options):
        found = right(status, **options)
        if not status["phase"]["text"].startswith(phase) or not left[0]:
            return found
        left[0] -= "compared" in options
        return (step(status), *found)

    monkeypatch.setattr(next_steps, "next_steps", wrong)


def without_flag(status):
    """A controller is restarted without the flag, whatever is to be done before."""
    return NextStep(Action.RESTART_CONTROLLER, node=status["node_id"], flag=False)


def in_kraft_mode(_status):
    return NextStep(Action.RESTART_BROKER, node=0, mode=BrokerMode.KRAFT)


def epoch_deleted(_status):
    return NextStep(Action.REPAIR, "delete /controller_epoch")


@pytest.mark.parametrize("scenario", [OF_ONE, OF_THREE], ids=["one", "three"])
@pytest.mark.parametrize(
    ("phase", "step"),
    [
        ("dual write (0", without_flag),
        ("waiting", without_flag),
        ("waiting", in_kraft_mode),
        ("waiting", epoch_deleted),
        ("dual write (0", epoch_deleted),
    ],
)
def test_wrong_advice_is_found(simulate, monkeypatch, scenario, phase, step):
    planted(monkeypatch, phase, step, times=1)
    report = simulate(3, scenario)
    assert report.invariant == SAFE, report.failure


@pytest.mark.parametrize("action", [Action.RESTART_CONTROLLER, Action.STOP_CONTROLLER])
def test_no_voter_may_be_restarted_or_stopped_while_another_is_down(simulate, monkeypatch, action):
    looks = 12  # of a second each: it is known by then

    def step(status):
        nonlocal looks
        looks -= any(not one["answers"] for one in status["quorum"]["voters"])
        wrong = NextStep(action, node=status["leader_id"], flag=True)
        return NextStep(Action.WAIT) if looks > 0 else wrong

    planted(monkeypatch, "dual write", step)
    dead = replace(OF_THREE, faults=("controller-dead@DUAL_WRITE+20/1",), faults_within_ms=10)
    report = simulate(3, dead)
    assert report.invariant == SAFE, report.failure
    assert "is to end while" in report.failure


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (without_flag, {NAME}),
        (in_kraft_mode, {"nobody-refused"}),
        (epoch_deleted, {"nobody-refused"}),
    ],
)
def test_what_comes_of_it_is_found_too(simulate, monkeypatch, step, found):
    """Were it not known beforehand that the advice is wrong."""
    planted(monkeypatch, "waiting" if step is in_kraft_mode else "dual write (0", step)
    monkeypatch.setattr("emulator.simulation.scenarios.advised.ensure_safe", lambda *_: None)
    monkeypatch.setattr("emulator.simulation.scenarios.advised.STEPS_MAX", 40)
    report = simulate(3, OF_ONE)
    assert report.invariant in found, report.failure


def test_advice_that_nobody_can_follow_is_found(simulate, monkeypatch):
    planted(monkeypatch, "dual", lambda _: NextStep(Action.REPAIR, "mend something"))
    report = simulate(3, OF_ONE)
    assert report.failure.startswith(f"{NAME}: there is nothing to repair: repair: mend something")
