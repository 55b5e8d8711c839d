"""Recipes of faults, each begun by hand."""

from __future__ import annotations

from random import Random

import pytest

from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.strike import Strike
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated
from emulator.simulation.world import World
from wire import messages as m


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


@pytest.mark.parametrize("known", [True, False])
def test_a_broker_is_started_again_if_it_was_unregistered_and_may_not_be_forgotten_else(known):
    """As when the request arrives late: the broker was away, has come back and registered."""
    world = World(1, Scenario())
    world.begin()
    while len(world.lives.able()) < 3:
        world.scheduler.step()
    gone, other, _ = world.brokers.values()
    if known:
        world.lives.unregistered.add(gone.id)
    other.ask(m.UnregisterBrokerRequest(broker_id=gone.id), 0, lambda _: None)

    def until_it_is_gone() -> None:
        while world.brokers[gone.id] is gone:
            world.scheduler.step()

    if known:
        until_it_is_gone()
        assert not gone.alive
    else:
        with pytest.raises(Violated, match="was forgotten"):
            until_it_is_gone()


def test_a_stop_in_order_is_over_when_the_process_has_ended():
    world = World(1, Scenario())
    world.begin()
    strike = Strike(world, "controller-shutdown", Random(1))
    RECIPES["controller-shutdown"](strike)
    stopped = world.process
    while stopped.alive:
        world.scheduler.step()
    ended_us = world.scheduler.now_us
    while not strike.over:
        world.scheduler.step()
    assert world.scheduler.now_us <= ended_us + 100_000
