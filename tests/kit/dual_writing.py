"""A node in dual write among the machines that are joined in memory, and requests to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Final

from emulator.config import load
from emulator.migration.states import State
from emulator.node.machine import Node
from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from emulator.seam import Effect, Event, Received, Send
from emulator.zookeeper.ops import Create
from tests.kit import requests
from tests.kit.joined import Joined
from tests.kit.joined_zookeeper import ADDRESS, JoinedZooKeeper
from wire import messages as m
from wire import records as r
from wire.frame import (
    FrameReader,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    framed,
)
from wire.record_serde import encode_record
from wire.schema import lookup

CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"
NODE, BROKER = ("node", 9093), ("broker", 9092)
PRINCIPAL: Final = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
RAW: Final = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@node:9093",
    "listeners": "CONTROLLER://node:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "data",
    "zookeeper.metadata.migration.enable": "true",
    "zookeeper.connect": "zk:2181",
}
TREE: Final = {
    "/cluster": None,
    "/cluster/id": b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qg"}',
    "/controller_epoch": b"1",
    "/controller": b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":0}',
}


class Watched(Node):
    """A node whose steps ``profile`` sees, as of :func:`sys.setprofile`."""

    profile: Callable[[FrameType, str, object], None] | None = None

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """As the node's."""
        sys.setprofile(self.profile)
        try:
            return super().step(events, now_ms)
        finally:
            sys.setprofile(None)


class ZooKeeperModeBroker:
    """A machine that answers each control request, without an error."""

    deadline_ms = None

    def __init__(self) -> None:
        self._reader = FrameReader()

    def start(self, _now_ms: int) -> list[Effect]:
        """Nothing."""
        return []

    shutdown = start

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        """Answer."""
        effects: list[Effect] = []
        for event in events:
            if isinstance(event, Received):
                effects += [
                    self._answer(event.conn, each) for each in self._reader.feed(event.data)
                ]
        return effects

    def _answer(self, conn: int, frame: bytes) -> Send:
        head = decode_request(frame)[0]
        kind = lookup("response", head.api_key)
        assert kind is not None, head
        key, version, correlation_id = head.api_key, head.api_version, head.correlation_id
        return Send(conn, framed(encode_response(key, version, correlation_id, kind())))


class Stage:
    """A node in dual write with brokers 1 and 2, and two topics on both, which 1 leads.

    Args:
        zookeeper_mode: whether the brokers are in ZooKeeper mode, and get control requests.
    """

    def __init__(self, *, zookeeper_mode: bool = False) -> None:
        self.joined = Joined()
        self.joined.join("broker", ZooKeeperModeBroker(), {BROKER: "PLAINTEXT"})
        zookeeper = JoinedZooKeeper(self.joined)
        for path, data in TREE.items():
            zookeeper.write(Create(path, data))
        level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
        files = {BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint([encode_record(level, 0)], 0)}
        self.joined.cut.add(ADDRESS)
        # A former life, whose claim is in ZooKeeper.
        node = self._start(files)
        node.controller.append([r.ZkMigrationStateRecord(zk_migration_state=1)], self.joined.now_ms)
        self.joined.wait(1_000)
        party = self.joined.parties[-1]
        self.joined.leave(party)
        self.joined.cut.clear()
        self.node = self._start(party.files)
        driver = self.node.driver
        assert driver is not None
        self.joined.until(lambda: driver.state is State.DUAL_WRITE)
        kind = r.RegisterBrokerRecord
        host, port = BROKER
        brokers = [
            kind(
                broker_id=each,
                broker_epoch=self.node.controller.tip.offset + 1,
                end_points=[kind.BrokerEndpoint(name="PLAINTEXT", host=host, port=port)],
                fenced=False,
                is_migrating_zk_broker=zookeeper_mode,
            )
            for each in (1, 2)
        ]
        self.node.controller.append(brokers, self.joined.now_ms)
        self.joined.wait(600)
        self.asker = self.joined.ask(NODE)
        for name in ("first", "second"):
            assert not self.create(f"{name}-topic")

    def _start(self, files: dict[str, bytes]) -> Watched:
        node = Watched(
            load.load(RAW)[0],
            MetaProperties(CLUSTER, 3000, bytes(16)),
            files,
            rng=Random(1),
            stamp=lambda: self.joined.now_ms * 1_000_000,
            new_conn=self.joined.new_conn,
            now_ms=self.joined.now_ms,
        )
        self.joined.join("node", node, {NODE: "CONTROLLER"}, files)
        return node

    def create(self, name: str) -> int:
        """A topic of one partition with two replicas; the error code of the answer."""
        asked = requests.create_topics(name, assigned=[(1, 2)])
        return int(self.asker.ask(asked, 7).topics[0].error_code)

    def shrink(self, name: str) -> int:
        """The ISR of one of the topics becomes its leader."""
        kind, tip = m.AlterPartitionRequest, self.node.controller.tip
        epoch = tip.brokers[1].epoch
        member = kind.BrokerState(broker_id=1, broker_epoch=epoch)
        wanted = kind.PartitionData(new_isr_with_epochs=[member])
        made = tip.topic(f"{name}-topic")
        assert made is not None
        topic = kind.TopicData(topic_id=made.id, partitions=[wanted])
        asked = kind(broker_id=1, broker_epoch=epoch, topics=[topic])
        return int(self.asker.ask(asked, 3).topics[0].partitions[0].error_code)

    def beat(self, _name: str) -> int:
        """A heartbeat that changes nothing."""
        tip = self.node.controller.tip
        asked = m.BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=tip.brokers[1].epoch, current_metadata_offset=tip.offset
        )
        return int(self.asker.ask(asked, 1).error_code)

    def envelope(self, name: str) -> int:
        """The same as :meth:`create`, sent on by a broker for its client."""
        head = RequestHeader(api_key=19, api_version=7, correlation_id=1, client_id="client")
        inner = encode_request(head, requests.create_topics(name, assigned=[(1, 2)]))
        asked = m.EnvelopeRequest(
            request_data=inner, request_principal=PRINCIPAL, client_host_address=bytes(4)
        )
        answer = self.asker.ask(asked, 0)
        return int(answer.error_code) or int(
            decode_response(19, 7, answer.response_data)[1].topics[0].error_code
        )


KINDS: Final = {
    "create-topics": Stage.create,
    "alter-partition": Stage.shrink,
    "heartbeat": Stage.beat,
    "envelope": Stage.envelope,
    "control-request": Stage.create,
}
"""The last one is :meth:`Stage.create` where the brokers are in ZooKeeper mode."""
