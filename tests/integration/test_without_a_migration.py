"""Servers beside a real ZooKeeper while no migration may begin, or none is wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.kafka import KafkaBroker
from emulator.servers.seeded import seed
from emulator.servers.zookeeper import ZooKeeper

pytestmark = [pytest.mark.jvm]

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
FLAG = "zookeeper.metadata.migration.enable"


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Callable[[Mapping[str, object]], Bridge]]:
    """Start a controller with these properties."""
    made: list[Bridge] = []

    def start(properties: Mapping[str, object]) -> Bridge:
        bridge = Bridge(tmp_path / f"controller-{len(made)}", None, properties=properties)
        made.append(bridge)
        return bridge.format(CLUSTER_ID).start().wait_started()

    yield start
    for bridge in made:
        bridge.kill()


@pytest.mark.requirement("C01", "Q03")
def test_the_flag_decides_whether_zookeeper_is_asked_which_brokers_there_are(
    zookeeper: ZooKeeper, zk_client: KazooClient, fault_proxy, controller
):
    """Without it nobody connects. With it two brokers are waited for that only znodes tell of.

    5 has a dynamic config and nothing else, 4 a replica; neither is in /brokers/ids.
    """
    zk_client.ensure_path("/known")
    zk_client.chroot = "/known"
    seed(zk_client, CLUSTER_ID)
    config = {"version": 1, "config": {"log.cleaner.threads": "2"}}
    zk_client.create("/config/brokers/5", json.dumps(config).encode())
    topic = {"version": 3, "topic_id": "YE_oKj-kQ7Ci5wNwSvZnlg", "partitions": {"0": [4]}}
    more = {"adding_replicas": {}, "removing_replicas": {}}
    zk_client.create("/brokers/topics/t", json.dumps(topic | more).encode())
    state = {"controller_epoch": 1, "leader": 4, "version": 1, "leader_epoch": 0, "isr": [4]}
    path = "/brokers/topics/t/partitions/0/state"
    zk_client.create(path, json.dumps(state).encode(), makepath=True)
    proxy: FaultProxy = fault_proxy(zookeeper.port)
    connect = {"zookeeper.connect": f"{proxy.hosts}/known"}

    off = controller(connect | {FLAG: "false"})
    status = off.wait_status("a leader", lambda status: status["active"])
    assert status["migration"] is None
    on = controller(connect | {FLAG: "true"})
    found = on.wait_status("missing brokers", lambda status: status["migration"]["waiting"])
    texts = {one["subject"]: one["text"] for one in found["migration"]["waiting"]}
    assert texts.keys() == {"4", "5"}
    assert "/config/brokers" in texts["5"]
    assert "replica assignments" in texts["4"]
    assert zk_client.exists("/controller") is None
    assert off.wait_status("an answer", bool)["active"]
    assert proxy.connections == 1, "of the second controller"


@pytest.mark.requirement("C07")
def test_a_broker_whose_security_map_lacks_the_controllers_listener_ends(
    zookeeper: ZooKeeper, zk_client: KazooClient, real_brokers, tmp_path
):
    """Not before it has connected to ZooKeeper."""
    zk_client.ensure_path("/unmapped")
    more = {"listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT"}
    options = {"controller_port": 2, "migration": True, "properties": more}
    broker = real_brokers(
        KafkaBroker("3.9.2", 0, tmp_path, f"{zookeeper.hosts}/unmapped", **options)
    )
    broker.start()
    broker.wait_until("end", lambda: not broker.alive)
    text = broker.tail() + broker.log.read_text(errors="replace")
    assert broker.exit_code != 0
    assert "SecurityProtocol.CONTROLLER" in text
