"""ZooKeeper, brokers of ours in ZooKeeper mode, and our controller, joined in memory."""

from __future__ import annotations

import json
import random
from typing import Any, Self

from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.broker.zookeeper.side import ZooKeeperIdentity, ZooKeeperSide
from emulator.config.broker import load_broker
from emulator.node.machine import Node
from emulator.raft.format import render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from emulator.znodes import cluster
from emulator.zookeeper.ops import Create
from tests.kit.joined import Asker, Joined, Party
from tests.kit.joined_zookeeper import JoinedZooKeeper
from tests.unit.broker.joined_brokers import CLUSTER_ID, CONTROLLER_RAW, dotted, start_controller
from wire import records as r
from wire.record_serde import encode_record

PLAIN = {"zookeeper.connect": "zk:2181", "log.dirs": "data"}
MIGRATING = PLAIN | {
    "zookeeper.metadata.migration.enable": "true",
    "controller.quorum.voters": "3000@controller:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
OF_THE_CONTROLLER = CONTROLLER_RAW | {
    "zookeeper.connect": "zk:2181",
    "zookeeper.metadata.migration.enable": "true",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


class ZooKeeperStage:
    """``level``: the metadata.version with which the controller begins.

    ``shared``: the control requests of brokers of one process; None: each has its own.
    """

    def __init__(self, level: int = 21, shared: SharedControl | None = None) -> None:
        self.shared = shared
        self.joined = Joined()
        self.zookeeper = JoinedZooKeeper(self.joined)
        self.level = level
        self.parties: dict[int, Party] = {}

    def had_a_cluster(self, **topics: dict[int, list[int]]) -> Self:
        """What a Kafka cluster has left in ZooKeeper: replicas by partition, by topic."""
        nodes: dict[str, bytes | None] = dict.fromkeys(
            ("/cluster", "/brokers", "/brokers/topics", "/brokers/ids", "/config", "/config/topics")
        )
        nodes["/cluster/id"] = cluster.encode(CLUSTER_ID)
        nodes["/controller_epoch"] = b"7"
        for name, partitions in topics.items():
            path = f"/brokers/topics/{name}"
            nodes[path] = json.dumps(
                {
                    "version": 3,
                    "partitions": {str(one): replicas for one, replicas in partitions.items()},
                    "adding_replicas": {},
                    "removing_replicas": {},
                    "topic_id": f"{name:a<21}A",
                }
            ).encode()
            nodes[f"/config/topics/{name}"] = b'{"version":1,"config":{}}'
            nodes[f"{path}/partitions"] = None
            for one, replicas in partitions.items():
                nodes[f"{path}/partitions/{one}"] = None
                state = {"version": 1, "leader": replicas[0], "leader_epoch": 3}
                state |= {"controller_epoch": 7, "isr": replicas}
                nodes[f"{path}/partitions/{one}/state"] = json.dumps(state).encode()
        self.zookeeper.write(*(Create(path, data) for path, data in nodes.items()))
        return self

    def controller(self) -> Node:
        """Our controller, which takes over as soon as it may."""
        record = r.FeatureLevelRecord(name="metadata.version", feature_level=self.level)
        files = {BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint([encode_record(record, 0)], 0)}
        node = start_controller(self.joined, OF_THE_CONTROLLER, files).machine
        assert isinstance(node, Node)
        return node

    def broker(
        self, node_id: int, raw: dict[str, str] = PLAIN, stored: str | None = None, **more: str
    ) -> BrokerNode:
        """A broker that has just started."""
        joined = self.joined
        settings, _ = load_broker(
            raw
            | {"broker.id": str(node_id), "listeners": f"PLAINTEXT://broker-{node_id}:9092"}
            | dotted(more),
            "here",
        )
        rng = random.Random(node_id)
        directory = node_id.to_bytes(2, "big") * 8
        identity = ZooKeeperIdentity(
            stored, "anew-0000000000000000A", rng.randbytes(16), (directory,), directory
        )
        side = ZooKeeperSide(settings, identity, joined.new_conn, rng, self.shared)
        around = BrokerSurroundings(
            joined.new_conn, rng, lambda: joined.now_ms * 1_000_000, shared=self.shared
        )
        machine = BrokerNode(settings, side, around)
        address = (f"broker-{node_id}", 9092)
        self.parties[node_id] = joined.join(f"broker {node_id}", machine, {address: "PLAINTEXT"})
        return machine

    def running(self, *ids: int, raw: dict[str, str] = PLAIN, **more: str) -> list[BrokerNode]:
        """Brokers that are registered in ZooKeeper."""
        found = [self.broker(node_id, raw, **more) for node_id in ids]
        self.joined.until(lambda: all(one.side.running for one in found))
        return found

    def client(self, node_id: int = 1) -> Asker:
        return self.joined.ask((f"broker-{node_id}", 9092))

    def tell(self, node_id: int, request: Any, version: int) -> Any:
        """What a controller sends, and the broker's answer."""
        return self.client(node_id).ask(request, version)
