"""Followers that a broker left half done get another leader epoch, once it does what it is sent."""

from __future__ import annotations

import itertools
from unittest import mock

import msgspec
import pytest

from emulator.metadata.topics import NO_LEADER
from emulator.migration.dual_write.bound import Bound
from emulator.migration.propagation import replies
from emulator.migration.propagation.replies import (
    CODES_PER_SLICE,
    FAILED_MS,
    FORGOTTEN_MS,
    HalfDone,
)
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from emulator.seam import Effect, whole
from tests.unit.migration.world import World
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import FrameReader, decode_request

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


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_what_a_broker_may_not_coordinate_gets_another_leader(name: str) -> None:
    """It answers NOT_COORDINATOR until another one has led: ReplicaManager, Kafka 3.9."""
    world = World().dual_write(1, 2)
    world.broker_errors[2] = ErrorCode.UNKNOWN_SERVER_ERROR
    world.append(*world.topic(name, T, (2, 1), (1, 2), (2,), (1,)))
    world.append(*world.topic("t", U, (2, 1)))
    world.broker_errors.clear()
    world.advance(2 * FAILED_MS)
    others = {(T, 2): (2, 0), (T, 3): (1, 0), (U, 0): (2, 0)}
    assert led(world) == {(T, 0): (1, 1), (T, 1): (1, 1), **others}
    for one in (1, 2):
        told = [x for x in world.requests[one] if isinstance(x, m.LeaderAndIsrRequest)][-1]
        (topic,) = told.topic_states
        states = {x.partition_index: (x.leader, x.leader_epoch) for x in topic.partition_states}
        assert states == {0: (1, 1), 1: (1, 1)}
    world.advance(60_000)
    assert led(world)[T, 0] == (1, 1), "once"


def test_who_is_not_in_sync_does_not_coordinate() -> None:
    world = World().dual_write(1, 2, 3)
    world.broker_errors[2] = ErrorCode.UNKNOWN_SERVER_ERROR
    topic, one = world.topic("__consumer_offsets", T, (2, 1, 3))
    world.append(topic, msgspec.structs.replace(one, isr=(2, 3)))
    world.broker_errors.clear()
    world.advance(2 * FAILED_MS)
    assert led(world) == {(T, 0): (3, 1)}


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
    assert not world.driver.channels.half_done.brokers


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


def request(kind: int, *partitions: int, leader: int = 1) -> m.LeaderAndIsrRequest:
    kinds = m.LeaderAndIsrRequest
    states = [
        kinds.LeaderAndIsrPartitionState(partition_index=index, leader=leader, replicas=(1, 2))
        for index in partitions
    ]
    topic = kinds.LeaderAndIsrTopicState(topic_id=T, topic_name="t", partition_states=states)
    return kinds(type=kind, topic_states=[topic])


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_many_are_done_in_steps(count: int) -> None:
    world = World().dual_write(1, 2)
    world.append(*world.topic("t", T, *[(1, 2)] * 10))
    half_done = HalfDone()
    whole(half_done.failed(2, m.UpdateMetadataRequest()))
    whole(half_done.failed(2, request(TYPE_FULL, *range(count))))
    half_done.done(2, m.UpdateMetadataRequest(), 5)
    assert half_done.due_ms is None
    half_done.done(2, request(TYPE_INCREMENTAL), 5)
    whole(half_done.failed(3, request(TYPE_INCREMENTAL, 9)))
    found = []
    with mock.patch.object(replies, "ELECTED_PER_STEP", 4):
        while half_done.due_ms is not None:
            assert half_done.due_ms == 5
            assert half_done.take(world.journal.tip, 4) == []
            records = half_done.take(world.journal.tip, 5)
            assert len(records) <= 4
            found += records
    assert sorted(one.partition_id for one in found) == [*range(count)]


def test_what_a_broker_fails_for_ever_is_kept_once() -> None:
    half_done = HalfDone()
    for _ in range(100):
        whole(half_done.failed(2, request(TYPE_INCREMENTAL, 1, 2)))
        whole(half_done.failed(2, request(TYPE_INCREMENTAL, 3, leader=2)))
    assert half_done.brokers[2].failed == {(T, 1): 0, (T, 2): 0}


def test_a_broker_that_was_sent_a_stale_epoch_has_done_nothing() -> None:
    world = failing()
    world.broker_errors[2] = ErrorCode.STALE_BROKER_EPOCH
    world.advance(10 * FAILED_MS)
    assert led(world)[T, 0] == (1, 0)
    world.broker_errors.clear()
    world.append(*world.topic("u", U, (1, 2)))
    assert led(world)[T, 0] == (1, 1)


