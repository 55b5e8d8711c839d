"""Nothing is said of the lag before ZooKeeper was compared with the log."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.migration.status import Status
from tests.unit.migration.breaking import behind_breaks
from tests.unit.migration.stories import restart
from tests.unit.migration.test_write_behind import A, B
from tests.unit.migration.world import World, differences


def told(world: World) -> Status:
    return world.driver.status(world.now_ms)


@pytest.mark.requirement("M06")
def test_it_is_unknown_until_the_tree_was_compared_in_this_term() -> None:
    """A log that migrated, and nothing was heard of ZooKeeper yet: that was shown as lag 0."""
    world = World()
    world.cluster(1, 2)
    world.bootstrap()
    world.start()
    assert not told(world).lag_known
    world.register(1)
    world.register(2)
    world.reach(State.DUAL_WRITE, 1_000)
    assert told(world).lag_known
    world.append(*world.topic("a", A, (1, 2)))
    world.zk_up = False
    restart(world)
    world.remove("/brokers/topics/a/partitions/0/state")
    world.advance(10_000)
    assert (told(world).lag_records, told(world).lag_known) == (0, False)
    world.zk_up = True
    world.advance(10_000)
    assert told(world).lag_known
    assert told(world).lag_longest_records <= 1, "what was behind before is not counted"
    world.append(*world.topic("b", B, (1, 2)))
    world.advance(1_000)
    assert (told(world).lag_records, told(world).lag_longest_records) == (0, 2)
    assert differences(world) == {}


def test_it_is_unknown_after_the_claim_until_the_tree_was_read() -> None:
    world = World()
    model = behind_breaks(world)
    world.dual_write()
    model.every = 1  # no reading of the tree gets an answer
    restart(world)
    world.reach(State.SYNC_KRAFT_TO_ZK, 10_000)
    assert (told(world).lag_changed_records, told(world).lag_known) == (0, False)
    model.every = 0
    world.advance(10_000)
    assert told(world).lag_known


def test_a_deposed_controller_knows_what_it_could_not_write() -> None:
    world = World().dual_write()
    world.put("/controller_epoch", b"9")
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(5_000)
    assert world.driver.write_behind.mode is Mode.DEPOSED
    assert (told(world).lag_known, told(world).lag_changed_records) == (True, 2)
    world.perform(world.driver.became_leader(world.journal.epoch + 1, world.now_ms))
    assert not told(world).lag_known
