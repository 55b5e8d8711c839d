"""Findings about single znodes and files, and what a broker's folder must hold to go back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from emulator.operations.preflight.engine import Finding
from emulator.operations.rollback.course import Wanted, plan, roll_back
from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import FolderSeen
from emulator.znodes import controller
from emulator.zookeeper.ops import Create, Delete
from tests.unit.operations.rollback.model import (
    ModelCluster,
    copying,
    dual_write,
    js,
    pre_migration,
)


def found(world: ModelCluster, code: str) -> list[Finding]:
    return [one for one in plan(world, Wanted())[1].findings if one.code == code]


@pytest.mark.requirement("Y01")
@pytest.mark.parametrize(
    ("meta", "node_id", "said"),
    [
        ({"version": "0", "broker.id": "1"}, 1, ""),
        ({"version": "0", "broker.id": "1"}, None, ""),
        ({"version": "0", "broker.id": "1", "directory.id": "x"}, 1, ""),
        ({"version": "1", "node.id": "1"}, 1, "has version 1"),
        ({"version": "1", "node.id": "1"}, None, "has version 1"),
        ({"version": "0", "broker.id": "2"}, 1, "the file says 1"),
        ({"version": "7"}, 1, "has version 7"),
        ({}, 1, "has version none"),
    ],
)
def test_a_brokers_meta_properties(meta: Mapping[str, str], node_id: int | None, said: str) -> None:
    world = dual_write(broker_folders=(FolderSeen("/data", meta, node_id),))
    told = found(world, "R10")
    assert [said in one.fact for one in told] == [True] * bool(said)
    assert not said or "broker.id=1" in told[0].remedy or "version 1" not in said
    assert roll_back(world, Wanted()).failed == "", "it is for the restart afterwards"


def test_what_should_be_ephemeral_and_is_not() -> None:
    world = pre_migration()
    world.tree.write(Delete(controller.PATH), 7, 1)
    text = {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1}
    world.tree.write(Create(controller.PATH, js(text)), 7, 1)
    world.put("/brokers/ids/9", b"{}")
    told = found(world, "R09")
    assert [one.znode for one in told] == [controller.PATH, "/brokers/ids/9"]
    assert "no other is elected" in told[0].consequence
    claimed = dual_write()
    data = claimed.data(controller.PATH)
    claimed.tree.write(Delete(controller.PATH), 7, 1)
    claimed.put(controller.PATH, data, ephemeral=True)
    assert [one.znode for one in found(claimed, "R09")] == [controller.PATH]
    assert found(dual_write(), "R09") == []


def test_an_emptied_zookeeper_is_not_gone_back_to() -> None:
    world = dual_write()
    topic = "/brokers/topics/orders"
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.tree.write(Delete(topic + path), 7, 1)
    assert [one.znode for one in found(world, "R03")] == ["/brokers/topics"]
    assert roll_back(world, Wanted(accept_loss=True)).refused
    assert world.done == []


def test_another_quorum_is_named() -> None:
    world = dual_write()
    world.tree.write(Delete(controller.PATH), 7, 1)
    world.put(controller.PATH, controller.encode(4000, 5, 1))
    assert [one.znode for one in found(world, "R03")] == [controller.PATH]
    assert roll_back(world, Wanted()).refused


def test_a_copy_that_was_complete_in_the_log_alone_is_no_copy_that_can_be_dropped() -> None:
    """It ended before the first offset in ``/migration``: callers may have been served."""
    world = copying(state=1, up=[])
    seen, course = plan(world, Wanted())
    assert course.phase is RollbackPhase.DUAL_WRITE
    assert seen.differences is not None
