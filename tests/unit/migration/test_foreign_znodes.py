"""Znodes that nobody knows, below those that are to go: they go too, and hold nothing up."""

from __future__ import annotations

import pytest

from emulator.metadata.configs import BROKER
from emulator.migration.dual_write.modes import Mode
from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.stories import A, B, ready_world, restart, waiting, waiting_world
from tests.unit.migration.world import World, differences
from wire import records as r

BELOW = [
    "/brokers/topics/a/partitions/0/x",
    "/brokers/topics/a/partitions/0/x/y/z",
    "/brokers/topics/a/partitions/1/state/x",
    "/brokers/topics/a/partitions/odd/x",
    "/brokers/topics/a/partitions-of-old/0",
    "/brokers/topics/a/x",
    "/config/topics/a/x",
]


def below(world: World, *roots: str) -> list[str]:
    return [path for path in world.paths if path.startswith(roots)]


@pytest.mark.requirement("W07", "W13")
@pytest.mark.parametrize("foreign", [[one] for one in BELOW] + [BELOW])
def test_a_topic_goes_with_whatever_is_below_it(foreign: list[str]) -> None:
    """Kafka deletes recursively; a refused deletion would hold up all that follows."""
    world = World().dual_write()
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(1_000)
    for path in foreign:
        world.put(path, b"foreign")
    world.append(r.RemoveTopicRecord(topic_id=A))
    world.append(*world.topic("b", B, (1, 2)))
    world.advance(1_000)
    assert not below(world, "/brokers/topics/a", "/config/topics/a")
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert world.driver.status(world.now_ms).poisoned == ()
    assert differences(world) == {}


def test_a_topic_that_stays_keeps_what_is_below_it() -> None:
    world = World().dual_write()
    world.append(*world.topic("a", A, (1, 2)), *world.topic("b", B, (1, 2)))
    world.advance(1_000)
    kept = "/brokers/topics/b/partitions/0/x"
    world.put(kept, b"foreign")
    world.put("/brokers/topics/a/partitions/0/x", b"foreign")
    world.append(r.RemoveTopicRecord(topic_id=A))
    world.advance(1_000)
    assert not below(world, "/brokers/topics/a")
    assert kept in world.paths


def test_a_brokers_config_goes_with_whatever_is_below_it() -> None:
    world = World().dual_write()
    change = {"resource_type": BROKER, "resource_name": "1", "name": "k"}
    world.append(r.ConfigRecord(**change, value="v"))
    world.advance(1_000)
    world.put("/config/brokers/1/x/y", b"foreign")
    world.append(r.ConfigRecord(**change, value=None))
    world.append(*world.topic("b", B, (1, 2)))
    world.advance(1_000)
    assert not below(world, "/config/brokers/1")
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert "/brokers/topics/b" in world.paths


def test_a_pending_deletion_goes_with_whatever_is_below_it() -> None:
    world = World()
    world.put("/admin/delete_topics/old/x", b"foreign")
    world.dual_write()
    assert not below(world, "/admin/delete_topics/")


NO_NUMBERS = ["\u00b2", "\u0663", "00", "-1", "9" * 5_000]
"""Digits for ``str.isdigit`` or for ``int``, but no number as Kafka writes it."""


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_a_broker_whose_name_is_no_number_is_named_and_nobody_waits_for_it(name: str) -> None:
    world = waiting_world()
    path = f"/config/brokers/{name}"
    world.put(path, b'{"version":1,"config":{}}')
    world.put(f"/brokers/ids/{name}", b'{"version":5,"endpoints":[]}')
    world.start(1, 2)
    world.advance(1_000)
    assert waiting(world) == {(Why.MALFORMED_ZNODE, path)}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_a_partition_whose_name_is_no_number_goes_at_the_next_comparison(name: str) -> None:
    world = ready_world()
    world.advance(1_000)
    path = f"/brokers/topics/a/partitions/{name}"
    world.put(f"{path}/state", b"{}")
    restart(world)
    world.advance(1_000)
    assert path not in world.paths
    assert differences(world) == {}
