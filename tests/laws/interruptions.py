"""What happens on the way to ZooKeeper between two changes, and an end at which all is well."""

from __future__ import annotations

from random import Random

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from tests.unit.migration.world import World, migration_offset
from wire import records as r

FAULTS = ("hold", "release", "deaf", "hear", "cut", "down", "up", "time")


class Interrupted:
    """A world in dual write; each fault is a method.

    Args:
        seed: of everything random.
        brokers: that are registered; 1 and 2 if none are named.
    """

    def __init__(self, seed: int, *brokers: int) -> None:
        self.rng = Random(seed)
        operations = self.rng.choice([3, 10, 400])
        self.world = World(write_behind_multi_ops=operations).dual_write(*brokers)

    def hold(self) -> None:
        if self.world.held is None:
            self.world.held = []

    def release(self) -> None:
        self.world.release()

    def deaf(self) -> None:
        self.world.dropping_replies = True

    def hear(self) -> None:
        """Replies come again; those in between are lost."""
        self.world.dropping_replies = False

    def cut(self) -> None:
        if self.world.zk.connected:
            self.world.held = None
            self.world.cut()

    def down(self) -> None:
        self.world.zk_up = False
        self.cut()

    def up(self) -> None:
        self.world.zk_up = True

    def time(self) -> None:
        self.world.advance(self.rng.choice([10, 600, 3_000]))

    def end(self) -> None:
        """Nothing disturbs any more: everything is written."""
        world = self.world
        world.zk_up = True
        world.release()
        world.dropping_replies = False
        world.advance(20_000)
        world.append(r.NoOpRecord())
        world.reach(State.DUAL_WRITE, 2_000)
        assert world.driver.write_behind.mode is Mode.RUNNING
        assert migration_offset(world) == world.journal.stable.offset
        assert world.driver.write_behind.lag.records == 0
