"""After ``kraft-bridge rollback`` a controller that is started again writes nothing."""

from __future__ import annotations

import pytest

from emulator.migration.taking_over import claim
from emulator.migration.taking_over.preconditions import Why
from emulator.operations.rollback import release
from emulator.znodes import own
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import NodeData, ReadFailed, ReadValue
from tests.unit.migration.stories import (
    TOPIC_A,
    put_topic,
    ready_world,
    restart,
    waiting,
    waiting_world,
)
from tests.unit.migration.world import World


def read(world: World, path: str) -> ReadValue:
    node = world.model.tree.nodes.get(path)
    return ReadFailed(ZkCode.NO_NODE) if node is None else NodeData(node.data, node.stat())


@pytest.mark.requirement("B07")
@pytest.mark.parametrize("copied", [False, True])
def test_no_log_claims_though_no_broker_was_elected_yet(copied: bool) -> None:
    """Nor one that never got as far as the copy: its registered brokers are in ZooKeeper mode."""
    world = ready_world() if copied else waiting_world()
    if copied:
        world.advance(1_000)
    else:
        world.start(1)
    world.cut()
    found = release.parse([read(world, path) for path in release.PATHS])
    assert isinstance(found, claim.Found)
    assert isinstance(world.model.tree.multi(release.multi(found, 0).ops, 1, 1), list)
    put_topic(world, "since", TOPIC_A.replace(b"QUFB", b"Q0ND"))
    before = {path: node.version for path, node in world.model.tree.nodes.items()}
    for _ in range(3):
        restart(world)
        world.register(1)
        world.register(2)
        world.advance(10_000)
        assert waiting(world) == {(Why.ZOOKEEPER_MODE_TOOK_OVER, own.PATH)}
        (told,) = world.driver.status(world.now_ms).waiting
        assert "kraft-bridge rollback --clear" in told.reason.text
        assert {path: node.version for path, node in world.model.tree.nodes.items()} == before
