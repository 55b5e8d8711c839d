"""Clients of others with our broker and our controller, on sockets, in the process of the test."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.errors import InvalidRequestError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.admin import NewPartitions as Partitions

from emulator.config.broker import load_broker
from emulator.config.java_text import INT_MAX
from emulator.io.broker_process import BrokerFolders, BrokerProcess
from emulator.io.clock import Clock
from emulator.io.formatting import format_broker
from emulator.servers.waiting import PATIENCE_S
from emulator.testing import Cluster
from emulator.testing.local_node import NodeThread

HOST = "127.0.0.1"


class OneBroker:
    """A controller and a broker, each on a thread of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        controller = stack.enter_context(Cluster(fsync=False))
        bound = stack.enter_context(closing(socket.socket()))
        bound.bind((HOST, 0))
        self.bootstrap = f"{HOST}:{bound.getsockname()[1]}"
        config, _ = load_broker(
            {
                "process.roles": "broker",
                "node.id": "1",
                "controller.quorum.bootstrap.servers": controller.controllers,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{self.bootstrap}",
                "log.dirs": str(folder),
            },
            HOST,
        )
        format_broker(config, controller.cluster_id, ignore_formatted=False)
        folders = stack.enter_context(closing(BrokerFolders(config)))
        self.logs: list[Any] = []
        self.thread = NodeThread(
            "broker",
            lambda: BrokerProcess(
                config, folders, Clock(), self.logs.append, connections_max=INT_MAX
            ),
            {"PLAINTEXT": bound},
        )
        stack.callback(self.end)
        self.thread.ready.result()

    def end(self) -> None:
        self.thread.request_stop()
        halt = self.thread.ended.result()
        self.thread.join()
        assert halt.exit_code == 0, halt.why
        assert not [line for line in self.logs if line.level == "error"]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        yield OneBroker(tmp_path_factory.mktemp("broker"), stack).bootstrap


def test_librdkafka_manages_topics(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic("rd", 2, 1)])["rd"].result()
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        client.create_topics([NewTopic("rd", 2, 1)])["rd"].result()
    client.create_partitions([Partitions("rd", 3)])["rd"].result()
    deadline_s = time.monotonic() + PATIENCE_S
    found = client.list_topics(timeout=300)
    while len(found.topics["rd"].partitions) < 3 and time.monotonic() < deadline_s:
        # The controller has answered; this broker reads of it a moment later, as a Kafka broker.
        found = client.list_topics(timeout=300)
    assert set(found.topics["rd"].partitions) == {0, 1, 2}
    assert found.controller_id == 1
    client.delete_topics(["rd"])["rd"].result()


@pytest.mark.asyncio
async def test_aiokafka_manages_topics(bootstrap: str) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        created = await client.create_topics([AioNewTopic("aio", 2, 1)])
        assert [entry[1] for entry in created.topic_errors] == [0]
        await client.create_partitions({"aio": NewPartitions(4)})
        deadline_s = time.monotonic() + PATIENCE_S
        (found,) = await client.describe_topics(["aio"])
        while len(found["partitions"]) < 4 and time.monotonic() < deadline_s:
            (found,) = await client.describe_topics(["aio"])
        assert len(found["partitions"]) == 4
        await client.delete_topics(["aio"])
        while "aio" in await client.list_topics() and time.monotonic() < deadline_s:
            pass
        assert "aio" not in await client.list_topics()
    finally:
        await client.close()


@pytest.mark.asyncio
async def test_producing_ends_at_once_with_one_error(bootstrap: str) -> None:
    """A client that tried again and again would hang the tests of its user."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic("records", 1, 1)])["records"].result()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        with pytest.raises(InvalidRequestError):
            await producer.send_and_wait("records", b"value")
    finally:
        await producer.stop()
    errors: list[Any] = []
    other = Producer({"bootstrap.servers": bootstrap})
    other.produce("records", b"value", on_delivery=lambda error, _message: errors.append(error))
    assert other.flush(20) == 0
    assert errors[0].name() == "INVALID_REQUEST"


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_consumers_end_with_the_refusal_of_fetch(bootstrap: str) -> None:
    """They asked for offsets again and again while ListOffsets was refused."""
    from kafka import KafkaConsumer
    from kafka.errors import InvalidRequestError as PythonInvalidRequestError

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("read", 1, 1)])["read"].result()
    python = KafkaConsumer(
        "read",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    with closing(python), pytest.raises(PythonInvalidRequestError, match="while fetching"):
        next(python)
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as librdkafka:
        librdkafka.assign([TopicPartition("read", 0, OFFSET_BEGINNING)])
        told = librdkafka.poll(20)
        assert "Fetch from broker" in str(told.error())
        assert "Invalid request" in str(told.error())
    admin.delete_topics(["read"])["read"].result()
