"""BrokerHeartbeat: the table of states, and the records each step writes."""

from __future__ import annotations

import itertools

import pytest

from emulator.controller.queue.heartbeats import BrokerState, Heartbeats, next_state
from tests.unit.controller.world import (
    World,
    broker,
    create,
    handle,
    image_of,
    partition,
    topic,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

F, U = BrokerState.FENCED, BrokerState.UNFENCED
C, S = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW

TABLE = [
    # current, want_fence, want_shut_down, caught_up, leads, others_caught_up -> next
    (F, 0, 0, 1, 0, 0, U),
    (F, 0, 0, 0, 0, 0, F),
    (F, 1, 0, 1, 0, 0, F),
    (F, 0, 1, 0, 0, 0, S),
    (F, 1, 1, 1, 1, 0, S),
    (U, 0, 0, 0, 1, 0, U),
    (U, 1, 0, 1, 1, 1, F),
    (U, 1, 1, 1, 1, 1, S),
    (U, 0, 1, 1, 1, 1, C),
    (U, 0, 1, 1, 0, 0, S),
    (C, 0, 1, 1, 1, 1, C),
    (C, 0, 1, 1, 0, 0, C),
    (C, 0, 1, 1, 0, 1, S),
    (C, 0, 0, 1, 0, 1, S),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_state_table(row: tuple[BrokerState, int, int, int, int, int, BrokerState]) -> None:
    current, fence, shut_down, caught_up, leads, others, expected = row
    found = next_state(
        current,
        want_fence=bool(fence),
        want_shut_down=bool(shut_down),
        caught_up=bool(caught_up),
        leads=bool(leads),
        others_caught_up=bool(others),
    )
    assert found is expected


def test_a_granted_shutdown_is_never_taken_back() -> None:
    flags = itertools.product([False, True], repeat=5)
    for fence, shut_down, caught_up, leads, others in flags:
        found = next_state(
            S,
            want_fence=fence,
            want_shut_down=shut_down,
            caught_up=caught_up,
            leads=leads,
            others_caught_up=others,
        )
        assert found is S


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 100), (1, 102), (2, 101)])
def test_an_unknown_broker_or_epoch_is_stale(broker_id: int, epoch: int) -> None:
    request = m.BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)
    result = handle(image_of(broker(1)), request)
    assert result.response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert result.records == ()
    assert result.contact is None


@pytest.mark.parametrize(("offset", "caught_up"), [(100, False), (101, True), (102, True)])
def test_caught_up_means_at_or_past_the_registration(offset: int, caught_up: bool) -> None:
    """Brokers in ZooKeeper mode report one more than they hold at times."""
    request = m.BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=101, current_metadata_offset=offset
    )
    result = handle(image_of(broker(1, fenced=True)), request)
    assert result.response.is_caught_up is caught_up
    assert result.response.is_fenced is not caught_up
    assert bool(result.records) is caught_up


@pytest.mark.parametrize(
    ("level", "fencing", "unfencing"),
    [
        (5, r.FenceBrokerRecord(id=1, epoch=101), r.UnfenceBrokerRecord(id=1, epoch=101)),
        (
            6,
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1),
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1),
        ),
    ],
)
@pytest.mark.requirement("J01")
def test_the_fencing_record_follows_metadata_version(
    level: int, fencing: object, unfencing: object
) -> None:
    fence = m.BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=101, current_metadata_offset=101, want_fence=True
    )
    assert handle(image_of(broker(1), mv=level), fence).records == (fencing,)
    unfence = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=101)
    assert handle(image_of(broker(1, fenced=True), mv=level), unfence).records == (unfencing,)


def test_a_leader_s_shutdown_takes_three_heartbeats() -> None:
    """As recorded: moves first, a wait for the others' offsets, then the grant."""
    world = World().join(0, 1, 2)
    world.ask(create("t", 6, 3))
    offset = world.log.log_end_offset
    first = world.heartbeat(1, want_shut_down=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    written = world.records_since(offset)
    assert written[0] == (
        r.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=world.tip.brokers[1].epoch, in_controlled_shutdown=1
        ),
        1,
    )
    assert len(written) == 7
    moved_until = world.log.log_end_offset - 1
    assert all(1 not in one.isr and one.leader != 1 for one in _partitions(world, "t"))
    again = world.heartbeat(1, want_shut_down=True)
    assert again.should_shut_down is False
    world.heartbeat(0, current_metadata_offset=moved_until)
    world.heartbeat(2, current_metadata_offset=moved_until - 1)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down is False
    world.heartbeat(2, current_metadata_offset=moved_until)
    granted = world.heartbeat(1, want_shut_down=True)
    assert (granted.is_fenced, granted.should_shut_down) == (True, True)
    assert world.tip.brokers[1].fenced


def _partitions(world: World, name: str) -> list[object]:
    found = world.tip.topic(name)
    return list(found.partitions.values())


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    world = World().join(0, 1)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down is True
    assert world.tip.brokers[1].fenced


def test_a_broker_alone_may_go_when_its_leaders_are_gone() -> None:
    """No other active broker: nobody's offset is waited for; ISRs keep their last member."""
    world = World().join(0)
    world.ask(create("t", 2, 1))
    assert world.heartbeat(0, want_shut_down=True).should_shut_down is False
    assert world.heartbeat(0, want_shut_down=True).should_shut_down is True
    assert [(one.leader, one.isr) for one in _partitions(world, "t")] == [(-1, (0,))] * 2


