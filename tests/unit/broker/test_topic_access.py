"""Metadata and DescribeTopicPartitions: which topics a caller sees, and how many at a time."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.registry import Answer
from emulator.broker.serving.reading import BrokerReading
from emulator.metadata.acls import Operation, ResourceType
from tests.unit.broker.asking import ACLS, ask
from tests.unit.broker.test_descriptions import acl
from tests.unit.controller.world import broker, image_of, partition, topic, uuid
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOPICS = (
    topic("mine", 1),
    *(partition(1, index, replicas=(1, 2)) for index in range(3)),
    topic("other", 2),
    *(partition(2, index, replicas=(2, 1)) for index in range(2)),
)
RECORDS = (broker(1), broker(2), *TOPICS)
OPEN = image_of(*RECORDS)
SEES_MINE = image_of(*RECORDS, acl(Operation.DESCRIBE, ResourceType.TOPIC, "m", pattern=4))


def metadata(image: Any, *names: str, version: int = 12, **fields: Any) -> Any:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=one) for one in names] or None
    options = {key: fields.pop(key) for key in ("properties", "principal") if key in fields}
    return ask(image, m.MetadataRequest(topics=topics, **fields), version, **options)


def codes(answer: Any) -> dict[str | None, int]:
    response = answer.response if isinstance(answer, Answer) else answer
    return {one.name: one.error_code for one in response.topics}


def test_a_list_of_all_leaves_out_what_may_not_be_described():
    assert codes(metadata(OPEN)) == {"mine": 0, "other": 0}
    assert codes(metadata(SEES_MINE, properties=ACLS)) == {"mine": 0}
    everything = metadata(SEES_MINE, properties=ACLS, principal="User:admin")
    assert codes(everything) == {"mine": 0, "other": 0}


def test_it_is_not_told_whether_a_hidden_topic_exists():
    answer = metadata(SEES_MINE, "mine", "other", "none", properties=ACLS)
    assert codes(answer) == {"mine": 0, "other": DENIED, "none": DENIED}
    assert answer.create == ()
    hidden = [one for one in answer.response.topics if one.error_code]
    assert all(one.topic_id == bytes(16) and one.partitions == [] for one in hidden)


def test_a_topic_asked_for_by_id_keeps_its_name_hidden():
    topics = [m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=uuid(2))]
    answer = ask(SEES_MINE, m.MetadataRequest(topics=topics), 12, properties=ACLS)
    assert codes(answer) == {None: DENIED}


CREATORS = [
    ([], DENIED, ()),
    ([acl(Operation.CREATE, number=701)], UNKNOWN, ("mine2",)),
    ([acl(Operation.CREATE, ResourceType.TOPIC, "mine2", number=701)], UNKNOWN, ("mine2",)),
    ([acl(Operation.CREATE, ResourceType.TOPIC, "mine3", number=701)], DENIED, ()),
]


@pytest.mark.parametrize(("entries", "code", "created"), CREATORS)
def test_a_topic_is_created_for_who_may_create_it(entries: Any, code: int, created: Any):
    describes = acl(Operation.DESCRIBE, ResourceType.TOPIC, "mine2")
    answer = metadata(image_of(*RECORDS, describes, *entries), "mine2", properties=ACLS)
    assert codes(answer) == {"mine2": code}
    assert tuple(one.name for one in answer.create) == created


@pytest.mark.parametrize("version", range(8, 13))
def test_operations_are_told_where_they_are_asked_for(version: int):
    fields: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    answer = metadata(SEES_MINE, "mine", "other", version=version, properties=ACLS, **fields)
    mine, other = answer.response.topics
    assert mine.topic_authorized_operations == 1 << Operation.DESCRIBE
    assert other.topic_authorized_operations == -(2**31)
    cluster = answer.response.cluster_authorized_operations
    assert cluster == (0 if version <= 10 else -(2**31))
    silent = metadata(SEES_MINE, "mine", version=version, properties=ACLS).response
    assert silent.topics[0].topic_authorized_operations == -(2**31)
    open_ = metadata(OPEN, "mine", version=version, **fields).response
    assert open_.topics[0].topic_authorized_operations.bit_count() == 8


# ---------------------------------------------------------------- DescribeTopicPartitions
Request = m.DescribeTopicPartitionsRequest


def pages(image: Any, *names: str, limit: int, **fields: Any) -> list[list[tuple[str, list[int]]]]:
    """What each answer has, asked for until there is no cursor."""
    found = []
    cursor = None
    while True:
        topics = [Request.TopicRequest(name=one) for one in names]
        request = Request(topics=topics, response_partition_limit=limit, cursor=cursor)
        answer = ask(image, request, **fields)
        found.append(
            [(one.name, [p.partition_index for p in one.partitions]) for one in answer.topics]
        )
        if answer.next_cursor is None:
            return found
        cursor = Request.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


@pytest.mark.parametrize("names", [(), ("other", "mine")])
def test_partitions_come_page_by_page(names: tuple[str, ...]):
    assert pages(OPEN, *names, limit=2_000) == [[("mine", [0, 1, 2]), ("other", [0, 1])]]
    assert pages(OPEN, *names, limit=2) == [
        [("mine", [0, 1])],
        [("mine", [2]), ("other", [0])],
        [("other", [1])],
    ]
    assert pages(OPEN, *names, limit=3) == [[("mine", [0, 1, 2])], [("other", [0, 1])]]
    assert len(pages(OPEN, *names, limit=-5)) == 5


def test_the_limit_of_the_broker_counts_too():
    own = {"max.request.partition.size.limit": "3"}
    assert len(pages(OPEN, limit=2_000, properties=own)) == 2
    for nonsense in ("9" * 5_000, "-1", "many", ""):
        own = {"max.request.partition.size.limit": nonsense}
        assert len(pages(OPEN, limit=2_000, properties=own)) == 1


def test_hidden_and_unknown_topics_have_errors_where_they_are_named():
    topics = [Request.TopicRequest(name=one) for one in ("none", "mine", "other", "a b")]
    answer = ask(SEES_MINE, Request(topics=topics), properties=ACLS)
    assert codes(answer) == {"mine": 0, "none": DENIED, "other": DENIED, "a b": DENIED}
    assert codes(ask(OPEN, Request(topics=topics))) == {
        "mine": 0,
        "none": UNKNOWN,
        "other": 0,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert codes(ask(SEES_MINE, Request(), properties=ACLS)) == {"mine": 0}


WRONG_CURSORS = [("mine", -1, ("mine",)), ("none", 0, ("mine",)), ("mine", 0, ("other",))]


@pytest.mark.parametrize(("name", "index", "names"), WRONG_CURSORS)
def test_a_cursor_that_fits_nothing_is_refused(name: str, index: int, names: tuple[str, ...]):
    topics = [Request.TopicRequest(name=one) for one in names]
    cursor = Request.Cursor(topic_name=name, partition_index=index)
    answer = ask(OPEN, Request(topics=topics, cursor=cursor))
    assert codes(answer) == dict.fromkeys(names, ErrorCode.INVALID_REQUEST)


def test_a_partition_is_described_with_its_replicas():
    answer = ask(OPEN, Request(topics=[Request.TopicRequest(name="other")]))
    (one,) = answer.topics
    assert one.topic_id == uuid(2)
    first = one.partitions[0]
    assert (first.leader_id, first.leader_epoch) == (2, 5)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ((2, 1), (2, 1), [])


# ---------------------------------------------------------------- client metrics, SASL
def test_subscriptions_of_client_metrics_are_listed():
    config = r.ConfigRecord(resource_type=16, resource_name="cpu", name="interval.ms", value="1000")
    image = image_of(config)
    request = m.ListClientMetricsResourcesRequest()
    assert [one.name for one in ask(image, request).client_metrics_resources] == ["cpu"]
    denied = ask(image, request, properties=ACLS)
    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("request_", [m.SaslHandshakeRequest(), m.SaslAuthenticateRequest()])
def test_a_plaintext_listener_has_no_login(request_: Any):
    assert ask(OPEN, request_).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_behind_the_cursor_of_everything_no_topic_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def may(_reading: object, _operation: object, _kind: object, name: str) -> bool:
        asked.append(name)
        return True

    monkeypatch.setattr(BrokerReading, "may", may)
    answer = ask(OPEN, Request(topics=[], response_partition_limit=1, cursor=None))
    assert answer.next_cursor.topic_name == "mine"
    assert "other" not in asked
