"""Znodes whose ACL keeps us out: named wherever the migration stands, and nothing is lost."""

from __future__ import annotations

import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.stories import waiting, waiting_world
from tests.unit.migration.world import World, differences
from wire import records as r

BROKER = 4


def value(text: str) -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=BROKER, resource_name="", name="k", value=text)


def poisoned(world: World) -> dict[str, str]:
    return {p.path: p.cause for p in world.driver.status(world.now_ms).poisoned}


def repaired(world: World) -> World:
    """The ACL is what it should be: everything is written, nothing is named any more."""
    world.model.tree.locked.clear()
    world.model.tree.read_only.clear()
    world.reach(State.DUAL_WRITE, 60_000)
    assert differences(world) == {}
    assert poisoned(world) == {}
    assert waiting(world) == set()
    return world


@pytest.mark.parametrize(
    ("locked", "lacks"),
    [
        ("/config/brokers", "/config/brokers/<default>"),
        ("/migration", "/migration"),
        ("/kraft_bridge", "/kraft_bridge"),
        ("/controller_epoch", "/controller_epoch"),
    ],
)
@pytest.mark.parametrize("poison", ["block", "skip"])
def test_in_dual_write_it_waits_and_goes_on(locked: str, lacks: str, poison: str) -> None:
    """What holds the chain is never skipped, nor is a tree that cannot be read."""
    world = World(write_behind_poison=poison).dual_write()
    world.model.tree.locked.add(locked)
    world.append(value("v"))
    world.advance(200)
    assert lacks in poisoned(world)
    if lacks == locked:
        assert "NO_AUTH" in poisoned(world)[lacks]
    else:
        assert "the ACL of /config/brokers does not give us CREATE" in poisoned(world)[lacks]
    world.append(value("w"))
    before = len(world.multis)
    world.advance(20_000)
    assert locked in poisoned(world)
    assert len(world.multis) - before < 20, "it is tried again with back-off"
    if poison == "block" or lacks == locked:
        repaired(world)
        assert b'"w"' in (world.data("/config/brokers/<default>") or b"")


def test_a_change_is_written_though_nobody_may_be_told_of_it() -> None:
    """What is skipped and named is the notification, not everything that has one."""
    world = World(write_behind_poison="skip").dual_write()
    world.model.tree.read_only.add("/config/changes")
    world.append(value("v"))
    world.advance(5_000)
    assert list(poisoned(world)) == ["/config/changes/config_change_"]
    (znode,) = world.driver.status(world.now_ms).poisoned
    assert znode.remedy.endswith(
        "one skipped znode is tried again every 15 minutes, and all at each start"
    )
    assert b'"v"' in (world.data("/config/brokers/<default>") or b"")
    assert differences(world) == {}
    world.append(value("w"))
    world.advance(5_000)
    assert b'"w"' in (world.data("/config/brokers/<default>") or b"")


@pytest.mark.parametrize("path", ["/migration", "/kraft_bridge"])
@pytest.mark.parametrize("poison", ["block", "skip"])
def test_the_chain_where_it_may_be_read_but_not_written(path: str, poison: str) -> None:
    world = World(write_behind_poison=poison).dual_write()
    world.model.tree.read_only.add(path)
    before = len(world.multis)
    world.append(value("v"))
    world.advance(20_000)
    assert poisoned(world) == {path: "SetData: NO_AUTH (its ACL does not give us WRITE)"}
    assert len(world.multis) - before < 20, "it is tried again with back-off"
    repaired(world)


def test_the_first_multi_of_a_claim_where_migration_may_not_be_written() -> None:
    world = waiting_world()
    world.start()
    world.model.tree.read_only.add("/migration")
    world.register(1)
    world.register(2)
    world.advance(20_000)
    assert world.driver.claim_count == 1
    assert set(poisoned(world)) == {"/migration"}
    assert world.driver.state is State.BECOME_CONTROLLER
    repaired(world)
    assert world.driver.claim_count == 1


@pytest.mark.parametrize(
    ("locked", "named"),
    [
        ("/", "/admin"),
        ("/cluster/id", "/cluster/id"),
        ("/controller_epoch", "/controller_epoch"),
        ("/brokers/topics/a", "/brokers/topics/a"),
        ("/config/topics", "/config/topics"),
    ],
)
def test_before_the_claim_it_is_a_reason_to_wait(locked: str, named: str) -> None:
    world = waiting_world()
    world.put("/cluster/id", b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qg"}')
    world.model.tree.locked.add(locked)
    world.start(1, 2)
    world.advance(10_000)
    assert (Why.UNREADABLE, named) in waiting(world)
    assert world.driver.claim_count == 0
    repaired(world)


def test_a_claim_that_is_not_allowed_names_the_znode() -> None:
    world = waiting_world()
    world.start()
    world.model.tree.locked.add("/")  # /controller is made below it
    world.register(1)
    world.register(2)
    world.reach(State.BECOME_CONTROLLER, 5_000)
    assert world.driver.claim_count == 0
    assert (Why.UNREADABLE, "/controller") in waiting(world)
    repaired(world)
