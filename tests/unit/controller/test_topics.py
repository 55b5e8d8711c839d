"""CreateTopics, DeleteTopics, CreatePartitions: order of the refusals, records, answers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from emulator.controller.api import create_topics
from emulator.controller.context import Context
from emulator.controller.rules.topics import NewPartitions
from tests.kit import requests
from tests.unit.controller.world import (
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

BROKERS = (broker(0), broker(1), broker(2, fenced=True))
IMAGE = image_of(*BROKERS, topic("t", 1), partition(1, replicas=(0, 1)), topic("a.b", 2))
Topic = m.CreateTopicsRequest.CreatableTopic
Config = m.CreateTopicsRequest.CreatableTopicConfig
Assignment = m.CreateTopicsRequest.CreatableReplicaAssignment
ByEither = m.DeleteTopicsRequest.DeleteTopicState


def assigned(*replica_lists: tuple[int, ...], first: int = 0) -> list[Any]:
    return [
        Assignment(partition_index=index, broker_ids=replicas)
        for index, replicas in enumerate(replica_lists, first)
    ]


def outcome(request: m.CreateTopicsRequest, image: Any = IMAGE, **fields: Any) -> Any:
    (answer,) = handle(image, request, **fields).response.topics
    return answer


REFUSED = [
    ("__cluster_metadata", {}, ErrorCode.INVALID_REQUEST, "prohibited"),
    ("", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
    (".", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
    ("x" * 250, {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max"),
    ("a/b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
    ("a_b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: a.b"),
    ("t", {"factor": 9}, ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
    ("n", {"configs": [Config(name=name, value=None) for name in "ba"]}, 40, "configs: b,a"),
    ("n", {"configs": [Config(name="no.such", value="1")], "factor": 9}, 40, "Unknown topic"),
    ("n", {"configs": [Config(name="retention.ms", value="x")]}, 40, "Invalid value x"),
    ("n", {"assignments": assigned((0,))}, 42, "replication factor was not set to -1"),
    ("n", {"assignments": assigned((0,)), "factor": -1}, 42, "numPartitions was not set to -1"),
    ("n", {"factor": 0}, 38, "larger than 0"),
    ("n", {"factor": -2}, 38, "larger than 0"),
    ("n", {"partitions": 0}, 37, "non-positive"),
    ("n", {"partitions": -2}, 37, "non-positive"),
    ("n", {"factor": 4}, 38, "only 3 broker(s) are registered"),
]


@pytest.mark.parametrize(("name", "fields", "code", "why"), REFUSED)
def test_create_refusals(name: str, fields: dict[str, Any], code: int, why: str) -> None:
    answer = outcome(create(name, **fields))
    assert answer.error_code == code
    assert why in answer.error_message
    assert answer.num_partitions == -1
    assert not answer.configs
    assert handle(IMAGE, create(name, **fields)).records == ()


ASSIGNMENTS = [
    (assigned(()), "empty replica list"),
    (assigned((0, 9)), "includes broker 9, but no such"),
    (assigned((0, 0)), "broker 0 more than once"),
    (assigned((0, 1), (0,)), "1 replica(s), but this is not consistent"),
    (assigned((2,)), "are fenced or in controlled shutdown"),
    (assigned((0,)) + assigned((0,)), "multiple manual partition assignments for partition 0"),
    (assigned((0,), first=1), "consecutive 0-based"),
]


@pytest.mark.parametrize(("assignments", "why"), ASSIGNMENTS)
def test_manual_assignments_refused(assignments: list[Any], why: str) -> None:
    answer = outcome(create("n", -1, -1, assignments=assignments))
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert why in answer.error_message


def test_every_broker_fenced_is_a_replication_factor_error() -> None:
    image = image_of(broker(0, fenced=True))
    answer = outcome(create("n"), image)
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
    )


def test_only_a_leaving_broker_is_a_replication_factor_error_too() -> None:
    image = image_of(broker(0, fenced=True), broker(1, in_controlled_shutdown=True))
    assert outcome(create("n"), image).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_name_given_twice_is_dropped_and_answered_last() -> None:
    """And after it what ControllerApis refuses too."""
    request = m.CreateTopicsRequest(
        topics=[
            Topic(name="__cluster_metadata", num_partitions=1, replication_factor=1),
            Topic(name="twice", num_partitions=1, replication_factor=1),
            Topic(name="once", num_partitions=1, replication_factor=1),
            Topic(name="twice", num_partitions=2, replication_factor=1),
        ]
    )
    result = handle(IMAGE, request)
    assert [(one.name, one.error_code) for one in result.response.topics] == [
        ("once", 0),
        ("twice", 42),
        ("__cluster_metadata", 42),
    ]
    assert [one.name for one in result.records if isinstance(one, r.TopicRecord)] == ["once"]


def test_names_of_one_request_collide_too() -> None:
    request = m.CreateTopicsRequest(
        topics=[Topic(name=name, num_partitions=1, replication_factor=1) for name in ("n.x", "n_x")]
    )
    codes = [one.error_code for one in handle(IMAGE, request).response.topics]
    assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_records_of_a_new_topic_in_kafka_s_order() -> None:
    request = create(
        "n",
        -1,
        -1,
        assignments=assigned((2, 1), (1, 0)),
        configs=[Config(name="retention.ms", value="5"), Config(name="segment.bytes", value="99")],
    )
    topic_record, *records = handle(IMAGE, request).records
    assert topic_record.name == "n"
    assert records[:2] == [
        r.ConfigRecord(resource_type=2, resource_name="n", name="retention.ms", value="5"),
        r.ConfigRecord(resource_type=2, resource_name="n", name="segment.bytes", value="99"),
    ]
    assert records[2:] == [
        r.PartitionRecord(
            partition_id=index,
            topic_id=topic_record.topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(uuid(5000 + one) for one in replicas),
        )
        for index, (replicas, isr) in enumerate([((2, 1), (1,)), ((1, 0), (1, 0))])
    ]


@pytest.mark.parametrize(
    ("log_dirs", "expected"), [((), 0), ((uuid(8), uuid(9)), 1), ((uuid(8),), None)]
)
def test_the_directory_of_a_new_replica(log_dirs: tuple[bytes, ...], expected: int | None) -> None:
    """KIP-858: none told, several to choose from, just one."""
    (_, record) = handle(image_of(broker(0, log_dirs=log_dirs)), create("n")).records
    directory = uuid(8) if expected is None else expected.to_bytes(16, "big")
    assert record.directories == (directory,)


def test_the_controller_s_own_defaults_fill_in() -> None:
    answer = outcome(create("n", -1, -1), num_partitions=3, default_replication_factor=2)
    assert (answer.num_partitions, answer.replication_factor) == (3, 2)


def test_validate_only_says_what_would_be() -> None:
    result = handle(IMAGE, create("n", 2, validate_only=True))
    (answer,) = result.response.topics
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 2, 1)
    assert result.records == ()
    (refused,) = handle(IMAGE, create("t", validate_only=True)).response.topics
    assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


DELETIONS = [
    ((None, None), 42, "Neither"),
    (("t", 1), 42, "both"),
    (("gone", None), 3, "does not host"),
    ((None, 9), 100, "does not host"),
    (("t", None), 0, None),
    ((None, 2), 0, None),
]


@pytest.mark.parametrize(("entry", "code", "why"), DELETIONS)
def test_deletions(entry: tuple[str | None, int | None], code: int, why: str | None) -> None:
    name, number = entry
    state = ByEither(name=name, topic_id=bytes(16) if number is None else uuid(number))
    result = handle(IMAGE, m.DeleteTopicsRequest(topics=[state]))
    (answer,) = result.response.responses
    assert answer.error_code == code
    assert (answer.error_message is None) == (why is None)
    assert why is None or why in answer.error_message
    expected = (r.RemoveTopicRecord(topic_id=answer.topic_id),) if code == 0 else ()
    assert result.records == expected
    if code == 0:
        assert IMAGE.topics[answer.topic_id].name == answer.name


def test_deleting_twice_in_one_request() -> None:
    request = m.DeleteTopicsRequest(
        topics=[
            ByEither(name="t"),
            ByEither(name="t"),
            ByEither(topic_id=uuid(2)),
            ByEither(topic_id=uuid(2)),
        ]
    )
    result = handle(IMAGE, request)
    assert [one.error_code for one in result.response.responses] == [42, 42]
    assert result.records == ()


@pytest.mark.parametrize("times", [1, 2])
def test_a_topic_given_by_name_and_by_id_is_not_deleted(times: int) -> None:
    """One answer, with both; and those for ids given twice."""
    by_id = [ByEither(topic_id=uuid(1))] * times
    result = handle(IMAGE, m.DeleteTopicsRequest(topics=[ByEither(name="t"), *by_id]))
    told = [(one.name, one.topic_id, one.error_code) for one in result.response.responses]
    assert told == [(None, uuid(1), 42)] * (times - 1) + [("t", uuid(1), 42)]
    assert result.records == ()


def test_old_versions_delete_by_name() -> None:
    result = handle(IMAGE, m.DeleteTopicsRequest(topic_names=("t", "gone", "x", "x")), version=5)
    codes = {one.name: one.error_code for one in result.response.responses}
    assert codes == {"t": 0, "gone": 3, "x": 42}


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    request = m.DeleteTopicsRequest(topic_names=("t",))
    result = handle(IMAGE, request, version=version, delete_topic_enable=False)
    assert [one.error_code for one in result.response.responses] == [code]
    assert result.records == ()


Wanted = m.CreatePartitionsRequest.CreatePartitionsTopic
NewPartition = m.CreatePartitionsRequest.CreatePartitionsAssignment


def more(count: int, *replica_lists: tuple[int, ...], name: str = "t", **fields: Any) -> Any:
    manual = [NewPartition(broker_ids=one) for one in replica_lists] if replica_lists else None
    wanted = Wanted(name=name, count=count, assignments=manual)
    return m.CreatePartitionsRequest(topics=[wanted], **fields)


GROWTH = [
    (more(2, name="gone"), 3, None),
    (more(1), 37, "already has 1 partition(s)"),
    (more(0), 37, "would not be an increase"),
    (more(3, (0, 1)), 39, "Attempted to add 2 additional partition(s), but only 1"),
    (more(2, (0,)), 39, "not consistent"),
    (more(2, (0, 9)), 39, "no such broker"),
    (more(2, (0, 1)), 0, None),
    (more(3), 0, None),
]


@pytest.mark.parametrize(("request_", "code", "why"), GROWTH)
def test_growth(request_: m.CreatePartitionsRequest, code: int, why: str | None) -> None:
    result = handle(IMAGE, request_)
    (answer,) = result.response.results
    assert answer.error_code == code
    # Kafka's has no text where there is none here.
    assert (answer.error_message is None) == (why is None)
    assert why is None or why in answer.error_message
    added = request_.topics[0].count - 1 if code == 0 else 0
    assert [record.partition_id for record in result.records] == list(range(1, 1 + added))
    assert all(len(record.replicas) == 2 for record in result.records)


@pytest.mark.parametrize("ids", [(), (1,), (0, 2), (0, 1, 3)])
@pytest.mark.parametrize("manual", [True, False])
def test_a_topic_with_a_gap_in_its_partitions_does_not_grow(
    ids: tuple[int, ...], manual: bool
) -> None:
    """Such topics are in logs that copied one from ZooKeeper before the copy refused them."""
    partitions = [partition(1, index=index, replicas=(0, 1)) for index in ids]
    image = image_of(broker(0), broker(1), topic("t", 1), *partitions)
    added = [(0, 1)] * (4 - len(ids)) if manual else []
    result = handle(image, more(4, *added))
    (answer,) = result.response.results
    assert answer.error_code == ErrorCode.INVALID_PARTITIONS
    assert "none with id" in answer.error_message
    assert result.records == ()


def test_growth_is_refused_when_placement_is_impossible() -> None:
    image = image_of(broker(0), topic("t", 1), partition(1, replicas=(0, 1)))
    (answer,) = handle(image, more(2)).response.results
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_grows_by_the_number_of_replicas_of_partition_0() -> None:
    """Kafka takes the partition that a hash table has first, here the third."""
    parts = [partition(1, index, replicas=(0, 1)[: 2 - index]) for index in range(2)]
    image = image_of(*BROKERS, topic("t", 1), *parts, partition(1, 2, replicas=(0,)))
    (answer,) = handle(image, more(4, (1, 0))).response.results
    assert answer.error_code == 0
    (answer,) = handle(image, more(4, (1,))).response.results
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "have 2 replica(s)" in answer.error_message


@pytest.mark.parametrize("count", [10_001, 2**31 - 1])
def test_absurd_numbers_of_partitions_are_refused_before_anything_is_placed(count: int) -> None:
    for request in (create("n", count), create("n", count, validate_only=True)):
        answer = outcome(request)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
    (answer,) = handle(IMAGE, more(count + 1)).response.results
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    together = m.CreateTopicsRequest(
        topics=[
            Topic(name=name, num_partitions=count // 2 + 1, replication_factor=1)
            for name in ("n", "o")
        ]
    )
    codes = {one.error_code for one in handle(IMAGE, together).response.topics}
    assert codes == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize(
    ("sizes", "counted"),
    [
        # A number, the controller's own number (3), as many as are assigned, or none: invalid.
        ([{"num_partitions": 5}], 5),
        ([{"num_partitions": 5}, {"num_partitions": 0}, {"num_partitions": -7}], 5),
        ([{"num_partitions": -1}, {"num_partitions": 2}], 5),
        ([{"num_partitions": -1, "assignments": assigned(*[(0,)] * 5)}], 5),
        ([{"num_partitions": -1, "assignments": assigned(*[(0,)] * 2)}, {"num_partitions": -1}], 5),
    ],
)
def test_what_a_request_would_make_is_bounded_by_all_of_its_topics_together(
    sizes: list[dict[str, Any]], counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [
        Topic(**{"name": f"n{at}", "replication_factor": -1, "assignments": [], **size})
        for at, size in enumerate(sizes)
    ]
    request = m.CreateTopicsRequest(topics=topics, validate_only=True)
    for bound in (counted, counted - 1):
        monkeypatch.setattr(create_topics, "BATCH_RECORDS_MAX", bound)
        answers = handle(IMAGE, request, num_partitions=3, default_replication_factor=1)
        codes = {one.error_code for one in answers.response.topics}
        assert (codes == {ErrorCode.POLICY_VIOLATION}) == (bound < counted)


def test_growth_validate_only_and_duplicates() -> None:
    assert handle(IMAGE, more(2, validate_only=True)).records == ()
    twice = m.CreatePartitionsRequest(
        topics=[Wanted(name="t", count=2, assignments=None), Wanted(name="t", count=3)]
    )
    result = handle(IMAGE, twice)
    assert [(one.name, one.error_code) for one in result.response.results] == [("t", 42)]
    assert result.records == ()


def test_more_records_than_one_batch_holds_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them are: a topic of one partition is two records."""
    drawn: list[int] = []
    real = Context.random_uuid

    def counted(ctx: Context) -> bytes:
        drawn.append(1)
        return real(ctx)

    monkeypatch.setattr(Context, "random_uuid", counted)
    names = [f"t{n}" for n in range(9_000)]
    result = handle(image_of(broker(0)), requests.create_topics(*names))
    assert {one.error_code for one in result.response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert (len(result.response.topics), len(drawn)) == (9_000, 5_001)
    assert not result.records
    tried = requests.create_topics(*names, validate_only=True)
    checked = handle(image_of(broker(0)), tried)
    assert {one.error_code for one in checked.response.topics} == {ErrorCode.NONE}


def test_a_list_of_replicas_that_is_refused_is_not_kept() -> None:
    """What is kept outlives the request, and a caller may name any number, each of any length."""
    new, replicas = NewPartitions(IMAGE), tuple(range(100))
    held = sys.getrefcount(replicas)
    assert new.error(0, replicas, None) is not None
    assert sys.getrefcount(replicas) == held
