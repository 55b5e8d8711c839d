"""What faults lose, have refused or repeated, in each state of the migration driver."""

from dataclasses import replace

import pytest

from emulator.migration.states import State
from emulator.simulation import aftermath
from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.finalising import FINALISING
from emulator.simulation.faults.taken import TAKEN
from emulator.simulation.faults.troubles import TROUBLES
from emulator.simulation.faults.voters import LEADERS, VOTERS
from emulator.simulation.run import Run
from emulator.simulation.scenarios.aimed import PAIRS, aimed
from emulator.simulation.scenarios.scenario import Scenario, planned
from emulator.simulation.scenarios.swarm import swarm


def test_of_every_fault_it_is_known_what_it_can_do():
    assert aftermath.REACH.keys() == {*RECIPES, *VOTERS, *LEADERS, *FINALISING, *TAKEN, *TROUBLES}


@pytest.mark.parametrize("seed", range(3))
def test_without_a_fault_nothing_is_lost_refused_or_repeated(seed):
    run = Run(seed + 19, replace(swarm(seed + 19), faults=(), rolls=0))
    run.run()
    assert not run.world.aftermath.happenings


@pytest.mark.parametrize(
    ("fault", "state", "effect"),
    [
        ("lost-replies", State.BECOME_CONTROLLER, "lost"),
        ("cut", State.ZK_MIGRATION, "lost"),
        ("session-expiry", State.ZK_MIGRATION, "lost"),
        ("epoch-bumped", State.SYNC_KRAFT_TO_ZK, "refused"),
        ("disk-error", State.ZK_MIGRATION, "refused"),
    ],
)
def test_an_effect_is_counted_for_the_fault_and_the_state(simulate, fault, state, effect):
    seen = set()
    for seed in range(4):
        scenario = Scenario(faults=(f"{fault}@{state.value}",), topics=9, changes=6, batch_size=3)
        report = simulate(seed, scenario)
        assert not report.failure, str(report)
        assert {(one.state, one.fault) for one in report.strikes} == {(state.value, fault)}
        seen |= {what for one in report.strikes for what in one.effects}
    assert effect in seen


def test_a_fault_that_does_nothing_is_counted_as_a_strike_only(simulate, monkeypatch):
    monkeypatch.setitem(RECIPES, "cut", lambda _strike: None)
    report = simulate(0, Scenario(faults=("cut@DUAL_WRITE",), changes=6))
    assert aftermath.sum_up([report.strikes]) == {"DUAL_WRITE": {"cut": {"seeds": 0, "struck": 1}}}


def test_the_aimed_seeds_aim_at_every_pair_in_turn():
    for index, (state, fault) in enumerate(PAIRS):
        plan = planned(aimed(index).faults[0], 0)
        assert (plan.name, plan.state, plan.key) == (fault, state, "0")
