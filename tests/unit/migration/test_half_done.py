"""Followers that a broker left half done get another leader epoch, once it does what it is sent."""

from __future__ import annotations

from unittest import mock

import msgspec
import pytest

from emulator.metadata.topics import NO_LEADER
from emulator.migration.dual_write.bound import Bound
from emulator.migration.propagation import replies
from emulator.migration.propagation.replies import FAILED_MS, HalfDone
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from tests.unit.migration.world import World
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

T, U = b"t" * 16, b"u" * 16


def led(world: World) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Leader and leader epoch of each partition."""
    topics = world.journal.tip.topics.items()
    return {
        (topic_id, index): (one.leader, one.leader_epoch)
        for topic_id, topic in topics
        for index, one in topic.partitions.items()
    }


def failing() -> World:
    """Broker 2 throws; it follows partition 0 of T, leads 1, and does not host 2."""
    world = World().dual_write(1, 2)
    world.broker_errors[2] = ErrorCode.UNKNOWN_SERVER_ERROR
    world.append(*world.topic("t", T, (1, 2), (2, 1), (1,)))
    return world


def test_followers_get_another_leader_epoch_when_the_broker_has_stopped_throwing() -> None:
    world = failing()
    world.advance(FAILED_MS)
    assert led(world)[T, 0] == (1, 0), "it would throw again"
    world.broker_errors.clear()
    world.advance(2 * FAILED_MS)
    assert led(world) == {(T, 0): (1, 1), (T, 1): (2, 0), (T, 2): (1, 0)}
    last = [one for one in world.requests[2] if isinstance(one, m.LeaderAndIsrRequest)][-1]
    (topic,) = last.topic_states
    (state,) = topic.partition_states
    assert (state.partition_index, state.leader, state.leader_epoch) == (0, 1, 1)
    world.advance(60_000)
    assert led(world)[T, 0] == (1, 1), "once"


def test_another_epoch_since_is_enough() -> None:
    world = failing()
    elected = r.PartitionChangeRecord(partition_id=0, topic_id=T, leader=1)
    world.append(elected)
    world.broker_errors.clear()
    world.advance(10 * FAILED_MS)
    assert led(world)[T, 0] == (1, 1)
    assert led(world)[T, 1] == (2, 0)


def test_a_topic_that_was_deleted_meanwhile_is_passed_over() -> None:
    world = failing()
    world.append(r.RemoveTopicRecord(topic_id=T))
    world.broker_errors.clear()
    world.advance(10 * FAILED_MS)
    assert led(world) == {}


def test_a_broker_that_registers_anew_without_a_restart_keeps_what_it_left() -> None:
    """Its ZooKeeper session has ended: another broker epoch, another connection."""
    world = failing()
    world.broker_errors.clear()
    world.register(2)
    world.advance(10 * FAILED_MS)
    assert led(world)[T, 0] == (1, 1)


def test_a_partition_without_a_leader_gets_none() -> None:
    world = World().dual_write(1, 2)
    world.broker_errors[2] = ErrorCode.UNKNOWN_SERVER_ERROR
    topic, one = world.topic("t", T, (1, 2))
    world.append(topic, msgspec.structs.replace(one, leader=NO_LEADER))
    world.broker_errors.clear()
    world.advance(10 * FAILED_MS)
    assert led(world) == {(T, 0): (NO_LEADER, 0)}


def test_the_next_term_of_this_leader_does_not_go_on_with_it() -> None:
    """Its FULL requests are new ones."""
    world = failing()
    world.perform(world.driver.resigned(world.now_ms))
    assert not world.driver.channels.half_done.failures


def test_it_waits_while_callers_wait_for_zookeeper() -> None:
    world = failing()
    world.broker_errors.clear()
    with mock.patch.object(Bound, "waits", True):
        world.advance(10 * FAILED_MS)
        assert led(world)[T, 0] == (1, 0)
    world.advance(1)
    assert led(world)[T, 0] == (1, 1)


def test_it_waits_while_a_call_is_done_in_slices() -> None:
    world = failing()
    world.journal.under_way = True
    world.broker_errors.clear()
    world.advance(10 * FAILED_MS)
    assert led(world)[T, 0] == (1, 0)
    assert world.driver.deadline_ms is None or world.driver.deadline_ms > world.now_ms
    world.journal.under_way = False
    world.advance(1)
    assert led(world)[T, 0] == (1, 1)


def request(kind: int, *partitions: int) -> m.LeaderAndIsrRequest:
    kinds = m.LeaderAndIsrRequest
    states = [
        kinds.LeaderAndIsrPartitionState(partition_index=index, leader=1, replicas=(1, 2))
        for index in partitions
    ]
    topic = kinds.LeaderAndIsrTopicState(topic_id=T, topic_name="t", partition_states=states)
    return kinds(type=kind, topic_states=[topic])


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_many_are_done_in_steps(count: int) -> None:
    world = World().dual_write(1, 2)
    world.append(*world.topic("t", T, *[(1, 2)] * 10))
    half_done = HalfDone()
    half_done.failed(2, m.UpdateMetadataRequest())
    half_done.failed(2, request(TYPE_INCREMENTAL, 9))
    named = request(TYPE_FULL, *range(count))
    half_done.failed(2, named)
    named.type = TYPE_INCREMENTAL
    for _ in range(3):  # the same request, again
        half_done.failed(2, named)
    assert half_done.failures == {2: [named]}
    half_done.answered(2, m.UpdateMetadataRequest())
    assert not half_done.ready
    half_done.answered(2, request(TYPE_INCREMENTAL))
    found = []
    with mock.patch.object(replies, "PARTITIONS_PER_STEP", 4):
        while half_done.ready:
            records = half_done.take(world.journal.tip)
            assert len(records) <= 4
            found += records
    assert [one.partition_id for one in found] == [*range(count)], "the FULL one names all"
