"""Reassignments: begun, replaced, taken back, listed; and folders that brokers assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.result import Result
from emulator.controller.rules import reassignment
from emulator.metadata.image import Image
from emulator.metadata.replay import replay
from emulator.metadata.topics import Partition, changed_partition
from tests.unit.controller.world import World, broker, create, handle, image_of, partition, topic
from tests.unit.controller.world import uuid as uuid_of
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

BROKERS = (*(broker(number) for number in range(5)), broker(5, fenced=True))
T = uuid_of(1)
ORDER = m.AlterPartitionReassignmentsRequest


def image(level: int = 21, **fields: Any) -> Image:
    """One topic, one partition: replicas 0, 1, 2, all in sync, led by 0."""
    replicas = fields.get("replicas", (0, 1, 2))
    directories = tuple(uuid_of(5000 + one) for one in replicas) if level >= 17 else ()
    values = {"directories": directories, **fields}
    return image_of(*BROKERS, topic("t", 1), partition(1, **values), mv=level)


def move(
    *targets: Sequence[int] | None, name: str = "t", index: int = 0
) -> m.AlterPartitionReassignmentsRequest:
    """A request that names the partition once per target; None cancels."""
    parts = [ORDER.ReassignablePartition(partition_index=index, replicas=one) for one in targets]
    return ORDER(topics=[ORDER.ReassignableTopic(name=name, partitions=parts)])


def errors(response: m.AlterPartitionReassignmentsResponse) -> list[int]:
    return [int(one.error_code) for topic_ in response.responses for one in topic_.partitions]


def made(result: Result[Any]) -> list[r.PartitionChangeRecord]:
    """Its records, all of them changes of partitions."""
    changes = [one for one in result.records if isinstance(one, r.PartitionChangeRecord)]
    assert len(changes) == len(result.records)
    return changes


def after(was: Image, request: m.AlterPartitionReassignmentsRequest, **fields: Any) -> Partition:
    """The partition once every record of the answer has been replayed."""
    result = handle(was, request, **fields)
    assert errors(result.response) == [0] * len(errors(result.response))
    found = was.topics[T].partitions[0]
    for record in made(result):
        found = changed_partition(found, record)
    return found


def shape(found: Partition) -> tuple[Any, ...]:
    return found.replicas, found.adding_replicas, found.removing_replicas, found.isr, found.leader


MOVES: list[tuple[str, dict[str, Any], Sequence[int] | None, tuple[Any, ...]]] = [
    # what is, what is asked -> replicas, adding, removing, ISR, leader
    ("add one", {}, (0, 1, 2, 3), ((0, 1, 2, 3), (3,), (), (0, 1, 2), 0)),
    ("remove one", {}, (0, 1), ((0, 1), (), (), (0, 1), 0)),
    ("remove the leader", {}, (1, 2), ((1, 2), (), (), (1, 2), 1)),
    ("other order", {}, (2, 1, 0), ((2, 1, 0), (), (), (0, 1, 2), 0)),
    ("replace all", {}, (4, 3), ((4, 3, 0, 1, 2), (3, 4), (0, 1, 2), (0, 1, 2), 0)),
    ("onto a fenced broker", {}, (0, 5), ((0, 5, 1, 2), (5,), (1, 2), (0, 1, 2), 0)),
    ("nothing", {}, (0, 1, 2), ((0, 1, 2), (), (), (0, 1, 2), 0)),
    (
        "what stays is out of sync",
        {"isr": (0,)},
        (1, 2),
        ((1, 2, 0), (), (0,), (0,), 0),
    ),
]
MOVING = {"replicas": (3, 0, 1, 2), "isr": (0, 1, 2), "leader": 0, "adding_replicas": (3,)}
SWAPPING = {**MOVING, "removing_replicas": (0, 1, 2)}
MOVES += [
    ("cancel", MOVING, None, ((0, 1, 2), (), (), (0, 1, 2), 0)),
    ("cancel a swap", SWAPPING, None, ((0, 1, 2), (), (), (0, 1, 2), 0)),
    (
        "cancel when the new one leads",
        {**SWAPPING, "isr": (3, 0), "leader": 3},
        None,
        ((0, 1, 2), (), (), (0,), 0),
    ),
    ("go back by naming what was", SWAPPING, (0, 1, 2), ((0, 1, 2), (), (), (0, 1, 2), 0)),
    (
        "go back while one is out of sync",
        {**SWAPPING, "isr": (0, 1)},
        (0, 1, 2),
        ((0, 1, 2, 3), (3,), (3,), (0, 1), 0),
    ),
    (
        "keep what an earlier one wanted gone",
        SWAPPING,
        (3, 0, 1, 2),
        ((3, 0, 1, 2), (3,), (), (0, 1, 2), 0),
    ),
    (
        "go elsewhere",
        SWAPPING,
        (4,),
        ((4, 0, 1, 2, 3), (3, 4), (0, 1, 2, 3), (0, 1, 2), 0),
    ),
]


@pytest.mark.parametrize(
    ("fields", "target", "expected"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES]
)
@pytest.mark.parametrize("level", [10, 16, 21])
def test_moves(
    level: int, fields: dict[str, Any], target: Sequence[int] | None, expected: tuple[Any, ...]
) -> None:
    found = after(image(level, **fields), move(target))
    assert shape(found) == expected
    assert len(found.directories) == len(found.replicas)


REFUSED = [
    ({}, move((0,), name="no"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "named no"),
    ({}, move((0,), index=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t:7"),
    ({}, move(()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    ({}, move((0, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
    ({}, move((0, -1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker -1"),
    ({}, move((0, 0)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 0 more than once"),
    # Of two faults the one of the lowest broker is told.
    ({}, move((9, 0, 0)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 0 more than once"),
    ({}, move(None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    (
        {**SWAPPING, "isr": (3,), "leader": 3},
        move(None),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "unclean",
    ),
    (
        {"adding_replicas": (0, 1, 2)},
        move(None),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "contains all replicas",
    ),
]


@pytest.mark.parametrize(("fields", "request_", "code", "text"), REFUSED)
def test_refusals(
    fields: dict[str, Any],
    request_: m.AlterPartitionReassignmentsRequest,
    code: int,
    text: str | None,
) -> None:
    result = handle(image(**fields), request_)
    ((answer,),) = [one.partitions for one in result.response.responses]
    assert answer.error_code == code
    assert answer.error_message is None if text is None else text in answer.error_message
    assert (result.records, result.response.error_code) == ((), 0)


def test_going_back_uncleanly_needs_the_topic_s_leave() -> None:
    led_by_the_new: dict[str, Any] = {**SWAPPING, "isr": (3,), "leader": 3}
    was = image(**led_by_the_new)
    allowed = {"unclean.leader.election.enable": "true"}
    found = after(was, move(None), properties=allowed)
    assert shape(found) == ((0, 1, 2), (), (), (0,), 0)


def test_a_partition_named_twice_goes_where_it_was_sent_last() -> None:
    found = after(image(), move((3,), (4,)))
    assert shape(found) == ((4, 0, 1, 2, 3), (3, 4), (0, 1, 2, 3), (0, 1, 2), 0)


def test_good_and_bad_ones_of_one_request_are_one_batch() -> None:
    many = image_of(*BROKERS, topic("t", 1), partition(1), partition(1, 1), partition(1, 2))
    asked = move((3,), index=0)
    asked.topics += move((9,), index=1).topics + move((4,), index=2).topics
    result = handle(many, asked)
    assert errors(result.response) == [0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, 0]
    assert result.atomic
    assert [one.partition_id for one in made(result)] == [0, 2]


TARGETS = st.permutations(range(5)).flatmap(
    lambda order: st.integers(1, 5).map(lambda size: tuple(order[:size]))
)


@given(st.lists(TARGETS, min_size=1, max_size=3), st.booleans(), st.data())
def test_whatever_is_asked_last_is_reached_and_what_was_first_can_be_returned_to(
    targets: list[tuple[int, ...]], cancels: bool, data: st.DataObject
) -> None:
    """Law: a chain of reassignments ends as its last one says once those replicas are in sync."""
    isr = data.draw(st.sampled_from([(0,), (0, 1), (0, 1, 2)]))
    was = image(isr=isr)
    found = after(was, move(*targets))
    original = reassignment.original_replicas(found)
    if not reassignment.in_progress(found):
        assert set(found.replicas) == set(targets[-1])
        return
    moving = image(**{name: getattr(found, name) for name in found.__struct_fields__})
    if cancels and set(original) & set(found.isr):
        back = after(moving, move(None))
        assert not reassignment.in_progress(back)
        assert back.replicas == original
        return
    caught_up = tuple(sorted(set(found.isr) | set(targets[-1])))
    wanted = m.AlterPartitionRequest.PartitionData(
        leader_epoch=found.leader_epoch,
        partition_epoch=found.partition_epoch,
        new_isr_with_epochs=[
            m.AlterPartitionRequest.BrokerState(broker_id=one, broker_epoch=-1) for one in caught_up
        ],
    )
    leader = found.leader
    asked = m.AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=100 + leader,
        topics=[m.AlterPartitionRequest.TopicData(topic_id=T, partitions=[wanted])],
    )
    result = handle(moving, asked)
    (record,) = made(result)
    done = changed_partition(found, record)
    assert not reassignment.in_progress(done)
    assert done.replicas == targets[-1]
    assert set(done.isr) == set(targets[-1])
    assert done.leader in done.isr
    ((told,),) = [one.partitions for one in result.response.topics]
    moved = done.leader != leader
    assert told.error_code == (ErrorCode.NEW_LEADER_ELECTED if moved else ErrorCode.NONE)


@pytest.mark.parametrize(
    ("isr", "expected"),
    [((0, 1, 2), ((3, 0, 1, 2), (3,))), ((0, 3), ((3,), ())), ((3,), ((3,), ()))],
)
def test_one_that_was_ready_when_it_was_copied_ends_by_itself(
    isr: tuple[int, ...], expected: tuple[Any, ...]
) -> None:
    """No broker changes the ISR again, so nothing else would end it."""
    world = World()
    copied: dict[str, Any] = {**SWAPPING, "isr": isr, "leader": isr[0]}
    world.controller.append([*BROKERS, topic("t", 1), partition(1, **copied)], world.now_ms)
    world.controller.heartbeats.activate(world.tip.brokers, world.now_ms)
    for _ in range(reassignment.CHECK_INTERVAL_MS // 2_000):
        for id_ in world.tip.brokers:
            world.controller.heartbeats.contact(id_, None, world.now_ms)
        world.later(2_000)
    found = world.tip.topics[T].partitions[0]
    assert (found.replicas, found.adding_replicas) == expected
    assert found.leader in found.replicas


# --- ListPartitionReassignments

LIST = m.ListPartitionReassignmentsRequest
LISTED = image_of(
    *BROKERS,
    topic("t", 1),
    partition(1, 0, **SWAPPING),
    partition(1, 1),
    topic("calm", 2),
    partition(2),
)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (None, {"t": [0]}),
        ([], {}),
        (
            [LIST.ListPartitionReassignmentsTopics(name="t", partition_indexes=(1, 0, 9))],
            {"t": [0]},
        ),
        ([LIST.ListPartitionReassignmentsTopics(name="t", partition_indexes=(1,))], {}),
        ([LIST.ListPartitionReassignmentsTopics(name="no", partition_indexes=(0,))], {}),
    ],
)
def test_what_is_moving_is_listed(topics: Any, expected: dict[str, list[int]]) -> None:
    response = handle(LISTED, LIST(topics=topics)).response
    assert response.error_code == 0
    found = {one.name: [each.partition_index for each in one.partitions] for one in response.topics}
    assert found == expected
    for one in response.topics:
        (each,) = one.partitions
        assert (each.replicas, each.adding_replicas, each.removing_replicas) == (
            (3, 0, 1, 2),
            (3,),
            (0, 1, 2),
        )


def test_only_what_is_committed_is_listed() -> None:
    world = World().join(0, 1)
    created = world.ask(create("t", 1, 1))
    assert created.topics[0].error_code == 0
    assert world.send(move((0, 1), name="t")) == []
    (listed,) = world.send(LIST())
    assert listed.topics == []
    world.commit()
    world.answers()
    (listed,) = world.send(LIST())
    assert [one.name for one in listed.topics] == ["t"]


# --- AssignReplicasToDirs

ASSIGN = m.AssignReplicasToDirsRequest
KNOWN, OTHER, GONE = uuid_of(5001), uuid_of(6001), uuid_of(7001)


def assign(directory: bytes, *indexes: int, topic_id: bytes = T, **fields: Any) -> Any:
    parts = [ASSIGN.PartitionData(partition_index=index) for index in indexes]
    data = ASSIGN.DirectoryData(
        id=directory, topics=[ASSIGN.TopicData(topic_id=topic_id, partitions=parts)]
    )
    return ASSIGN(**{"broker_id": 1, "broker_epoch": 101, "directories": [data], **fields})


def two_folders(level: int = 21, **fields: Any) -> Image:
    values = {"directories": (uuid_of(5000), bytes(15) + b"\1", uuid_of(5002)), **fields}
    return image_of(
        broker(0),
        broker(1, log_dirs=(KNOWN, OTHER)),
        broker(2),
        topic("t", 1),
        partition(1, **values),
        partition(1, 1, replicas=(0, 2)),
        mv=level,
    )


def test_a_broker_says_where_its_replica_is() -> None:
    result = handle(two_folders(), assign(OTHER, 0))
    (record,) = made(result)
    assert record == r.PartitionChangeRecord(
        topic_id=T, partition_id=0, directories=(uuid_of(5000), OTHER, uuid_of(5002))
    )
    assert result.response.directories[0].id == OTHER
    again = changed_partition(two_folders().topics[T].partitions[0], record)
    assert handle(two_folders(directories=again.directories), assign(OTHER, 0)).records == ()


def test_saying_where_a_replica_is_elects_nobody_from_outside_the_isr() -> None:
    was = two_folders(isr=(0,), leader=-1, replicas=(0, 1, 2))
    dead = replay(was, r.UnregisterBrokerRecord(broker_id=0, broker_epoch=100), was.offset + 1, 1)
    unclean = r.ConfigRecord(
        resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"
    )
    (record,) = made(handle(replay(dead, unclean, dead.offset + 1, 1), assign(OTHER, 0)))
    assert (record.leader, record.isr) == (-2, None)


@pytest.mark.parametrize("leads", [False, True])
def test_a_replica_in_a_folder_that_is_offline_leaves_the_isr(leads: bool) -> None:
    was = two_folders(leader=1 if leads else 0)
    (record,) = made(handle(was, assign(GONE, 0)))
    assert record.isr == (0, 2)
    assert record.leader == (0 if leads else -2)
    assert record.directories == (uuid_of(5000), GONE, uuid_of(5002))


@pytest.mark.parametrize(
    ("fields", "level", "code"),
    [
        ({}, 16, ErrorCode.UNSUPPORTED_VERSION),
        ({"broker_epoch": 100}, 21, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_id": 9}, 21, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_an_assignment_refused_as_a_whole(fields: dict[str, Any], level: int, code: int) -> None:
    was = two_folders() if level >= 17 else image(level)
    result = handle(was, assign(OTHER, 0, **fields))
    assert (result.response.error_code, result.records) == (code, ())


@pytest.mark.parametrize(
    ("index", "topic_id", "code"),
    [
        (0, uuid_of(9), ErrorCode.UNKNOWN_TOPIC_ID),
        (9, T, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, T, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, T, ErrorCode.NONE),
    ],
)
def test_an_assignment_refused_for_one_partition(index: int, topic_id: bytes, code: int) -> None:
    response = handle(two_folders(), assign(OTHER, index, topic_id=topic_id)).response
    assert response.error_code == 0
    assert response.directories[0].topics[0].partitions[0].error_code == code
