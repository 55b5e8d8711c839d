"""What waits for a ZooKeeper that is behind: at the first bound, at the second, or never."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from emulator.controller.queue.urgency import PASSES_MAX, Urgency, urgency_of
from tests.kit.requests import alter_config, delete_scram, delete_topics, elect, quota
from tests.unit.controller.test_alter_partition import request as alter_partition
from tests.unit.controller.test_alter_partition import wanted
from tests.unit.controller.test_registration import registration
from tests.unit.controller.world import World, broker, create, partition, topic, uuid
from wire import messages as m
from wire import records as r

TOPIC, BROKER = 2, 4
REMOVAL = alter_config(BROKER, "message.max.bytes", None, "")


def populated() -> World:
    """Two topics, a config, a quota, a user; partition 0 of ``t`` is led by its second replica."""
    world = World()
    quota = r.ClientQuotaRecord.EntityData(entity_type="user", entity_name="a")
    world.controller.append(
        [
            broker(0),
            broker(1),
            broker(2),
            topic("t", 1),
            partition(1, leader=1, isr=(0, 1), leader_epoch=5, partition_epoch=7),
            topic("u", 2),
            partition(2),
            r.ConfigRecord(
                resource_type=BROKER, resource_name="", name="message.max.bytes", value="7"
            ),
            r.ClientQuotaRecord(entity=[quota], key="producer_byte_rate", value=1.0),
            r.UserScramCredentialRecord(name="a", mechanism=1, iterations=4096),
        ],
        world.now_ms,
    )
    world.controller.heartbeats.activate(world.tip.brokers, world.now_ms)
    world.commit()
    return world


def isr_change(world: World) -> m.AlterPartitionRequest:
    epoch = world.tip.brokers[1].epoch
    return alter_partition(wanted((0, 1, 2)), broker_id=1, broker_epoch=epoch)


def producer_ids(world: World) -> m.AllocateProducerIdsRequest:
    return m.AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.tip.brokers[1].epoch)


ORDINARY: list[Any] = [
    lambda _w: create("v", timeout_ms=60_000),
    lambda _w: alter_config(BROKER, "message.max.bytes", "9", ""),
    lambda _w: quota(2.0, "a"),
]
URGENT: list[Any] = [
    lambda _w: delete_topics("u"),
    lambda _w: REMOVAL,
    lambda _w: quota(None, "a"),
    lambda _w: delete_scram("a"),
    isr_change,
    producer_ids,
    lambda _w: m.UnregisterBrokerRequest(broker_id=2),
    lambda _w: registration(7),
    lambda _w: m.ControllerRegistrationRequest(controller_id=3000),
]
VITAL: list[Any] = [
    lambda _w: elect("t", 0, timeout_ms=60_000),
    lambda w: w.heartbeat_of(2, want_fence=True),
    lambda _w: registration(2),
]


@pytest.mark.parametrize(
    ("build", "urgency"),
    [(build, Urgency.ORDINARY) for build in ORDINARY]
    + [(build, Urgency.URGENT) for build in URGENT]
    + [(build, Urgency.VITAL) for build in VITAL],
)
def test_it_waits_at_its_bound_and_not_before(build: Any, urgency: Urgency) -> None:
    first_bound, second_bound = populated(), populated()
    first_bound.controller.hold(room=0, hard_room=1, now_ms=first_bound.now_ms)
    second_bound.controller.hold(room=0, hard_room=0, now_ms=second_bound.now_ms)
    found = []
    for world in (first_bound, second_bound):
        offset = world.log.log_end_offset
        world.send(build(world))
        waits = len(world.controller.gate) == 1
        assert waits == (world.log.log_end_offset == offset), "appended, or waiting"
        found.append(waits)
    assert found == [urgency is Urgency.ORDINARY, urgency is not Urgency.VITAL]


@pytest.mark.requirement("U03")
def test_a_deletion_does_not_wait_behind_those_who_wait_at_the_first_bound() -> None:
    world = populated()
    world.controller.hold(room=0, hard_room=9, now_ms=world.now_ms)
    world.send(create("v", timeout_ms=60_000))
    assert world.ask(delete_topics("u")).responses[0].error_code == 0
    assert world.tip.topic("u") is None
    assert len(world.controller.gate) == 1


def test_at_the_second_bound_a_session_still_ends_and_a_leader_is_still_found() -> None:
    world = populated()
    world.controller.hold(room=0, hard_room=0, now_ms=world.now_ms)
    world.controller.heartbeats.contact(0, None, world.now_ms + 9_000)
    world.later(9_001)
    assert world.tip.brokers[1].fenced
    assert world.tip.topics[uuid(1)].partitions[0].leader == 0
    assert world.register(2).error_code == 0


def test_brokers_nobody_knows_do_not_register_past_the_second_bound() -> None:
    world = populated()
    world.controller.hold(room=0, hard_room=3, now_ms=world.now_ms)
    for broker_id in range(10, 30):
        world.send(registration(broker_id))
    assert [broker_id for broker_id in world.tip.brokers if broker_id >= 10] == [10, 11, 12]
    world.controller.hold(room=0, hard_room=9, now_ms=world.now_ms)
    assert len(world.tip.brokers) == 15


def stubborn(world: World, *requests: Any) -> int:
    """Send requests, each built anew, a hundred times in turn; returns the records they made."""
    offset = world.log.log_end_offset
    for _time in range(100):
        for build in requests:
            world.send(build())
    return world.log.log_end_offset - offset


def again() -> m.BrokerRegistrationRequest:
    return registration(2, incarnation_id=uuid4().bytes)


def at_the_second_bound() -> World:
    """Two brokers, of which 2 is fenced: another incarnation of it may register."""
    world = World().join(1, 2)
    world.heartbeat(2, want_fence=True)
    world.controller.hold(room=0, hard_room=0, now_ms=world.now_ms)
    return world


def test_a_broker_that_registers_again_and_again_waits_at_the_second_bound() -> None:
    """Each time with a new incarnation, while ZooKeeper is away; others go on as before."""
    world = at_the_second_bound()
    assert stubborn(world, again) == PASSES_MAX
    assert len(world.controller.gate) == 100 - PASSES_MAX
    assert stubborn(world, lambda: registration(2)) == 0, "nor with one incarnation"
    world.send(world.heartbeat_of(1, want_fence=True))
    assert world.tip.brokers[1].fenced


def test_a_broker_that_registers_too_often_registers_when_zookeeper_is_back() -> None:
    world = at_the_second_bound()
    stubborn(world, again)
    world.controller.hold(room=None, hard_room=None, now_ms=world.now_ms)
    assert len(world.controller.gate) == 0
    world.controller.hold(room=0, hard_room=0, now_ms=world.now_ms)
    assert stubborn(world, again) == PASSES_MAX


def test_a_broker_that_is_fenced_and_unfenced_in_turn_waits_at_the_second_bound() -> None:
    world = at_the_second_bound()
    changes = stubborn(
        world, lambda: world.heartbeat_of(1, want_fence=True), lambda: world.heartbeat_of(1)
    )
    assert changes == PASSES_MAX
    assert world.controller.gate


def test_heartbeats_that_change_nothing_do_not_count() -> None:
    world = at_the_second_bound()
    assert stubborn(world, lambda: world.heartbeat_of(1)) == 0
    assert not world.controller.gate
    assert stubborn(world, lambda: world.heartbeat_of(1, want_fence=True)) == 1


def test_what_the_end_of_a_session_appends_counts_before_the_next_look_at_zookeeper() -> None:
    world = populated()
    world.controller.hold(room=3, hard_room=9, now_ms=world.now_ms)
    world.controller.heartbeats.contact(0, None, world.now_ms + 9_000)
    end = world.log.log_end_offset
    world.later(9_001)
    assert world.log.log_end_offset - end >= 3
    world.send(create("v", timeout_ms=60_000))
    assert world.tip.topic("v") is None
    assert len(world.controller.gate) == 1


def test_urgent_calls_go_first_and_each_line_keeps_its_order() -> None:
    world = populated()
    world.controller.hold(room=0, hard_room=0, now_ms=world.now_ms)
    world.send(create("v", timeout_ms=60_000))
    world.send(delete_topics("u"))
    world.send(delete_topics("t"))
    world.controller.hold(room=0, hard_room=1, now_ms=world.now_ms)
    assert (world.tip.topic("u"), world.tip.topic("t") is None) == (None, False)
    world.controller.hold(room=1, hard_room=2, now_ms=world.now_ms)
    assert world.tip.topic("t") is None
    assert world.tip.topic("v") is None, "the deletion has used up the room"
    world.controller.hold(room=1, hard_room=2, now_ms=world.now_ms)
    assert world.tip.topic("v") is not None


def test_a_sweep_that_makes_a_partition_live_again_does_not_wait() -> None:
    """An unclean election that the topic allows; moving leaders back waits as before."""
    world = World(properties={"unclean.leader.election.enable": "true"})
    records = [broker(0), topic("t", 1), partition(1, replicas=(3, 0), isr=(3,), leader=-1)]
    world.controller.append(records, world.now_ms)
    world.controller.hold(room=0, hard_room=0, now_ms=world.now_ms)
    for _tick in range(200):
        world.controller.heartbeats.contact(0, None, world.now_ms)
        world.later(2_000)
    assert world.tip.topics[uuid(1)].partitions[0].leader == 0


def test_one_record_that_adds_makes_the_whole_change_ordinary() -> None:
    image = populated().tip
    gone = r.ConfigRecord(
        resource_type=BROKER, resource_name="", name="message.max.bytes", value=None
    )
    there = r.ConfigRecord(resource_type=TOPIC, resource_name="t", name="l", value="")
    assert urgency_of(Urgency.ORDINARY, [gone], image) is Urgency.URGENT
    assert urgency_of(Urgency.ORDINARY, [gone, there], image) is Urgency.ORDINARY
    assert urgency_of(Urgency.VITAL, [gone], image) is Urgency.VITAL


def test_who_unsets_what_is_not_set_waits_at_the_first_bound() -> None:
    """Of a broker's config that writes a record each time, and could fill the second bound."""
    world = populated()
    assert world.ask(REMOVAL).responses[0].error_code == 0
    world.controller.hold(room=0, hard_room=9, now_ms=world.now_ms)
    assert world.send(REMOVAL) == []
    assert len(world.controller.gate) == 1
