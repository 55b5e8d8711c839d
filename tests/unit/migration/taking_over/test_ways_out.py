"""What an operator is told when a claim is refused is followed to the letter, and works."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.stories import ready_world, restart, waiting
from tests.unit.migration.world import World, differences


def dual_write() -> World:
    world = ready_world()
    world.advance(1_000)
    assert world.driver.state is State.DUAL_WRITE
    return world


def text(world: World) -> str:
    (found,) = world.driver.status(world.now_ms).waiting
    return found.reason.text


def restarted(world: World) -> World:
    restart(world)
    world.advance(5_000)
    return world


def goes_on(world: World) -> None:
    world.advance(60_000)
    assert world.driver.state is State.DUAL_WRITE, waiting(world)
    assert differences(world) == {}


def test_an_epoch_that_was_deleted_is_created_again() -> None:
    world = dual_write()
    world.remove("/controller_epoch")
    assert waiting(restarted(world)) == {(Why.NO_CONTROLLER_EPOCH, "/controller_epoch")}
    assert text(world).endswith("Create it again with the epoch of our last claim, 2")
    world.put("/controller_epoch", b"2")
    goes_on(world)
    assert world.data("/controller_epoch") == b"3"


@pytest.mark.parametrize("epoch", [b"", b"two", b"2147483647", b"9999999999"])
def test_an_epoch_that_no_claim_can_raise_is_refused(epoch: bytes) -> None:
    """Brokers and requests have 32 bits for it: a larger one could not be told to anybody."""
    world = dual_write()
    world.put("/controller_epoch", epoch)
    assert waiting(restarted(world)) == {(Why.MIGRATION_ZNODE, "/controller_epoch")}
    assert "Write the last epoch that the brokers know" in text(world)
    assert world.data("/controller_epoch") == epoch
    world.put("/controller_epoch", b"2")
    goes_on(world)


@pytest.mark.parametrize("trimmed", [False, True])
def test_zookeeper_was_restored_from_an_older_state(trimmed: bool) -> None:
    world = dual_write()
    older = deepcopy(world.model.tree.nodes)
    restarted(world)
    for index in range(3):
        world.append(*world.topic(f"later-{index}", bytes([100 + index]) * 16, (1, 2)))
    world.advance(1_000)
    if trimmed:
        world.journal.log_start_offset = world.journal.end - 2
    world.cut()
    world.model.tree.nodes.clear()
    world.model.tree.nodes.update(older)
    restarted(world)
    if trimmed:
        assert waiting(world) == {(Why.OTHER_LOG, "/migration")}
        assert "our log holds the newest metadata" in text(world)
        assert "delete /kraft_bridge, and ZooKeeper is made equal" in text(world)
        world.remove("/kraft_bridge")
    goes_on(world)
    assert "/brokers/topics/later-2" in world.paths


def test_our_own_znode_in_the_format_of_a_later_release() -> None:
    world = dual_write()
    ours = world.data("/kraft_bridge")
    world.put("/kraft_bridge", msgspec.json.encode({"format": 2, "claims": []}))
    assert waiting(restarted(world)) == {(Why.MIGRATION_ZNODE, "/kraft_bridge")}
    assert "format 2 is of a later release: start the controller with that one" in text(world)
    world.put("/kraft_bridge", ours)  # what the later release went on from
    goes_on(world)
