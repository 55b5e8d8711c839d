"""Brokers that are restarted in the other mode: from ZooKeeper to KRaft, and back.

An operator does so one broker at a time, in an order of his own, and may change his mind: as long
as the migration is not finalised a broker may return to ZooKeeper mode. Here the instants are
drawn, so that some rolls meet faults, and each other.

Source: KIP-866, "Controller Migration", "Rollback".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from emulator.simulation.world import World

PATIENCE_MS: Final = (2_000, 10_000)
"""How long a controlled shutdown may take."""


class Rolls:
    """Each roll has its own random stream and may be left out (``rolls/3`` in ``Scenario.skip``).

    Args:
        world: whose brokers are rolled.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._to_come = 0
        self.done = 0

    @property
    def over(self) -> bool:
        """Whether no roll is to come or under way."""
        return not self._to_come

    def operations(self) -> list[str]:
        """Names of all rolls, for ``Scenario.skip``."""
        return [f"rolls/{number}" for number in range(self._world.scenario.rolls)]

    def begin(self) -> None:
        """The migration has come to where brokers may be rolled."""
        scenario = self._world.scenario
        for number, name in enumerate(self.operations()):
            if name not in scenario.skip:
                rng = Random(f"{self._world.seed} roll {number}")
                at_ms = rng.randint(0, 2 * scenario.faults_within_ms)
                self._after(at_ms, partial(self._roll, rng))

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._to_come += 1

        def act() -> None:
            self._to_come -= 1
            action()

        self._world.after_ms(delay_ms, act)

    def _roll(self, rng: Random) -> None:
        world = self._world
        ready = [one for one in world.lives.able() if not one.stopping]
        # Once finalising has begun, no broker returns to ZooKeeper mode.
        if not ready or world.finalising:
            return
        broker = rng.choice(sorted(ready, key=lambda one: one.id))
        self.done += 1
        mode = world.lives.turn(broker.id)
        world.scheduler.add_line("roll", f"{broker.name} is restarted in {mode} mode")
        if rng.random() < 0.3:
            world.lives.kill(broker)
            return
        broker.shut_down()

        def insist() -> None:
            if broker.alive:
                world.lives.kill(broker)

        self._after(rng.randint(*PATIENCE_MS), insist)
