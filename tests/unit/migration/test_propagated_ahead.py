"""What brokers hear while ZooKeeper refuses a znode, and what waits until it does no more."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.metadata.configs import BROKER, TOPIC
from emulator.metadata.delta import Touched
from emulator.migration.dual_write.modes import Mode
from emulator.migration.propagation.gate import PROPAGATE_AHEAD_MS
from emulator.seam import Effect
from tests.unit.migration.test_bound import TOO_LARGE
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences
from wire import messages as m
from wire import records as r

T, U = b"T" * 16, b"U" * 16


def stuck() -> World:
    """Brokers 1, 2 and 3 know topic ``t`` on 1 and 2; a config that no znode holds is committed."""
    world = World().dual_write(1, 2, 3)
    world.append(*world.topic("t", T, (1, 2), (2, 1)))
    world.append(config(BROKER, "", "k", TOO_LARGE))
    world.advance(1)
    assert world.driver.write_behind.mode is Mode.POISONED
    world.requests.clear()
    return world


def heal(world: World) -> None:
    world.append(config(BROKER, "", "k", None))
    world.advance(60_000)
    assert differences(world) == {}
    assert world.driver.write_behind.mode is Mode.RUNNING


def change(partition_id: int = 0, **fields: Any) -> r.PartitionChangeRecord:
    return r.PartitionChangeRecord(topic_id=T, partition_id=partition_id, **fields)


def leaders(world: World, broker_id: int) -> list[tuple[str, int, int, int]]:
    """Topic, partition, leader, leader epoch of every LeaderAndIsr a broker has got."""
    return [
        (topic.topic_name, p.partition_index, p.leader, p.leader_epoch)
        for request in world.requests.get(broker_id, [])
        if isinstance(request, m.LeaderAndIsrRequest)
        for topic in request.topic_states
        for p in topic.partition_states
    ]


def known(world: World, broker_id: int) -> dict[tuple[str, int], int]:
    """Leader epoch by partition, as the newest UpdateMetadata has it; it never goes back."""
    found: dict[tuple[str, int], int] = {}
    for request in world.requests.get(broker_id, []):
        if not isinstance(request, m.UpdateMetadataRequest):
            continue
        for topic in request.topic_states:
            for p in topic.partition_states:
                key = (topic.topic_name, p.partition_index)
                if p.leader == -2:
                    found.pop(key, None)
                    continue
                assert p.leader_epoch >= found.get(key, -1), "told something older"
                found[key] = p.leader_epoch
    return found


@pytest.mark.requirement("L01", "L02")
def test_a_new_leader_is_told_after_the_stated_time_though_nothing_is_written() -> None:
    world = stuck()
    world.append(change(leader=2, isr=(2,)))
    world.advance(PROPAGATE_AHEAD_MS - 2)
    assert world.requests == {}
    world.advance(2)
    assert world.driver.write_behind.mode is not Mode.RUNNING
    assert leaders(world, 1) == leaders(world, 2) == [("t", 0, 2, 1)]
    assert known(world, 3) == {("t", 0): 1}
    world.append(change(leader=1, isr=(1, 2)))
    assert leaders(world, 2)[-1] == ("t", 0, 1, 2), "the time is over: the next one goes at once"
    heal(world)
    assert leaders(world, 1) == [("t", 0, 2, 1), ("t", 0, 1, 2)], "and nothing is told twice"


@pytest.mark.requirement("L03")
def test_a_topic_that_is_deleted_goes_and_one_of_its_name_waits_for_its_config() -> None:
    world = stuck()
    world.append(r.RemoveTopicRecord(topic_id=T))
    world.append(*world.topic("t", U, (1, 3)), config(TOPIC, "t", "retention.ms", "7"))
    world.append(r.PartitionChangeRecord(topic_id=U, partition_id=0, leader=3, isr=(3,)))
    world.advance(PROPAGATE_AHEAD_MS)
    assert leaders(world, 1) == leaders(world, 3) == []
    stops = [one for one in world.requests[1] if isinstance(one, m.StopReplicaRequest)]
    assert [
        [p.partition_index for p in t.partition_states] for one in stops for t in one.topic_states
    ] == [[0, 1]]
    heal(world)
    assert leaders(world, 1) == leaders(world, 3) == [("t", 0, 3, 1)]
    assert len([one for one in world.requests[1] if isinstance(one, m.StopReplicaRequest)]) == 1


@pytest.mark.parametrize("pending", [False, True])
def test_a_replica_that_is_new_to_a_broker_waits_for_the_config_of_its_topic(pending: bool) -> None:
    world = stuck()
    if pending:
        world.append(config(TOPIC, "t", "retention.ms", "7"))
    world.append(change(replicas=(1, 2, 3), adding_replicas=(3,)))
    world.append(change(1, leader=1, isr=(1,)))
    world.append(r.PartitionRecord(topic_id=T, partition_id=2, replicas=(3,), isr=(3,), leader=3))
    world.advance(PROPAGATE_AHEAD_MS)
    told = {(name, p) for name, p, _leader, _epoch in leaders(world, 3)}
    assert told == (set() if pending else {("t", 0), ("t", 2)})
    assert ("t", 1, 1, 1) in leaders(world, 2)
    heal(world)
    told = {(name, p) for name, p, _leader, _epoch in leaders(world, 3)}
    assert told == {("t", 0), ("t", 2)}
    assert known(world, 2).keys() == {("t", 0), ("t", 1), ("t", 2)}


def test_a_broker_that_restarts_meanwhile_hears_of_all_it_held() -> None:
    """A FULL LeaderAndIsr makes a broker give up what it does not name."""
    world = stuck()
    world.append(*world.topic("u", U, (1, 2)))
    world.append(change(leader=2, isr=(2,)))
    world.advance(PROPAGATE_AHEAD_MS)
    world.requests.clear()
    world.register(1)
    full = [one for one in world.requests[1] if isinstance(one, m.LeaderAndIsrRequest)]
    assert [one.type for one in full] == [2]
    assert leaders(world, 1) == [("t", 0, 2, 1), ("t", 1, 2, 0)]
    heal(world)
    assert ("u", 0, 1, 0) in leaders(world, 1)


def test_what_is_confirmed_late_takes_nothing_back() -> None:
    """The unit that heals is older than what brokers were told ahead of it."""
    world = stuck()
    world.append(*world.topic("u", U, (1, 2)))
    world.append(change(leader=2, isr=(2,)))
    world.advance(PROPAGATE_AHEAD_MS)
    submit = world.zk.submit

    def hold_the_healing_multi(tag: object, request: Any, now_ms: int) -> list[Effect]:
        if hasattr(request, "ops") and world.held is None:
            world.held = []
        return submit(tag, request, now_ms)

    world.zk.submit = hold_the_healing_multi  # type: ignore[method-assign]
    world.append(config(BROKER, "", "k", None))
    for _ in range(400):
        world.advance(100)
        if world.held is not None:
            break
    world.append(change(leader=1, isr=(1, 2)))
    assert known(world, 3)[("t", 0)] == 2, "told ahead of the unit that is on its way"
    world.zk.submit = submit  # type: ignore[method-assign]
    world.release()
    world.advance(60_000)
    assert known(world, 3) == {("t", 0): 2, ("u", 0): 0}
    assert differences(world) == {}


def test_without_a_refused_znode_brokers_wait_for_zookeeper() -> None:
    world = World().dual_write(1, 2)
    world.zk_up = False
    world.cut()
    world.requests.clear()
    world.append(*world.topic("t", T, (1, 2)))
    world.advance(10 * PROPAGATE_AHEAD_MS)
    assert world.requests == {}


def test_the_status_says_what_to_do() -> None:
    (znode,) = stuck().driver.status(0).poisoned
    assert znode.path == "/config/brokers/<default>"
    assert znode.remedy.startswith(
        "delete what the znode holds (config of broker <default>): deletions are still accepted"
    )
    assert "kraftbridge.zk.write.behind.poison=skip" in znode.remedy


def test_what_brokers_know_never_goes_back() -> None:
    world = stuck()
    gate, earlier = world.driver.propagation_gate, world.journal.stable
    world.append(change(leader=2))
    world.advance(PROPAGATE_AHEAD_MS)
    assert leaders(world, 2)
    with pytest.raises(AssertionError, match="what brokers know goes back"):
        gate._propagate(earlier, Touched(), 1, world.now_ms)
