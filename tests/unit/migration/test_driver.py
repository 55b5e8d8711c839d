"""The driver's walk through its states, and what it refuses to walk into."""

from __future__ import annotations

from emulator.migration.states import State
from tests.unit.migration.world import World


def test_walk() -> None:
    world = World()
    world.cluster(1, 2)
    world.bootstrap()
    world.start()
    for broker in (1, 2):
        world.register(broker)
    world.advance(1000)
    assert world.states == []
