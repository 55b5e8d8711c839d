"""Our broker with a KRaft controller of Kafka 3.9.2: its life, its metadata, its Envelopes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST, free_port
from emulator.servers.process import ServerProcess

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


class OurBroker(ServerProcess):
    """``kraft-bridge broker``, formatted by ``kraft-bridge format``."""

    def __init__(self, node_id: int, folder: Path, controller: KraftController) -> None:
        super().__init__(f"our-broker-{node_id}", folder)
        self.port = free_port()
        self.config = folder / f"our-broker-{node_id}.properties"
        self.config.write_text(
            f"process.roles=broker\nnode.id={node_id}\n"
            f"controller.quorum.voters=3000@{HOST}:{controller.port}\n"
            f"controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"listeners=INTERNAL://{HOST}:{self.port}\ninter.broker.listener.name=INTERNAL\n"
            f"log.dirs={folder / f'our-broker-{node_id}-data'}\nnum.partitions=2\n"
        )

    def run(self, verb: str, *arguments: str) -> OurBroker:
        start = "from emulator.cli import main; main()"
        return self.launch([sys.executable, "-c", start, verb, "-c", self.config, *arguments])

    def begin(self) -> OurBroker:
        assert self.run("format", "-g", "-t", CLUSTER).wait() == 0
        self.run("broker").wait_line("state=running")
        return self


@pytest.fixture(scope="module")
def kafka_controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftController]:
    """It writes a snapshot after every few records."""
    folder = tmp_path_factory.mktemp("kafka")
    small = {"metadata.log.max.record.bytes.between.snapshots": 300}
    made = KraftController(RELEASE, folder, None, CLUSTER, properties=small)
    with ExitStack() as stack:
        stack.callback(made.kill)
        yield made.start().wait_started()


@pytest.fixture(scope="module")
def our_brokers(kafka_controller: KraftController) -> Iterator[list[OurBroker]]:
    """Two that know each other.

    A broker runs when the controller says so, perhaps before it has read so in the log. A
    controller killed in between leaves one that does not know the other, and librdkafka gives
    up a request to a broker that is missing in a later answer.
    """
    made = [OurBroker(node_id, kafka_controller.folder, kafka_controller) for node_id in (1, 2)]
    with ExitStack() as stack:
        for one in made:
            stack.callback(one.kill)
            one.begin()
        for one in made:
            one.wait_until("both brokers", partial(knows_both, one))
        yield made


def admin(broker: OurBroker) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": f"{HOST}:{broker.port}", "broker.address.family": "v4"}
    )


def knows_both(broker: OurBroker) -> bool:
    return {1, 2} <= set(admin(broker).list_topics(timeout=300).brokers)


def partitions(broker: OurBroker, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Leader and replicas by partition, as a client of this broker sees them."""
    found = admin(broker).list_topics(timeout=300).topics[topic].partitions
    return {number: (one.leader, sorted(one.replicas)) for number, one in found.items()}


@pytest.mark.requirement("I13", "I16")
def test_a_topic_is_created_changed_and_deleted_through_it(our_brokers: list[OurBroker]) -> None:
    first, second = our_brokers
    client = admin(first)
    client.create_topics([NewTopic("orders", 4, 2)])["orders"].result()
    second.wait_until("the topic", lambda: "orders" in admin(second).list_topics().topics)
    seen = partitions(second, "orders")
    assert set(seen) == {0, 1, 2, 3}
    assert {leader for leader, _ in seen.values()} == {1, 2}
    assert all(replicas == [1, 2] for _, replicas in seen.values())
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        client.create_topics([NewTopic("orders", 4, 2)])["orders"].result()
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result()
    client.delete_topics(["orders"])["orders"].result()
    second.wait_until("its end", lambda: "orders" not in admin(second).list_topics().topics)


def test_a_broker_that_comes_late_begins_with_a_snapshot(
    kafka_controller: KraftController, our_brokers: list[OurBroker]
) -> None:
    client = admin(our_brokers[0])
    for number in range(5):
        client.create_topics([NewTopic(f"early-{number}", 3, 1)])[f"early-{number}"].result()
    folder = kafka_controller.data / "__cluster_metadata-0"
    kafka_controller.wait_until("a snapshot", lambda: any(folder.glob("*.checkpoint")))
    with ExitStack() as stack:
        late = OurBroker(3, kafka_controller.folder, kafka_controller)
        stack.callback(late.kill)
        late.begin()
        names = set(admin(late).list_topics(timeout=300).topics)
        assert {f"early-{number}" for number in range(5)} <= names
        assert late.stop() == 0
        assert any("the controller granted it" in line for line in late.lines())


@pytest.mark.requirement("I14")
def test_a_request_waits_for_the_controller_to_come_back(
    kafka_controller: KraftController, our_brokers: list[OurBroker]
) -> None:
    client = admin(our_brokers[0])
    kafka_controller.kill()
    waiting = client.create_topics([NewTopic("patient", 1, 1)], request_timeout=60)["patient"]
    kafka_controller.start().wait_started()
    waiting.result()


@pytest.mark.requirement("N08")
def test_one_of_the_wrong_cluster_is_refused_and_ends(
    kafka_controller: KraftController, our_brokers: list[OurBroker], tmp_path: Path
) -> None:
    stray = OurBroker(9, tmp_path, kafka_controller)
    assert stray.run("format", "-t", "AAAAAAAAAAAAAAAAAAAAAA").wait() == 0
    with ExitStack() as stack:
        stack.callback(stray.kill)
        stray.run("broker", "-X", "initial.broker.registration.timeout.ms=3000")
        assert stray.wait() == 1
    (last,) = [line for line in stray.lines() if "not registered with the controller" in line]
    assert "INCONSISTENT_CLUSTER_ID" in last


def test_a_signal_during_a_shutdown_ends_it_at_once(
    kafka_controller: KraftController, our_brokers: list[OurBroker]
) -> None:
    first = our_brokers[0]
    with ExitStack() as stack:
        hurried = OurBroker(4, kafka_controller.folder, kafka_controller)
        stack.callback(hurried.kill)
        hurried.begin()
        kafka_controller.pause()
        stack.callback(kafka_controller.resume)
        hurried.signal(signal.SIGTERM)
        hurried.wait_line("stopping")
        hurried.signal(signal.SIGTERM)
        assert hurried.wait() == 1
    # Until then clients may be told that it is the controller.
    first.wait_until("it is fenced", lambda: 4 not in admin(first).list_topics().brokers)
