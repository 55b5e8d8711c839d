"""A long request goes on in slices: counted, not timed. What comes meanwhile, and what ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from emulator.controller import registry
from emulator.controller.api import create_acls, create_topics, delete_acls, delete_topics
from emulator.controller.queue import batches
from emulator.controller.queue.answers import BusyConns, LongAnswers
from emulator.controller.queue.writes import CALLS_PER_STEP
from emulator.controller.registry import handlers
from emulator.controller.result import Result
from emulator.controller.rules import broker_changes
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.controller.rules.topics import NewPartitions
from emulator.controller.tables import index
from emulator.controller.tables.index import IndexChange, TipIndex
from emulator.metadata.replay import TopicChanges
from emulator.seam import ENTRIES_PER_SLICE, RECORDS_PER_SLICE, Slices, Ticket
from tests.kit import requests
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.test_index import contents
from tests.unit.controller.world import World, acls, call, create, every_acl, header
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import decode_response, encode_request
from wire.schema import spec

MANY = 4 * RECORDS_PER_SLICE
IDS = m.AllocateProducerIdsRequest


class Peer:
    """A ticket of a connection."""

    def __init__(self, conn: int) -> None:
        self.conn = conn


@pytest.fixture
def world() -> World:
    made = World()
    made.join(0, 1)
    return made


def begin(world: World, message: object, conn: int = 1, **fields: Any) -> Peer:
    """Give a request to the controller, and do no more than it does at once."""
    peer = Peer(conn)
    fields.setdefault("received_ms", world.now_ms)
    world.controller.request(call(message, ticket=peer, **fields), world.now_ms)
    world.controller.flush()
    return peer


def go_on(world: World) -> int:
    """Do all slices; how many there were."""
    count = 0
    while world.controller.busy:
        assert world.controller.deadline_ms == 0, "the next step follows at once"
        world.controller.go_on(world.now_ms)
        count += 1
    return count


def ids(world: World) -> Any:
    return IDS(broker_id=0, broker_epoch=world.tip.brokers[0].epoch)


def order(world: World) -> list[object]:
    """Who is answered once everything is committed, in order."""
    world.commit()
    return [reply.ticket for reply in world.controller.take_replies()]


def test_no_slice_handles_more_records_than_it_may(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any) -> Any:
            counts[name] += 1
            return real(*args)

        monkeypatch.setattr(owner, name, counted)

    count(batches, "encode_record")
    count(TopicChanges, "replay")
    total: Counter[str] = Counter()
    begin(world, create("wide", MANY, 2))
    while True:
        assert all(number <= RECORDS_PER_SLICE for number in counts.values())
        total += counts
        counts.clear()
        if not world.controller.busy:
            break
        world.controller.go_on(world.now_ms)
    assert total == {"encode_record": MANY + 1, "replay": MANY + 1}
    assert len(world.tip.topic("wide").partitions) == MANY  # type: ignore[union-attr]


def named(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def creation(count: int) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(
        topics=[create(name).topics[0] for name in named(count)], timeout_ms=60_000
    )


def several(topics: int, partitions: int) -> m.CreateTopicsRequest:
    wanted = [create(name, partitions).topics[0] for name in named(topics)]
    return m.CreateTopicsRequest(topics=wanted, timeout_ms=60_000)


def growth() -> m.CreatePartitionsRequest:
    kinds = m.CreatePartitionsRequest.CreatePartitionsTopic
    wanted = [kinds(name="n0", count=MANY + 1, assignments=None)]
    return m.CreatePartitionsRequest(topics=wanted, timeout_ms=60_000)


def removal() -> m.DeleteTopicsRequest:
    return requests.delete_topics(*named(MANY), timeout_ms=60_000)


ENTRIES: list[tuple[list[object], object, Any, str]] = [
    ([], creation(MANY), create_topics, "_check_name"),
    ([], create("wide", MANY), NewPartitions, "record"),
    ([], several(10, MANY // 10), NewPartitions, "record"),
    ([creation(1)], growth(), NewPartitions, "record"),
    ([creation(MANY)], removal(), delete_topics._Deletion, "by_name"),
    ([creation(MANY)], removal(), IndexChange, "remove"),
    ([], create("wide", MANY), index, "place"),
    ([], several(10, MANY // 10), index, "place"),
    ([], creation(MANY), IndexChange, "add"),
    ([], acls(MANY), create_acls, "problem"),
    ([acls(MANY)], every_acl(), delete_acls, "_told"),
]


@pytest.mark.parametrize(("first", "asked", "owner", "name"), ENTRIES)
def test_no_slice_looks_at_more_entries_than_it_may(
    monkeypatch: pytest.MonkeyPatch, first: list[object], asked: object, owner: Any, name: str
) -> None:
    world = World(authorizer=StandardAuthorizer(frozenset({"User:ANONYMOUS"}))).join(0, 1)
    for each in first:
        world.ask(each)
    real, seen = getattr(owner, name), [0]

    def counted(*args: Any) -> Any:
        seen[-1] += 1
        return real(*args)

    monkeypatch.setattr(owner, name, counted)
    begin(world, asked)
    while world.controller.busy:
        seen.append(0)
        world.controller.go_on(world.now_ms)
    assert sum(seen) == MANY
    assert max(seen) <= RECORDS_PER_SLICE


def test_a_small_request_is_one_step(world: World) -> None:
    begin(world, create("t", ENTRIES_PER_SLICE - 1))
    assert not world.controller.busy
    assert world.tip.topic("t") is not None


@pytest.mark.parametrize(("count", "slices"), [(99, 0), (101, 1)])
def test_configs_of_a_hundred_resources_are_one_slice(
    world: World, count: int, slices: int
) -> None:
    kind = m.IncrementalAlterConfigsRequest
    of = kind.AlterConfigsResource
    resources = [
        of(resource_type=2, resource_name=f"t{number}", configs=[]) for number in range(count)
    ]
    begin(world, kind(resources=resources))
    assert go_on(world) == slices


def test_nobody_sees_a_part_of_it(world: World) -> None:
    """Until the last slice the log, the image and the index are as before."""
    end, tip = world.log.log_end_offset, world.tip
    index = contents(world.controller._journal.index)
    begin(world, create("wide", MANY, 2))
    steps = 0
    while world.controller.busy:
        assert (world.log.log_end_offset, world.tip) == (end, tip)
        assert contents(world.controller._journal.index) == index
        world.controller.go_on(world.now_ms)
        steps += 1
    assert steps > 2 * MANY // RECORDS_PER_SLICE
    assert len(world.log.batches[-1][1]) == MANY + 1
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))


def test_what_may_append_waits_in_order_and_what_changes_nothing_passes(world: World) -> None:
    long = begin(world, create("wide", MANY, 2))
    first = begin(world, ids(world), conn=2)
    second = begin(world, create("small"), conn=3)
    assert world.controller.take_replies() == []
    beat = begin(world, world.heartbeat_of(0), conn=4)
    offer = begin(world, m.ApiVersionsRequest(), conn=5)
    passed = world.controller.take_replies()
    assert [reply.ticket for reply in passed] == [beat, offer]
    busy = world.controller.answers.busy_conns
    assert busy.take_changed() == dict.fromkeys((1, 2, 3), True)
    go_on(world)
    assert order(world) == [long, first, second]
    kinds = [type(record) for record, _ in world.records_since(0)[-3:]]
    assert kinds == [r.ProducerIdsRecord, r.TopicRecord, r.PartitionRecord]
    assert busy.take_changed() == dict.fromkeys((1, 2, 3), False)


def test_a_heartbeat_that_changes_something_waits(world: World) -> None:
    """It is decided again on what is there by then."""
    begin(world, create("wide", MANY, 2))
    end = world.log.log_end_offset
    leaving = begin(world, world.heartbeat_of(1, want_shut_down=True), conn=2)
    assert world.controller.take_replies() == []
    assert world.log.log_end_offset == end
    go_on(world)
    assert world.tip.brokers[1].in_controlled_shutdown
    led = world.tip.topic("wide").partitions.values()  # type: ignore[union-attr]
    assert {partition.leader for partition in led} == {0}
    assert leaving in order(world)


def test_two_long_requests_of_two_clients(world: World) -> None:
    one = begin(world, create("one", MANY), conn=1)
    two = begin(world, create("two", MANY), conn=2)
    steps = go_on(world)
    assert steps > 4 * MANY // RECORDS_PER_SLICE
    assert order(world) == [one, two]
    sizes = [len(values) for _, values in world.log.batches[-2:]]
    assert sizes == [MANY + 1, MANY + 1]


def test_many_that_waited_are_taken_a_few_in_a_step(world: World) -> None:
    begin(world, create("wide", MANY))
    peers = [begin(world, ids(world), conn=10 + n) for n in range(3 * CALLS_PER_STEP)]
    ends = []
    while world.controller.busy:
        ends.append(world.log.log_end_offset)
        world.controller.go_on(world.now_ms)
    ends.append(world.log.log_end_offset)
    added = [after - before for before, after in pairwise(ends) if after > before]
    assert added == [MANY + 1 + CALLS_PER_STEP, CALLS_PER_STEP, CALLS_PER_STEP]
    assert order(world)[1:] == peers


@pytest.mark.parametrize("slices", [0, 1, 5, 9])
def test_another_leader_between_slices(world: World, slices: int) -> None:
    end, tip = world.log.log_end_offset, world.tip
    begin(world, create("wide", MANY, 2))
    begin(world, create("small"), conn=2)
    for _ in range(slices):
        world.controller.go_on(world.now_ms)
    assert world.controller.busy
    world.controller.resign(world.now_ms, 7)
    codes = [reply.message.topics[0].error_code for reply in world.controller.take_replies()]  # type: ignore[attr-defined]
    assert codes == [ErrorCode.NOT_CONTROLLER] * 2
    assert not world.controller.busy
    assert (world.log.log_end_offset, world.tip) == (end, tip)
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))
    world.controller.resume(world.now_ms)
    assert world.ask(create("wide", 1)).topics[0].error_code == ErrorCode.NONE


def test_an_orderly_stop_finishes_what_was_accepted(world: World) -> None:
    long = begin(world, create("wide", MANY))
    small = begin(world, create("small"), conn=2)
    world.controller.end()
    late = begin(world, create("late"), conn=3)
    assert [reply.ticket for reply in world.controller.take_replies()] == [late]
    go_on(world)
    assert order(world) == [long, small]
    assert {"wide", "small"} == {topic.name for topic in world.tip.topics.values()}


def test_a_caller_who_hangs_up_gets_nothing_done(world: World) -> None:
    end = world.log.log_end_offset
    begin(world, create("wide", MANY), conn=1)
    begin(world, create("gone"), conn=2)
    kept = begin(world, create("kept"), conn=3)
    world.controller.go_on(world.now_ms)
    world.controller.left(lambda ticket: ticket.conn in {1, 2}, world.now_ms)
    world.controller.take_replies()
    go_on(world)
    assert order(world) == [kept]
    assert [topic.name for topic in world.tip.topics.values()] == ["kept"]
    assert world.log.log_end_offset == end + 2


def test_a_record_that_cannot_be_written_is_found_before_anything_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.may_fail = True
    bad = [r.TopicRecord(name=f"t{n}", topic_id=n.to_bytes(16, "big")) for n in range(1, MANY)]
    bad.append(r.TopicRecord(name="x" * 40_000, topic_id=bytes(15) + b"\1"))

    def function(*_: object) -> Result[Any]:
        return Result(m.CreateTopicsResponse(), tuple(bad))

    handler = registry.handlers()[19]
    monkeypatch.setitem(registry._HANDLERS, 19, replace(handler, function=function))
    end, tip = world.log.log_end_offset, world.tip
    long = begin(world, create("t"))
    waits = begin(world, ids(world), conn=2)
    go_on(world)
    assert (world.controller.answers.failures.total[19, "EncodeError", place(world)]) == 1
    assert order(world) == [long, waits]
    assert world.log.log_end_offset == end + 1
    assert world.tip.topics == tip.topics


def place(world: World) -> str:
    ((_, _, where),) = world.controller.answers.failures.total
    return where


def test_one_that_waits_beyond_its_deadline_is_not_done(world: World) -> None:
    begin(world, create("wide", MANY))
    begin(world, create("late", timeout_ms=100), conn=2)
    world.now_ms += 100
    world.controller.go_on(world.now_ms)
    go_on(world)
    (answer,) = world.answers()
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world.tip.topic("late") is None


def test_what_nobody_asked_for_is_appended_after_it(world: World) -> None:
    """As the records of the migration are; they cannot wait."""
    begin(world, create("wide", MANY))
    world.controller.append((r.NoOpRecord(),), world.now_ms)
    assert not world.controller.busy
    assert [len(values) for _, values in world.log.batches[-2:]] == [MANY + 1, 1]


def test_no_broker_is_fenced_between_slices(world: World) -> None:
    begin(world, create("wide", MANY, 2))
    end = world.log.log_end_offset
    world.now_ms += 60_000
    world.controller.tick(world.now_ms)
    assert world.log.log_end_offset == end
    go_on(world)
    assert world.tip.topic("wide") is not None
    world.later(0)
    assert all(broker.fenced for broker in world.tip.brokers.values())


def test_one_that_waited_for_zookeeper_goes_on_in_slices(world: World) -> None:
    world.controller.hold(now_ms=world.now_ms, room=0)
    long = begin(world, create("wide", MANY, timeout_ms=60_000))
    behind = begin(world, create("small", timeout_ms=60_000), conn=2)
    go_on(world)
    assert len(world.controller.gate) == 2
    world.controller.hold(now_ms=world.now_ms, room=MANY)
    assert world.controller.busy
    go_on(world)
    assert world.tip.topic("wide") is not None
    assert len(world.controller.gate) == 1, "the room is used up"
    world.controller.hold(now_ms=world.now_ms, room=1)
    assert not world.controller.busy
    assert order(world) == [long, behind]


def test_in_an_envelope(world: World) -> None:
    inner = create("wide", MANY)
    peer = begin(world, enveloped(encode_request(header(inner), inner)))
    assert go_on(world) > MANY // RECORDS_PER_SLICE
    world.commit()
    (reply,) = world.controller.take_replies()
    assert reply.ticket is peer
    answer: Any = reply.message
    assert decode_response(19, 7, answer.response_data)[1].topics[0].error_code == ErrorCode.NONE


def test_a_broker_that_is_silent_is_fenced_between_long_requests(world: World) -> None:
    """However many of them come: one that is over is followed by what is due."""
    number = 0
    begin(world, create("wide-0", MANY, 1), 0)
    end_ms = world.now_ms + 20_000
    while world.now_ms < end_ms and not world.tip.brokers[1].fenced:
        number += 1
        begin(world, create(f"wide-{number}", MANY, 1), number)
        world.controller.heartbeats.contact(0, None, world.now_ms)
        for _ in range(2 * MANY // RECORDS_PER_SLICE):
            world.controller.go_on(world.now_ms)
            world.controller.tick(world.now_ms)
        assert world.controller.busy
        world.now_ms += 1_000
    assert world.tip.brokers[1].fenced
    assert world.controller.busy, "others waited all the time"
    assert not world.tip.brokers[0].fenced


def lapsed(world: World) -> None:
    """The session of broker 0 ends, that of broker 1 does not."""
    world.later(8_000)
    world.heartbeat(1)
    world.now_ms += 1_000
    world.controller.tick(world.now_ms)


def shut_down(world: World) -> None:
    begin(world, world.heartbeat_of(0, want_shut_down=True))


def unregistered(world: World) -> None:
    begin(world, m.UnregisterBrokerRequest(broker_id=0))


@pytest.mark.parametrize("leave", [shut_down, unregistered, lapsed])
def test_a_broker_leaves_its_partitions_in_slices(
    world: World, monkeypatch: pytest.MonkeyPatch, leave: Callable[[World], object]
) -> None:
    """Others see all of it or nothing, and heartbeats pass."""
    world.ask(create("wide", MANY, 2))
    real, seen = broker_changes.partition_change, [0]

    def counted(*args: Any, **fields: Any) -> Any:
        seen[-1] += 1
        return real(*args, **fields)

    monkeypatch.setattr(broker_changes, "partition_change", counted)
    leave(world)
    tip = world.tip
    waits = begin(world, ids(world), conn=2)
    steps = 0
    while world.tip is tip:
        assert world.controller.busy
        steps += 1
        beat = begin(world, world.heartbeat_of(1), conn=3)
        assert [reply.ticket for reply in world.controller.take_replies()] == [beat]
        seen.append(0)
        world.controller.go_on(world.now_ms)
    go_on(world)
    assert sum(seen) == MANY
    assert max(seen) <= ENTRIES_PER_SLICE
    assert steps > MANY // ENTRIES_PER_SLICE
    assert waits in order(world)
    left = world.tip.topic("wide").partitions.values()  # type: ignore[union-attr]  # it is there
    assert {(one.leader, one.isr) for one in left} == {(1, (1,))}


def test_another_leader_while_a_broker_leaves_its_partitions(world: World) -> None:
    world.ask(create("wide", MANY, 2), ticket=Peer(1))
    busy = world.controller.answers.busy_conns
    assert busy.take_changed() == {1: False}
    lapsed(world)
    end, tip = world.log.log_end_offset, world.tip
    assert world.controller.busy
    assert busy.take_changed() == {}, "nobody asked for it"
    world.controller.resign(world.now_ms, 7)
    assert not world.controller.busy
    assert (world.log.log_end_offset, world.tip) == (end, tip)
    assert world.controller.take_replies() == []


def test_a_shutdown_of_which_the_log_has_a_part_is_completed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller was silenced, or ended, between two batches; the broker asks on."""
    world.ask(create("wide", MANY, 2))
    monkeypatch.setattr(batches, "PART_RECORDS_MAX", RECORDS_PER_SLICE)
    end = world.log.log_end_offset
    shut_down(world)
    while world.log.log_end_offset == end:
        world.controller.go_on(world.now_ms)
    assert world.controller.busy
    world.controller.left(lambda _ticket: True, world.now_ms)
    assert world.controller.busy, "a part of it is in the log"
    world.controller.suspend(world.now_ms)
    world.controller.resume(world.now_ms)
    shut_down(world)
    go_on(world)
    left = world.tip.topic("wide").partitions.values()  # type: ignore[union-attr]  # it is there
    assert {one.leader for one in left} == {1}