def test_unfencing_elects_where_nobody_else_could() -> None:
    image = image_of(
        broker(1, fenced=True),
        topic("t", 1),
        partition(1, 0, replicas=(1,), leader=-1),
        partition(1, 1, replicas=(2, 1), isr=(2,), leader=-1),
        partition(1, 2, replicas=(2, 1), isr=(1, 2), leader=-1),
    )
    request = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=101)
    records = handle(image, request).records
    assert records == (
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1),
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), leader=1),
        r.PartitionChangeRecord(partition_id=2, topic_id=uuid(1), leader=1),
    )


def test_an_offline_directory_moves_what_lived_there() -> None:
    """KIP-858; the record lists what is left, and an empty list cannot be said."""
    both = (uuid(5001), uuid(5011))
    image = image_of(
        broker(1, log_dirs=both),
        broker(2),
        topic("t", 1),
        partition(1, 0, replicas=(1, 2), directories=(uuid(5001), uuid(5002))),
        partition(1, 1, replicas=(1, 2), directories=(uuid(5011), uuid(5002))),
    )
    request = m.BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=101,
        current_metadata_offset=101,
        offline_log_dirs=(uuid(5011),),
    )
    assert handle(image, request).records == (
        r.PartitionChangeRecord(partition_id=1, topic_id=uuid(1), isr=(2,), leader=2),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, log_dirs=(uuid(5001),)),
    )
    request.offline_log_dirs = both
    kinds = {type(record) for record in handle(image, request).records}
    assert kinds == {r.PartitionChangeRecord}


def test_a_directory_that_is_offline_when_its_broker_is_unfenced_is_logged_too() -> None:
    """As in Kafka: after the broker's change, by the same heartbeat."""
    image = image_of(broker(1, fenced=True, log_dirs=(uuid(5001), uuid(5011))))
    request = m.BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=101,
        current_metadata_offset=101,
        offline_log_dirs=(uuid(5011),),
    )
    assert handle(image, request).records == (
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, log_dirs=(uuid(5001),)),
    )


def test_a_broker_is_not_elected_for_a_replica_whose_directory_it_says_is_offline() -> None:
    """Kafka elects it, and the partition has a leader that cannot serve it."""
    online, offline = uuid(5001), uuid(5011)
    image = image_of(
        broker(1, fenced=True, log_dirs=(online, offline)),
        topic("t", 1),
        partition(1, 0, replicas=(1,), leader=-1, directories=(online,)),
        partition(1, 1, replicas=(1,), leader=-1, directories=(offline,)),
    )
    request = m.BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=101, current_metadata_offset=101, offline_log_dirs=(offline,)
    )
    elected = r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), leader=1)
    unfenced = r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1)
    left = r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, log_dirs=(online,))
    assert handle(image, request).records == (unfenced, elected, left)
    request.offline_log_dirs = (online, offline)
    assert handle(image, request).records == (unfenced,)


def test_a_fenced_broker_that_asks_to_be_shut_down_is_fenced_once_more() -> None:
    """As in Kafka: what changes the state is logged, though the log has it already."""
    image = image_of(broker(1, fenced=True))
    request = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, want_shut_down=True)
    result = handle(image, request)
    assert (result.response.is_fenced, result.response.should_shut_down) == (True, True)
    change = r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)
    assert result.records == (change,)
    request.want_shut_down = False
    assert handle(image, request).records == ()


def test_a_broker_that_was_just_unfenced_has_to_report_its_offset_again() -> None:
    """As in Kafka: until then no shutdown is granted, wherever it said that it is."""
    world = World().join(0)
    world.ask(create("t"))
    assert world.heartbeat(0, want_shut_down=True).should_shut_down is False
    world.register(1)
    far = 1 << 50
    assert world.heartbeat(1, current_metadata_offset=far).is_fenced is False
    waits = world.heartbeat(0, want_shut_down=True)
    assert (waits.is_fenced, waits.should_shut_down) == (False, False)
    world.heartbeat(1, current_metadata_offset=far)
    assert world.heartbeat(0, want_shut_down=True).should_shut_down is True


def test_sessions_expire_oldest_first_and_only_for_unfenced_brokers() -> None:
    image = image_of(broker(0), broker(1), broker(2, fenced=True))
    sessions = Heartbeats(9_000)
    sessions.activate([2, 1, 0], now_ms=0)
    sessions.contact(0, 10, now_ms=500)
    assert sessions.oldest(image) == (1, 9_000)
    sessions.contact(1, 10, now_ms=600)
    assert sessions.oldest(image) == (0, 9_500)
    sessions.remove(0)
    assert sessions.oldest(image) == (1, 9_600)
    assert sessions.oldest(image_of(broker(2, fenced=True))) is None


def test_an_unheard_of_offset_keeps_a_shutdown_waiting() -> None:
    """After a restart offsets are unknown until each broker has been heard from."""
    image = image_of(broker(0), broker(1))
    sessions = Heartbeats(9_000)
    sessions.activate([0, 1], now_ms=0)
    sessions.begin_controlled_shutdown(1, 50)
    assert sessions.lowest_active_offset(image) == -1
    sessions.contact(0, 50, now_ms=1)
    assert sessions.lowest_active_offset(image) == 50
    sessions.begin_controlled_shutdown(1, 60)
    session = sessions.session(1)
    assert session.controlled_shutdown_offset == 50
