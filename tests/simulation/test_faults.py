"""Recipes of faults, each begun by hand."""

from __future__ import annotations

from random import Random

import pytest

from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.strike import Strike
from emulator.simulation.scenario import Scenario
from emulator.simulation.world import World


@pytest.mark.parametrize("name", ["network-slow", "disk-slow"])
def test_after_two_faults_that_overlap_everything_is_as_fast_as_before(name):
    """The one that began later took the other's delays for the usual ones and left them behind."""
    world = World(1, Scenario())
    usual = dict(world.network.delay_us)
    world.begin()
    strikes = [Strike(world, name, Random(seed)) for seed in range(1, 8)]
    for strike in strikes:
        RECIPES[name](strike)
    slow = world.process.sync_us != world.scenario.sync_us or world.network.delay_us != usual
    assert slow
    while not all(strike.over for strike in strikes):
        world.scheduler.step()
    assert world.network.delay_us == usual
    assert world.process.sync_us == world.scenario.sync_us
