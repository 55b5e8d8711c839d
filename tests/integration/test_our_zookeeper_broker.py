"""Our broker in ZooKeeper mode: alone with ZooKeeper, and beside a Kafka broker that rules it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from bench.load.cluster_api import call, create_topics, delete_topic, shape, topic
from emulator.servers.bridge import Bridge, BridgeBroker
from emulator.servers.kafka import KafkaBroker
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = pytest.mark.jvm
RELEASE = "3.9.2"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def ended() -> Iterator[Callable[[Any], Any]]:
    """Kills a process at the end of the test."""
    with ExitStack() as stack:

        def end(process: Any) -> Any:
            stack.callback(process.kill)
            return process

        yield end


def asked(broker: KafkaBroker, request: Any) -> Any:
    return asyncio.run(call(broker.bootstrap, request))


def metadata(broker: KafkaBroker) -> m.MetadataResponse:
    found: m.MetadataResponse = asked(
        broker, m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    )
    return found


def controllers(broker: KafkaBroker) -> set[int]:
    """Ids shown as the controller in many answers."""
    return {metadata(broker).controller_id for _ in range(30)}


def created(broker: KafkaBroker, name: str) -> int:
    """The error of CreateTopics."""
    request = m.CreateTopicsRequest(topics=[topic(name, 2, 1, {})], timeout_ms=15_000)
    code: int = asked(broker, request).topics[0].error_code
    return code


def topics_of(answer: m.MetadataResponse) -> dict[str, Any]:
    return {
        one.name or "": (
            one.topic_id,
            sorted(
                (p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes))
                for p in one.partitions
            ),
        )
        for one in answer.topics
    }


def a_cluster_had_been_there(zk: KazooClient, brokers: list[int]) -> None:
    """What a ZooKeeper-mode cluster leaves: its id, the epoch of its controllers, a topic."""
    zk.ensure_path("/cluster")
    zk.create("/cluster/id", json.dumps({"version": "1", "id": CLUSTER_ID}).encode())
    zk.create("/controller_epoch", b"4")
    partitions = {"0": brokers, "1": brokers[::-1]}
    described = {"version": 3, "partitions": partitions, "topic_id": "Wf9cmTAIQmuvSLTfAmwGAg"}
    described |= {"adding_replicas": {}, "removing_replicas": {}}
    zk.create("/brokers/topics/old", json.dumps(described).encode(), makepath=True)
    zk.create("/config/topics/old", b'{"version":1,"config":{}}', makepath=True)
    for number, replicas in partitions.items():
        state = {"version": 1, "leader": replicas[0], "leader_epoch": 3, "isr": replicas}
        path = f"/brokers/topics/old/partitions/{number}/state"
        zk.create(path, json.dumps(state | {"controller_epoch": 4}).encode(), makepath=True)


@pytest.mark.requirement("N02", "N06", "Y01", "Y02")
def test_a_migration_in_which_every_broker_is_ours(
    tmp_path: Path,
    zookeeper: ZooKeeper,
    zk_client: KazooClient,
    ended: Callable[[Any], Any],
) -> None:
    """Without any JVM but ZooKeeper's: from plain ZooKeeper mode to dual write, and to KRaft."""
    a_cluster_had_been_there(zk_client, [1, 2])
    ours = [
        ended(BridgeBroker(RELEASE, one, tmp_path, zookeeper, broker_count=2)) for one in (1, 2)
    ]
    for broker in ours:
        broker.start()
    for broker in ours:
        broker.wait_started()
        wait_for("the cluster", lambda one=broker: metadata(one).cluster_id == CLUSTER_ID)
        assert broker.stop() == 0
    bridge = ended(Bridge(tmp_path, zookeeper.hosts, release=RELEASE))
    bridge.format(CLUSTER_ID).start().wait_started()
    for broker in ours:
        broker.migrate(bridge.port).start()
    bridge.wait_dual_write()
    for broker in ours:
        wait_for("the topic", lambda one=broker: topics_of(metadata(one)).get("old"))
        assert controllers(broker) == {1, 2}
    assert created(ours[0], "new") == 0
    wait_for("the topic", lambda: "new" in topics_of(metadata(ours[1])))
    bridge.wait_drained()
    assert zk_client.exists("/brokers/topics/new")
    properties = (ours[0].data / "meta.properties").read_text()
    assert "version=0\n" in properties
    assert "directory.id=" in properties

    # Each comes back in KRaft mode on the same folder.
    for broker in ours:
        assert broker.stop() == 0
        assert zk_client.exists(f"/brokers/ids/{broker.id}") is None
        broker.zk, broker.migration = None, False
        broker.start().wait_started()
    wait_for("both", lambda: {one.node_id for one in metadata(ours[0]).brokers} == {1, 2})
    assert set(topics_of(metadata(ours[1]))) == {"new", "old"}
    assert "version=0\n" in (ours[0].data / "meta.properties").read_text()

    # One goes back to ZooKeeper mode, as in a rollback; the other stays.
    back = ours[0]
    assert back.stop() == 0
    back.zk, back.migration = zookeeper.hosts, True
    back.start().wait_started()
    wait_for("its znode", lambda: zk_client.exists(f"/brokers/ids/{back.id}"))
    wait_for("its registration", lambda: kinds(bridge) == {1: "zookeeper", 2: "kraft"})
    wait_for("what it is told", lambda: set(topics_of(metadata(back))) == {"new", "old"})
    assert created(back, "after") == 0
    wait_for("the topic", lambda: "after" in topics_of(metadata(ours[1])))
    assert "version=0\n" in (back.data / "meta.properties").read_text()


