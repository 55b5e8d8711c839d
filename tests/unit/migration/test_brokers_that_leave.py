"""Brokers that leave, or come without having registered, between the check and the copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator.controller.rules import broker_changes
from emulator.controller.tables.index import TipIndex
from emulator.metadata.topics import NO_LEADER, Partition
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.seam import Effect, whole
from emulator.zookeeper.ops import Create, Multi, SetData
from tests.kit.requests import elect
from tests.unit.controller.world import config, handle
from tests.unit.migration.stories import STATE, A, B, waiting, waiting_world
from tests.unit.migration.world import World, differences
from wire import records as r
from wire.errors import ErrorCode

TOPIC = b'{"version":3,"topic_id":"QkJCQkJCQkJCQkJCQkJCQg","partitions":{"0":[%s]}}'
LED_BY_2 = STATE.replace(b'"leader":1', b'"leader":2')
ALONE_2 = LED_BY_2.replace(b"[1,2]", b"[2]")


def unregister(world: World, broker_id: int) -> None:
    """As UnregisterBroker does, out of the ISRs in the log first."""
    tip = world.journal.tip
    records = whole(broker_changes.unregister(tip, config(), TipIndex(tip), tip.brokers[broker_id]))
    world.append(*records)


def before(world: World, wanted: Callable[[Any], bool], action: Callable[[], None]) -> None:
    """Do something just before the first request of a kind goes to ZooKeeper."""
    submit, done = world.zk.submit, []

    def spied(tag: object, request: Any, now_ms: int) -> list[Effect]:
        if not done and wanted(request):
            done.append(True)
            action()
        return submit(tag, request, now_ms)

    world.zk.submit = spied  # type: ignore[method-assign]


def claims(request: Any) -> bool:
    return isinstance(request, Multi) and any(
        isinstance(op, Create) and op.path == "/controller" for op in request.ops
    )


def appends_quietly(world: World, broker_id: int) -> None:
    """Unregister without running the driver, which is at work."""
    tip = world.journal.tip
    records = whole(broker_changes.unregister(tip, config(), TipIndex(tip), tip.brokers[broker_id]))
    world.journal.append(records, world.now_ms)


def elected(world: World, index: int) -> int:
    """What ElectLeaders answers for a partition of the topic."""
    answer = handle(world.journal.stable, elect("a", index)).response
    return int(answer.replica_election_results[0].partition_result[0].error_code)


def partitions(world: World) -> list[Partition]:
    return list(world.journal.stable.topics[A].partitions.values())


def world_of_two() -> World:
    """Partition 0 of ``a`` is led by 1, partition 1 by 2; both are in both ISRs."""
    world = waiting_world()
    world.put("/brokers/topics/a/partitions/1/state", LED_BY_2)
    world.start()
    return world


def both_register(world: World) -> None:
    """Both are unfenced when the last thing that holds the claim up goes."""
    world.put("/brokers/ids/7", b'{"version":5,"endpoints":[]}')
    world.register(1)
    world.register(2)
    assert world.driver.state is State.WAIT_FOR_BROKERS
    world.remove("/brokers/ids/7")
    world.advance(10_000)


AT = {
    "as the claim is made": claims,
    "as the copy begins to read": lambda request: (
        isinstance(request, Multi)
        and any(getattr(op, "path", "") == "/kraft_bridge" for op in request.ops)
    ),
}


@pytest.mark.parametrize("at", AT.values(), ids=AT)
def test_a_broker_that_unregisters_before_the_copy_is_alive_nowhere(
    at: Callable[[Any], bool],
) -> None:
    world = world_of_two()

    def leave() -> None:
        world.remove("/brokers/ids/2")
        appends_quietly(world, 2)

    before(world, at, leave)
    both_register(world)
    assert world.driver.state is State.DUAL_WRITE
    assert 2 not in world.journal.stable.brokers
    assert [(one.leader, one.isr) for one in partitions(world)] == [(1, (1,)), (1, (1,))]
    assert [one.leader_epoch for one in partitions(world)] == [5, 5], "followers must notice"
    assert differences(world) == {}


def test_the_last_in_sync_replica_stays_one_without_a_leader() -> None:
    """A broker that is gone may come back, and nobody else has all of the data."""
    world = world_of_two()
    world.put("/brokers/topics/a/partitions/1/state", ALONE_2)

    def leave() -> None:
        world.remove("/brokers/ids/2")
        appends_quietly(world, 2)

    before(world, claims, leave)
    both_register(world)
    first, second = partitions(world)
    assert (first.leader, first.isr) == (1, (1,))
    assert (second.leader, second.isr) == (NO_LEADER, (2,))
    assert elected(world, 1) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert differences(world) == {}
    # It comes back: it is elected, as Kafka does when a broker is unfenced.
    world.register(2, fenced=True)
    tip = world.journal.tip
    world.append(*whole(broker_changes.unfence(tip, config(), TipIndex(tip), tip.brokers[2])))
    assert partitions(world)[1].leader == 2


def test_after_such_a_copy_elections_and_fencing_work() -> None:
    world = world_of_two()

    def leave() -> None:
        world.remove("/brokers/ids/2")
        appends_quietly(world, 2)

    before(world, claims, leave)
    both_register(world)
    assert elected(world, 1) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    tip = world.journal.tip
    world.append(*whole(broker_changes.fence(tip, config(), TipIndex(tip), tip.brokers[1])))
    assert [(one.leader, one.isr) for one in partitions(world)] == [(NO_LEADER, (1,))] * 2
    world.advance(1_000)
    assert differences(world) == {}


def test_a_claim_that_is_refused_for_long_is_checked_again_each_time() -> None:
    world = world_of_two()
    bump = SetData("/controller_epoch", b"1", -1)
    submit = world.zk.submit

    def race(tag: object, request: Any, now_ms: int) -> list[Effect]:
        if claims(request):
            world.model.tree.write(bump, 1, world.now_ms)
        return submit(tag, request, now_ms)

    world.zk.submit = race  # type: ignore[method-assign]
    both_register(world)
    assert world.driver.state is State.BECOME_CONTROLLER
    world.remove("/brokers/ids/2")
    unregister(world, 2)
    world.advance(10_000)
    world.zk.submit = submit  # type: ignore[method-assign]
    world.advance(30_000)
    assert waiting(world) == {(Why.BROKER_NOT_REGISTERED, "2")}
    assert b"-1" in (world.data("/controller") or b""), "nothing was claimed meanwhile"
    world.put("/brokers/ids/2", b'{"version":5,"endpoints":[]}')
    world.register(2)
    world.reach(State.DUAL_WRITE, 10_000)
    assert differences(world) == {}


def test_a_broker_that_leads_without_having_registered_holds_the_copy_up() -> None:
    """It runs, and would go on leading: nobody could tell it of another leader."""
    world = world_of_two()

    def come() -> None:
        world.put("/brokers/ids/3", b'{"version":5,"endpoints":[]}')
        world.put("/brokers/topics/b", TOPIC % b"3,1")
        world.put(
            "/brokers/topics/b/partitions/0/state",
            STATE.replace(b'"leader":1', b'"leader":3').replace(b"[1,2]", b"[3,1]"),
        )

    before(world, claims, come)
    both_register(world)
    assert world.driver.state is State.ZK_MIGRATION
    assert waiting(world) == {(Why.BROKER_NOT_REGISTERED, "3")}
    assert world.journal.tip.topics == {}, "nothing is copied before it can be"
    world.register(3)
    world.reach(State.DUAL_WRITE, 1_000)
    found = world.journal.stable.topic("b")
    assert found.partitions[0].leader == 3
    assert differences(world) == {}


def test_a_broker_without_a_znode_that_is_registered_is_left_to_its_session() -> None:
    """Its heartbeats say whether it is alive; what it leads moves when it is fenced."""
    world = world_of_two()
    before(world, claims, lambda: world.remove("/brokers/ids/2"))
    both_register(world)
    assert world.driver.state is State.DUAL_WRITE
    assert [(one.leader, one.isr) for one in partitions(world)] == [(1, (1, 2)), (2, (1, 2))]


def test_a_topic_of_a_broker_that_nobody_knows_is_copied_without_a_leader() -> None:
    """Made and orphaned between the check and the claim."""
    world = world_of_two()

    def orphan() -> None:
        world.put("/brokers/topics/b", TOPIC % b"9,1")
        world.put(
            "/brokers/topics/b/partitions/0/state",
            STATE.replace(b'"leader":1', b'"leader":9').replace(b"[1,2]", b"[9]"),
        )
        world.put("/brokers/topics/c", (TOPIC % b"9").replace(b"QkJC", b"Q0ND"))

    before(world, claims, orphan)
    both_register(world)
    assert world.driver.state is State.DUAL_WRITE
    for name in ("b", "c"):
        found = world.journal.stable.topic(name)
        one = found.partitions[0]
        assert (one.leader, one.isr) == (NO_LEADER, (9,))
    assert differences(world) == {}


def test_a_broker_that_unregisters_between_two_pages_is_alive_on_neither() -> None:
    world = waiting_world(migration_min_batch_size=1)
    world.put("/brokers/topics/a/partitions/1/state", LED_BY_2)
    world.put("/brokers/topics/b", TOPIC % b"2,1")
    world.put("/brokers/topics/b/partitions/0/state", LED_BY_2)
    world.start()
    append = world.journal.append

    def appended(records: Any, now_ms: int, *, atomic: bool = True) -> int:
        last = append(records, now_ms, atomic=atomic)
        if any(isinstance(one, r.PartitionRecord) for one in records):
            world.journal.append = append  # type: ignore[method-assign]
            appends_quietly(world, 2)
            return world.journal.end - 1
        return last

    world.journal.append = appended  # type: ignore[method-assign]
    both_register(world)
    assert world.driver.state is State.DUAL_WRITE
    (other,) = world.journal.stable.topics[B].partitions.values()
    assert [(one.leader, one.isr) for one in (*partitions(world), other)] == [(1, (1,))] * 3
    assert differences(world) == {}


def test_below_13_too() -> None:
    world = waiting_world(metadata_version=8)
    world.put("/brokers/topics/a/partitions/1/state", LED_BY_2)
    world.start()

    def leave() -> None:
        world.remove("/brokers/ids/2")
        appends_quietly(world, 2)

    before(world, claims, leave)
    both_register(world)
    assert [(one.leader, one.isr) for one in partitions(world)] == [(1, (1,)), (1, (1,))]
    assert r.PartitionChangeRecord not in {
        type(record) for _, batch in world.journal.batches for record in batch
    }
