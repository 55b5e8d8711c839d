"""KIP-866 "Broker Registration", "Migration Trigger": both kinds of broker, the right level."""

from __future__ import annotations

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.propagation.requests import live_brokers
from emulator.migration.taking_over.preconditions import Why, reasons
from emulator.znodes.reader import Tree, TreeNode
from tests.unit.controller.world import World
from wire import records as r
from wire.errors import ErrorCode


def tree_of_brokers(*ids: int) -> Tree:
    """A tree that knows nothing but live brokers."""
    tree = Tree()
    tree.lists["/brokers/ids"] = tuple(str(one) for one in ids)
    for one in ids:
        tree.nodes[f"/brokers/ids/{one}"] = TreeNode(b'{"version":5,"endpoints":[]}')
    return tree


@pytest.mark.requirement("T01")
def test_a_broker_below_the_level_blocks_the_start_and_is_named() -> None:
    """Trigger 1: brokers at the right IBP. One of IBP 3.3 lists level 7 and nothing else."""
    world = World(migration_enabled=True)
    right = {"is_migrating_zk_broker": True, "metadata_version": (21, 21)}
    world.join(1, **right)
    refused = world.register(2, is_migrating_zk_broker=True, metadata_version=(7, 7))
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    (reason,) = reasons(tree_of_brokers(1, 2), world.tip)
    assert (reason.why, reason.subject) == (Why.BROKER_NOT_REGISTERED, "2")
    world.join(2, **right)
    assert reasons(tree_of_brokers(1, 2), world.tip) == []


@pytest.mark.requirement("N01")
def test_brokers_of_both_kinds_are_known_and_told_of() -> None:
    """What a ZooKeeper-mode broker answers to DescribeCluster is what UpdateMetadata named live."""
    world = World(migration_enabled=True)
    world.join(1, is_migrating_zk_broker=True, metadata_version=(21, 21))
    early = world.register(2)
    assert early.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED, "not before the copy"
    migrated = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION)
    world.controller.append([migrated], world.now_ms)
    world.commit()
    world.join(2)
    kinds = {one.id: one.is_migrating_zk_broker for one in world.tip.brokers.values()}
    assert kinds == {1: True, 2: False}
    assert [one.id for one in live_brokers(world.tip)] == [1, 2]
