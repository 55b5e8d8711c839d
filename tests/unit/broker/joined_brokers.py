"""Our controller and our brokers, joined in memory."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.kraft.side import BrokerIdentity, KRaftSide
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.config import load as config
from emulator.config.broker import load_broker
from emulator.net.faults.script import FaultScript
from emulator.node.machine import Node
from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from tests.kit.joined import Asker, Joined, Party
from wire import records as r
from wire.record_serde import encode_record

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER = ("controller", 9093)
CONTROLLER_RAW = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@controller:9093",
    "listeners": "CONTROLLER://controller:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "data",
}
BROKER_RAW = {
    "process.roles": "broker",
    "controller.quorum.voters": "3000@controller:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "data",
}


def dotted(more: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in more.items()}


def start_controller(joined: Joined, raw: dict[str, str], files: dict[str, bytes]) -> Party:
    """Our controller, on that folder."""
    node = Node(
        config.load(raw)[0],
        MetaProperties(CLUSTER_ID, 3000, bytes(15) + b"x"),
        files,
        rng=random.Random(1),
        stamp=lambda: joined.now_ms * 1_000_000,
        new_conn=joined.new_conn,
        now_ms=joined.now_ms,
    )
    party = joined.join("controller", node, {CONTROLLER: "CONTROLLER"})
    party.files = files | party.files
    return party


class Stage:
    """A controller and brokers; ``release`` and ``level`` are the controller's."""

    def __init__(self, level: int = 21, **more: str) -> None:
        self.joined = Joined()
        self.images = LogImages()
        self.lives = count()
        self.parties: dict[int, Party] = {}
        self.faults: FaultScript | None = None
        record = r.FeatureLevelRecord(name="metadata.version", feature_level=level)
        self.checkpoint = render_bootstrap_checkpoint([encode_record(record, 0)], 0)
        self.more = dotted(more)
        self.controller = self.start_controller({BOOTSTRAP_CHECKPOINT: self.checkpoint})

    def start_controller(self, files: dict[str, bytes]) -> Party:
        return start_controller(self.joined, CONTROLLER_RAW | self.more, files)

    def broker(self, node_id: int = 1, **more: str) -> BrokerNode:
        """A broker that has just started."""
        joined = self.joined
        raw = BROKER_RAW | {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://broker-{node_id}:9092",
        }
        settings, _ = load_broker(raw | dotted(more), "here")
        rng = random.Random(node_id * 1_000 + next(self.lives))
        identity = BrokerIdentity(
            CLUSTER_ID, rng.randbytes(16), (bytes([node_id]) * 16,), bytes([node_id]) * 16
        )
        side = KRaftSide(settings, identity, self.images, joined.new_conn, rng)
        around = BrokerSurroundings(
            joined.new_conn, rng, lambda: joined.now_ms * 1_000_000, faults=self.faults
        )
        machine = BrokerNode(settings, side, around)
        address = (f"broker-{node_id}", 9092)
        self.parties[node_id] = joined.join(f"broker {node_id}", machine, {address: "PLAINTEXT"})
        return machine

    def running(self, *node_ids: int, **more: str) -> list[BrokerNode]:
        """Brokers that are registered and unfenced."""
        found = [self.broker(node_id, **more) for node_id in node_ids]
        self.joined.until(lambda: all(one.side.running for one in found))
        return found

    def client(self, node_id: int = 1) -> Asker:
        return self.joined.ask((f"broker-{node_id}", 9092))

    def images_of(self, *nodes: Any) -> list[Any]:
        return [node.side.cluster.image for node in nodes]


__all__ = ["CLUSTER_ID", "CONTROLLER", "Stage"]