def elected() -> m.ElectLeadersRequest:
    return requests.elect("wide", *range(MANY), timeout_ms=60_000)


def moved() -> m.AlterPartitionReassignmentsRequest:
    return requests.reassign("wide", (1,), *range(MANY), timeout_ms=60_000)


def shrunk(world: World) -> m.AlterPartitionRequest:
    found = world.tip.topic("wide")
    kinds = m.AlterPartitionRequest
    wanted = [
        kinds.PartitionData(
            partition_index=index,
            leader_epoch=one.leader_epoch,
            partition_epoch=one.partition_epoch,
            new_isr_with_epochs=[kinds.BrokerState(broker_id=one.leader)],
        )
        for index, one in found.partitions.items()
    ]
    leader = world.tip.brokers[found.partitions[0].leader]
    topic = kinds.TopicData(topic_id=found.id, partitions=wanted)
    return kinds(broker_id=leader.id, broker_epoch=leader.epoch, topics=[topic])


def configured() -> m.IncrementalAlterConfigsRequest:
    return requests.alter_config(2, "retention.ms", "1", *named(MANY))


def limited() -> m.AlterClientQuotasRequest:
    return requests.quota(1.0, *named(MANY))


@pytest.mark.parametrize("asked", [elected, moved, shrunk, configured, limited])
def test_other_requests_with_many_entries_go_on_in_slices(world: World, asked: Any) -> None:
    """The decision alone takes several; what it gives is answered for each entry."""
    world.ask(create("wide", MANY, 2))
    if asked is configured:
        world.ask(creation(MANY))
    request = asked(world) if asked is shrunk else asked()
    tip = world.tip
    begin(world, request)
    for _ in range(MANY // RECORDS_PER_SLICE):
        assert world.controller.busy
        assert world.tip is tip
        world.controller.go_on(world.now_ms)
    go_on(world)
    (answer,) = order(world)
    assert answer is not None
    if asked is not elected:
        assert world.log.log_end_offset > tip.offset + MANY // 3


def without_partitions(world: World, count: int) -> m.AlterPartitionRequest:
    kinds = m.AlterPartitionRequest
    topics = [kinds.TopicData(topic_id=bytes(15) + b"x")] * count
    return kinds(broker_id=0, broker_epoch=world.tip.brokers[0].epoch, topics=topics)


def without_limits(_world: World, count: int) -> m.AlterClientQuotasRequest:
    kinds = m.AlterClientQuotasRequest
    return kinds(entries=[kinds.EntryData()] * count)


@pytest.mark.parametrize("asked", [without_partitions, without_limits])
def test_entries_without_anything_in_them_are_entries(world: World, asked: Any) -> None:
    """A frame holds five million of them: one step looked at all."""
    request = asked(world, registry.TOUCHED_MAX + 1)
    touches = handlers()[spec(type(request)).key].touches
    assert touches(world.tip, request) is None
    begin(world, asked(world, MANY))
    assert go_on(world) >= MANY // ENTRIES_PER_SLICE


def test_it_is_counted_how_long_each_request_waited_for_those_before_it(world: World) -> None:
    waited = world.controller.surroundings.queue_ms
    before = waited.count
    begin(world, create("wide", MANY, 2))
    begin(world, ids(world))
    world.now_ms += 40
    assert (waited.count - before, waited.total) == (1, 0), "the second has not begun"
    go_on(world)
    assert (waited.count - before, waited.total, waited.greatest) == (2, 40, 40)


def nothing() -> Slices[None]:
    yield


def test_what_a_closed_connection_asked_for_is_not_worked_on() -> None:
    busy = BusyConns()
    long = LongAnswers(busy)
    gone, stays = (
        call(IDS(), ticket=Ticket(conn, 0, header(IDS()), received_ns=0)) for conn in (1, 2)
    )
    for one in (gone, stays):
        long.put(one, nothing())
    assert long.drop(lambda ticket: ticket.conn == 1) == [gone]
    assert busy.take_changed() == {1: False, 2: True}
    assert long.next()[0] is stays
    assert not long
