"""What Kafka's own producer and consumer say to a broker that stores no records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.broker.api.no_records import WHY
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import JavaToolError, java
from emulator.testing import Cluster
from tests.kit.requests import create_topics

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
RELEASE = "3.9.2"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
LOG = """\
log4j.rootLogger=WARN, E
log4j.appender.E=org.apache.log4j.ConsoleAppender
log4j.appender.E.Target=System.out
log4j.appender.E.layout=org.apache.log4j.SimpleLayout
"""
PATIENCE = ("--timeout-ms", "20000")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the topic ``t`` of one partition."""
    with Cluster(brokers=1, fsync=False) as cluster:
        cluster.request(create_topics("t"))
        yield cluster.bootstrap


@pytest.fixture
def told(bootstrap: str, tmp_path: Path, kafka_tool: Any) -> Callable[..., tuple[bool, str]]:
    """Runs a tool of Kafka's; returns whether it ended well, and all it printed."""
    log = tmp_path / "log4j.properties"
    log.write_text(LOG)

    def run(main: str, *arguments: str, stdin: bytes = b"") -> tuple[bool, str]:
        flags = [f"-Dlog4j.configuration=file:{log}"]
        options = ("--bootstrap-server", bootstrap, *arguments)
        try:
            return True, java(
                kafka_jars(RELEASE), main, *options, flags=flags, stdin=stdin
            ).decode()
        except JavaToolError as error:
            return False, str(error)

    return run


def test_a_consumer_of_a_partition_ends_with_the_error(
    told: Callable[..., tuple[bool, str]],
) -> None:
    asked = ("--topic", "t", "--partition", "0", "--offset", "earliest")
    well, said = told(CONSUMER, *asked, *PATIENCE)
    assert well, "the tool's own code for what ends it"
    assert "Unexpected error code 42 while fetching at offset 0 from topic-partition t-0" in said


def test_a_consumer_of_a_group_ends_with_the_error(
    told: Callable[..., tuple[bool, str]],
) -> None:
    well, said = told(CONSUMER, "--topic", "t", "--group", "g", *PATIENCE)
    assert well
    assert "JoinGroup failed due to unexpected error" in said
    assert "KafkaException: Unexpected error in join group response" in said
    _, said = told(GROUPS, "--list")
    assert "InvalidRequestException: Error listing groups on" in said


def test_a_producer_is_told_why(told: Callable[..., tuple[bool, str]]) -> None:
    well, said = told(PRODUCER, "--topic", "t", "--sync", stdin=b"hello\n")
    assert not well
    assert f"InvalidRequestException: {WHY}" in said


def test_a_producer_that_wants_no_answer_is_told_nothing(
    told: Callable[..., tuple[bool, str]],
) -> None:
    plain = ("--producer-property", "acks=0", "--producer-property", "enable.idempotence=false")
    assert told(PRODUCER, "--topic", "t", "--sync", *plain, stdin=b"hello\n") == (True, "")