def kinds(bridge: Bridge) -> dict[int, str]:
    """Mode by broker, as the controller knows those that it has not fenced."""
    told = (bridge.status() or {"brokers": []})["brokers"]
    return {one["id"]: one["kind"] for one in told if not one["fenced"]}


@pytest.mark.requirement("A01", "A02", "A03", "I23", "N06")
def test_it_obeys_a_kafka_broker_that_is_the_zookeeper_controller(
    tmp_path: Path,
    make_zookeeper: Callable[..., ZooKeeper],
    real_brokers: Callable[[KafkaBroker], KafkaBroker],
    ended: Callable[[Any], Any],
) -> None:
    zookeeper = make_zookeeper(fsync=False)
    kafka = real_brokers(KafkaBroker(RELEASE, 0, tmp_path, zookeeper, broker_count=1))
    kafka.start().wait_started()
    ours = ended(BridgeBroker(RELEASE, 1, tmp_path, zookeeper, broker_count=1))
    ours.start().wait_started()
    wait_for("both", lambda: {one.node_id for one in metadata(ours).brokers} == {0, 1})
    asyncio.run(create_topics(kafka.bootstrap, [topic("first", 4, 2, {})]))
    _same_topics(kafka, ours, {"first"})
    assert controllers(ours) == {0}
    assert controllers(kafka) == {0}
    assert {one.node_id: one.host for one in metadata(ours).brokers} == {
        one.node_id: one.host for one in metadata(kafka).brokers
    }
    assert created(ours, "refused") == ErrorCode.NOT_CONTROLLER

    # It asks the ZooKeeper controller before it leaves: nothing is led by it afterwards.
    assert ours.stop() == 0
    assert not any("controlled shutdown refused" in line for line in ours.lines())
    wait_for("the leaders", lambda: asyncio.run(shape(kafka.bootstrap)).led().keys() <= {0})

    # With migration it forwards, first to the ZooKeeper controller.
    bridge = ended(Bridge(tmp_path, zookeeper.hosts, release=RELEASE))
    assert kafka.stop() is not None
    kafka.migrate(bridge.port).start().wait_started()
    ours.migrate(bridge.port).start().wait_started()
    wait_for("the controller", lambda: controllers(ours) == {0})
    assert created(ours, "by_zookeeper") == 0
    _same_topics(kafka, ours, {"first", "by_zookeeper"})

    # Then our KRaft controller takes over.
    cluster_id = metadata(kafka).cluster_id
    bridge.format(cluster_id).start().wait_started()
    bridge.wait_dual_write()
    wait_for("the take-over", lambda: controllers(ours) == {0, 1})
    assert created(ours, "by_kraft") == 0
    _same_topics(kafka, ours, {"first", "by_zookeeper", "by_kraft"})
    assert ours.stop() == 0
    assert any("granted" in line for line in ours.lines())


@pytest.mark.requirement("A01", "A02", "I23")
@pytest.mark.parametrize(("release", "protocol"), [("3.9.2", "2.7"), ("3.4.1", "3.4")])
def test_older_controllers_are_obeyed(
    tmp_path: Path,
    make_zookeeper: Callable[..., ZooKeeper],
    real_brokers: Callable[[KafkaBroker], KafkaBroker],
    release: str,
    protocol: str,
) -> None:
    """At protocol 2.7 topics have no ids, and requests are of older versions."""
    zookeeper = make_zookeeper(fsync=False)
    level = {"inter.broker.protocol.version": protocol}
    kafka, ours = (
        real_brokers(kind(release, one, tmp_path, zookeeper, broker_count=1, properties=level))
        for one, kind in enumerate((KafkaBroker, BridgeBroker))
    )
    kafka.start().wait_started()
    ours.start().wait_started()
    wait_for("both", lambda: {one.node_id for one in metadata(ours).brokers} == {0, 1})
    asyncio.run(create_topics(kafka.bootstrap, [topic("first", 4, 2, {})]))
    _same_topics(kafka, ours, {"first"})
    without = {one.topic_id == bytes(16) for one in metadata(ours).topics}
    assert without == {protocol == "2.7"}
    assert controllers(ours) == {0}
    assert created(ours, "refused") == ErrorCode.NOT_CONTROLLER, "nothing is forwarded"
    asyncio.run(delete_topic(kafka.bootstrap, "first"))
    _same_topics(kafka, ours, set())
    assert ours.stop() == 0
    assert any("granted" in line for line in ours.lines())


def _same_topics(kafka: KafkaBroker, ours: KafkaBroker, names: set[str]) -> None:
    """Both say the same of the topics, within a short time."""

    def same() -> bool:
        left, right = topics_of(metadata(kafka)), topics_of(metadata(ours))
        return left == right and set(left) == names

    wait_for(f"{names} at both", same)
