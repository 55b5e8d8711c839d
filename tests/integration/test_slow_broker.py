"""A real broker in ZooKeeper mode that stops for a while under load, and is level again soon."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.kafka import KafkaBroker
from emulator.servers.ports import HOST
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.kit.requests import delete_topics
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

STOPPED_S = 5
NAMES = 12
WAITING = "kraft_bridge_broker_requests_waiting"


def waiting(bridge: Bridge) -> dict[str, float]:
    """Broker id -> requests to it without an answer."""
    families = text_string_to_metric_families(bridge.wait_page("/metrics"))
    found = [one for family in families if family.name == WAITING for one in family.samples]
    return {one.labels["broker"]: one.value for one in found}


async def delete(controller: str, name: str) -> None:
    request = delete_topics(name, topic_names=[name], timeout_ms=20_000)
    [result] = (await api.call(controller, request)).responses
    assert result.error_code == ErrorCode.NONE


async def changes(controller: str, seconds: float) -> int:
    """Create and delete topics, each name again and again; returns how many changes there were."""
    end, made = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        name = f"t{made % NAMES}"
        if made // NAMES % 2:
            await delete(controller, name)
        else:
            await api.create_topics(controller, [api.topic(name, 3, 2, {})])
        made += 1
    return made


def hosted(broker: KafkaBroker) -> set[str]:
    """Folders of replicas, without those that are being deleted."""
    folders = {one.name for one in broker.data.iterdir() if one.is_dir()}
    return {one for one in folders if one.startswith("t") and "." not in one}


def stopped_for(seconds: float, cluster: KafkaCluster, bridge: Bridge) -> tuple[int, float, float]:
    """Stop the second broker while topics come and go.

    Returns:
        How many changes there were, how many requests waited in the end, and after how many
        seconds the broker was level again.
    """
    first, second = cluster.brokers
    controller = f"{HOST}:{bridge.port}"
    with second.paused():
        made = asyncio.run(changes(controller, seconds))
        waited = waiting(bridge).get("1", 0)
    begin = time.monotonic()

    def level() -> bool:
        if any(waiting(bridge).values()):
            return False
        mine, other = (asyncio.run(api.shape(one.bootstrap)).topics for one in (second, first))
        there = {f"{name}-{at}" for name, parts in other.items() for at in parts}
        return mine == other and hosted(second) == {one for one in there if one.startswith("t")}

    wait_for("the broker to be level", level, 120)
    return made, waited, time.monotonic() - begin


def in_dual_write(cluster: KafkaCluster, bridge: Bridge, zookeeper: ZooKeeper) -> None:
    cluster.start().wait_ready()
    identity = contents(dump(zookeeper.hosts))["/cluster/id"]
    assert identity is not None
    bridge.format(json.loads(identity)["id"]).start()
    cluster.migrate(bridge.port, rolling=False)
    bridge.wait_dual_write()
    bridge.wait_unfenced(broker.id for broker in cluster.brokers)
    cluster.wait_ready()


def test_a_broker_that_was_stopped_is_level_again(
    zookeeper: ZooKeeper,
    tmp_path: Path,
    real_brokers: Callable[[KafkaCluster | Bridge], KafkaCluster | Bridge],
) -> None:
    """It keeps its registration meanwhile, so that everything waits for it."""
    cluster = KafkaCluster("3.9.2", tmp_path, zookeeper, count=2)
    bridge = Bridge(
        tmp_path, zookeeper.hosts, properties={"broker.session.timeout.ms": 1_000 * 600}
    )
    real_brokers(cluster)
    real_brokers(bridge)
    in_dual_write(cluster, bridge, zookeeper)
    made, waited, _ = stopped_for(STOPPED_S, cluster, bridge)
    assert waited > made