class Thrower(World):
    """Broker 2 takes each new epoch of partition 0, and throws."""

    def _broker(self, conn: int, data: bytes) -> list[Effect]:
        before = len(self.requests.get(2, ()))
        broker_id, _ = self._broker_conns[conn]
        if broker_id == 2:
            (message,) = [
                message
                for frame in FrameReader().feed(data)
                for _, message in [decode_request(frame)]
            ]
            self.broker_errors[2] = self.answer(message)
        effects = super()._broker(conn, data)
        assert broker_id != 2 or len(self.requests[2]) == before + 1
        return effects

    def answer(self, message: object) -> int:
        if not isinstance(message, m.LeaderAndIsrRequest):
            return 0
        epochs = [
            state.leader_epoch
            for topic in message.topic_states
            for state in topic.partition_states
            if (topic.topic_id, state.partition_index) == (T, 0)
        ]
        new = [each for each in epochs if each > self.known]
        self.known = max([self.known, *epochs])
        return ErrorCode.UNKNOWN_SERVER_ERROR if new else 0

    known = -1


def test_a_broker_that_throws_at_each_new_epoch_is_given_one_more_and_more_rarely() -> None:
    world = Thrower().dual_write(1, 2)
    world.append(*world.topic("t", T, *[(1, 2)] * 5))
    rounds = []
    for minutes in (1, 10, 60, 60):
        world.advance(60_000 * minutes)
        rounds.append(led(world)[T, 0][1])
    assert rounds[0] <= 10
    assert rounds[1] <= 13
    assert [b - a for a, b in itertools.pairwise(rounds[1:])] == [6, 6], "every ten minutes"
    assert {epoch for _, epoch in led(world).values()} == {rounds[-1]}


def test_after_an_hour_without_it_is_the_first_time_again() -> None:
    half_done, named = HalfDone(), request(TYPE_INCREMENTAL, 1)
    due = []
    for now_ms in (0, 10, 20, FORGOTTEN_MS + 1_000):
        whole(half_done.failed(2, named))
        half_done.done(2, named, now_ms)
        assert half_done.due_ms is not None
        due.append(half_done.due_ms - now_ms)
        half_done.take(World().journal.tip, half_done.due_ms)
    assert due == [0, 2 * FAILED_MS, 4 * FAILED_MS, 0]


def test_a_request_is_looked_at_once_however_often_it_fails() -> None:
    half_done, named = HalfDone(), request(TYPE_FULL, 1)
    with mock.patch.object(replies, "_half_done", wraps=replies._half_done) as looked:
        for _ in range(8):
            whole(half_done.failed(2, named))
    assert looked.call_count == 1


@pytest.mark.parametrize("leader", [1, 2])
def test_a_request_of_many_partitions_is_gone_through_in_slices(leader: int) -> None:
    half_done, slices, each = HalfDone(), 0, CODES_PER_SLICE if leader == 1 else 0
    going = half_done.failed(2, request(TYPE_FULL, *range(7 * CODES_PER_SLICE), leader=leader))
    while next(going, going) is not going:
        slices += 1
        assert len(half_done.brokers[2].failed) == slices * each
    assert slices == 7
    half_done.done(2, request(TYPE_INCREMENTAL), 5)
    assert len(half_done.brokers[2].elected) == 7 * each


def test_what_is_done_while_a_long_request_is_gone_through_is_heard_afterwards() -> None:
    """Answers are looked at in their order."""
    world = failing()
    with mock.patch.object(replies, "CODES_PER_SLICE", 1):
        world.advance(FAILED_MS)
        world.broker_errors.clear()
        world.advance(2 * FAILED_MS)
    assert led(world)[T, 0] == (1, 1)


def test_what_is_done_meanwhile_moves_no_time_and_what_was_elected_is_over() -> None:
    half_done, named, tip = HalfDone(), request(TYPE_INCREMENTAL, 1), World().journal.tip
    for now_ms, due_ms in ((0, 0), (10, 210), (20, 210), (30, 210)):
        whole(half_done.failed(2, named))
        half_done.done(2, named, now_ms)
        assert half_done.due_ms == due_ms
        half_done.take(tip, now_ms)
    half_done.take(tip, 210)
    half_done.done(2, named, 220)
    assert half_done.due_ms is None
