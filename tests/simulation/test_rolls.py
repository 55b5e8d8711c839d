"""Brokers are restarted in KRaft mode, and back in ZooKeeper mode, while everything goes on."""

import pytest

from emulator.simulation.checkers.base import OWN, Checker
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow

ROLLED = Scenario(rolls=6, changes=80, change_every_ms=60, moves_every_ms=120)


class Mixed(Checker):
    """Counts what is written to ZooKeeper while brokers of both modes are registered."""

    def __init__(self, world):
        super().__init__(world)
        self.modes = set()
        self.multis = 0

    def served(self, changed, client):
        migrating = {one.is_migrating_zk_broker for one in self.world.facts.brokers.values()}
        self.modes |= migrating
        self.multis += OWN in changed and migrating == {True, False}


def rolled(seed, scenario):
    run = Run(seed, scenario)
    mixed = Mixed(run.world)
    run.world.onlookers.append(mixed)
    run.run()
    return run, mixed


def test_changes_reach_zookeeper_and_all_brokers_while_the_modes_are_mixed():
    done = multis = 0
    for seed in range(4):
        run, mixed = rolled(seed, ROLLED)
        assert mixed.modes == {True, False}
        done += run.world.rolls.done
        multis += mixed.multis
    assert done >= 12
    assert multis > 100


def test_a_broker_may_go_back_to_zookeeper_mode():
    """Brokers that were in KRaft mode are migrating brokers again."""

    def back(seed):
        run, _ = rolled(seed, ROLLED)
        modes = {}
        for point in run.world.committed.points:
            for one in point.facts.brokers.values():
                if modes.get(one.id) is False and one.is_migrating_zk_broker:
                    return True
                modes[one.id] = one.is_migrating_zk_broker
        return False

    assert any(map(back, range(4)))


@pytest.mark.parametrize(
    "faults",
    rest_slow(
        [
            ("controller-crash", "lost-replies", "controller-shutdown"),
            ("broker-death", "broker-cut", "session-expiry", "controller-pause"),
            ("zookeeper-freeze", "broker-leaves", "controller-kill"),
        ],
        1,
    ),
)
def test_rolls_among_faults_break_no_promise(simulate, faults):
    for seed in range(2):
        report = simulate(seed, Scenario(faults=faults, rolls=6, changes=40, moves_every_ms=60))
        assert not report.failure, str(report)


def test_a_roll_that_is_left_out_does_not_change_the_others(simulate):
    """Each has its own random stream, so a failing run can be made small."""

    def story(skip=frozenset()):
        report = simulate(1, Scenario(rolls=3, changes=4, skip=skip))
        assert {"rolls/0", "rolls/1", "rolls/2"} <= set(report.operations)
        return [line.split()[0] for line in report.lines if " roll " in line]

    assert len(story()) == 3
    assert set(story(frozenset({"rolls/1"}))) < set(story())
