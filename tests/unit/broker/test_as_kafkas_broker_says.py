"""Texts and small parts of answers that libraries show, as Kafka's broker has them."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.metadata.acls import Operation, Permission, ResourceType
from tests.kit.requests import alter_config, metadata
from tests.unit.broker.asking import ACLS, ask
from tests.unit.broker.test_descriptions import acl
from tests.unit.controller.world import broker, image_of, partition, topic
from wire import messages as m
from wire.errors import ErrorCode

IMAGE = image_of(broker(1), broker(2), topic("t", 1), partition(1, replicas=(1, 2)))
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
EVERY_TOPIC_OPERATION = 3576


def test_a_topic_that_is_not_there_has_operations_too():
    request = metadata("t", "nosuch", "b ad", include_topic_authorized_operations=True)
    told = ask(IMAGE, request).response.topics
    assert [one.error_code for one in told] == [0, UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert {one.topic_authorized_operations for one in told} == {EVERY_TOPIC_OPERATION}


def test_a_topic_that_may_not_be_seen_has_none():
    hidden = acl(Operation.ALL, ResourceType.TOPIC, "t", permission=Permission.DENY)
    request = metadata("t", include_topic_authorized_operations=True)
    (told,) = ask(image_of(broker(1), hidden), request, properties=ACLS).response.topics
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert told.topic_authorized_operations == -(2**31)


def test_partitions_of_a_topic_that_is_not_there():
    kind = m.DescribeTopicPartitionsRequest
    request = kind(topics=[kind.TopicRequest(name="nosuch")])
    (told,) = ask(IMAGE, request).topics
    assert (told.error_code, told.topic_authorized_operations) == (UNKNOWN, EVERY_TOPIC_OPERATION)


def test_controllers_asked_of_a_broker():
    told = ask(IMAGE, m.DescribeClusterRequest(endpoint_type=2))
    assert (told.error_code, told.endpoint_type) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, 1)
    assert told.error_message.endswith("type BROKER, but we wanted an endpoint of type CONTROLLER")


def test_users_without_credentials_and_named_twice():
    kind = m.DescribeUserScramCredentialsRequest
    request = kind(users=[kind.UserName(name=name) for name in ("nobody", "two", "two")])
    texts = [one.error_message for one in ask(IMAGE, request).results]
    assert texts == [
        "Attempt to describe a user credential that does not exist: nobody",
        "Cannot describe SCRAM credentials for the same user twice in a single request: two",
    ]


def test_quotas_that_may_not_be_seen():
    told = ask(IMAGE, m.DescribeClientQuotasRequest(), properties=ACLS)
    # No text: clients show their own for the code.
    assert (told.error_code, told.error_message) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


@pytest.mark.parametrize(
    ("name", "key", "text"),
    [
        ("1", "broker.rack", "Cannot update these configs dynamically: Set(broker.rack)"),
        ("", "listeners", "broker id must be specified: Set(listeners)"),
        ("1", "ssl.keystore.type", "using the listener prefix: Set(ssl.keystore.type)"),
    ],
)
def test_configs_that_cannot_be_set_so(name: str, key: str, text: str):
    (told,) = ask(IMAGE, alter_config(4, key, "x", name)).responses
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert told.error_message.endswith(text)


# ---------------------------------------------------------------- DescribeLogDirs
TWO = image_of(
    *(broker(number) for number in (1, 2)),
    *(topic("t", 1), partition(1, replicas=(1, 2)), partition(1, 1, replicas=(2,))),
    *(topic("u", 2), partition(2, replicas=(2, 1))),
)


def replicas(answer: Any) -> list[tuple[str, dict[str, list[int]]]]:
    return [
        (
            one.log_dir,
            {topic.name: [p.partition_index for p in topic.partitions] for topic in one.topics},
        )
        for one in answer.results
    ]


@pytest.mark.parametrize("version", range(5))
def test_folders_hold_the_replicas_of_this_broker(version: int):
    request = m.DescribeLogDirsRequest(topics=None)
    answer = ask(TWO, request, version, properties={"log.dirs": "a,b"})
    assert replicas(answer) == [("a", {"t": [0], "u": [0]}), ("b", {})]
    assert {one.error_code for one in answer.results} == {0}


def test_only_the_replicas_asked_for():
    kind = m.DescribeLogDirsRequest
    topics = [
        kind.DescribableLogDirTopic(topic=name, partitions=(0, 1)) for name in ("t", "nosuch")
    ]
    assert replicas(ask(TWO, kind(topics=topics))) == [("logs", {"t": [0]})]
    assert replicas(ask(TWO, kind(topics=[]))) == [("logs", {})]


def test_a_topic_named_twice_is_asked_for_all_its_partitions():
    kind = m.DescribeLogDirsRequest
    topics = [
        kind.DescribableLogDirTopic(topic=name, partitions=(number,))
        for name, number in (("t", 0), ("u", 0), ("t", 1))
    ]
    assert replicas(ask(TWO, kind(topics=topics))) == [("logs", {"t": [0], "u": [0]})]


def test_folders_need_describe_on_the_cluster():
    request = m.DescribeLogDirsRequest(topics=None)
    answer = ask(TWO, request, properties=ACLS)
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    allowed = image_of(acl(Operation.DESCRIBE))
    assert ask(allowed, request, properties=ACLS).error_code == 0
