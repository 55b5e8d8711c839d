"""A ZooKeeper-mode broker that migrates, as a model: what its controller can see of it.

It keeps an ephemeral znode, follows the metadata log, registers, sends heartbeats, takes control
requests, and passes requests of its clients on. It stores no records and leads nothing in earnest.

Source: BrokerServer/KafkaServer in migration mode, BrokerLifecycleManager, RaftManager as observer,
Kafka 3.9; spec of the exchange as recorded from real brokers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from emulator.raft.layout import TOPIC_ID
from emulator.simulation.broker_view import ControlRequest, View
from emulator.simulation.controller_channel import ControllerChannel, OnAnswer
from emulator.simulation.network import Address, Network
from emulator.simulation.scheduler import MS, Scheduler
from emulator.simulation.violation import Violated
from emulator.simulation.zookeeper_tree import ServerTree
from emulator.zookeeper.ops import EPHEMERAL, Create
from wire import messages as m
from wire.batch import decode_batches
from wire.errors import ErrorCode
from wire.frame import FrameReader, decode_request, encode_response, framed

PORT = 9092
HEARTBEAT_US = 700 * MS
HASTY_HEARTBEAT_US = 100 * MS
REGISTER_US = 100 * MS
FETCH_WAIT_MS = 500
SESSION_BASE = 1_000_000
PRINCIPAL = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"


def host_of(broker_id: int) -> str:
    """Where a broker listens."""
    return f"broker-{broker_id}"


@dataclass(slots=True)
class FollowedLog:
    """How far a broker has followed the metadata log; it stays on its disk."""

    end_offset: int = 0
    last_epoch: int = 0
    high_watermark: int = -1


class SimulatedBroker:
    """One life of a broker.

    ``told`` is called with every control request before it is judged; ``fetched`` with every batch
    of the metadata log.
    """

    def __init__(  # noqa: PLR0917  # who it is, and what it runs in
        self,
        broker_id: int,
        life: int,
        cluster_id: str,
        controller: Address,
        log: FollowedLog,
        tree: ServerTree,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        *,
        told: Callable[[SimulatedBroker, ControlRequest], None],
        fetched: Callable[[int, int, bytes], None],
    ) -> None:
        self.id = broker_id
        self.name = f"{host_of(broker_id)}#{life}"
        self.alive = True
        self.epoch = -1
        self.fenced = True
        self.leader_epoch = 0
        self.log = log
        self.view = View(broker_id)
        self.session_id = SESSION_BASE + broker_id * 1_000 + life
        self._cluster_id = cluster_id
        self._incarnation = rng.randbytes(16)
        self._directory = (broker_id + 1_000).to_bytes(16, "big")
        self._tree = tree
        self._scheduler = scheduler
        self._network = network
        self._told = told
        self._fetched = fetched
        self._inbound: dict[int, FrameReader] = {}
        self._raft, self._lifecycle, self._clients = (
            ControllerChannel(self, controller, self.name, scheduler, network) for _ in range(3)
        )

    def start(self) -> None:
        """Listen, appear in ZooKeeper, follow the log, register."""
        self._network.listen((host_of(self.id), PORT), self)
        self._tree.write(
            Create(f"/brokers/ids/{self.id}", znode(self.id), flags=EPHEMERAL),
            self.session_id,
            self._scheduler.now_ms,
        )
        self._fetch()
        self._register()

    def die(self) -> None:
        """Killed; the znode goes when its session does."""
        self.alive = False
        self._network.abandon(self)
        for channel in (self._raft, self._lifecycle, self._clients):
            channel.end()

    def ask(self, message: object, version: int, on_answer: OnAnswer) -> None:
        """Send a request to the controller on behalf of a client or of itself."""
        self._clients.ask(message, version, on_answer)

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """The controller connected."""
        self._inbound[conn] = FrameReader(100 * 1024 * 1024)

    def connected(self, conn: int) -> None:
        """The controller accepted."""
        self._channel(conn).connected()

    def received(self, conn: int, data: bytes) -> None:
        """A control request, or an answer."""
        frames = self._inbound.get(conn)
        if frames is None:
            self._channel(conn).received(data)
            return
        for frame in frames.feed(data):
            header, message = decode_request(frame)
            answer = self._control(message)
            payload = encode_response(
                header.api_key, header.api_version, header.correlation_id, answer
            )
            self._network.send(self, conn, framed(payload))

    def closed(self, conn: int, why: str) -> None:
        """A connection is gone."""
        del why
        if self._inbound.pop(conn, None) is None and self.alive:
            self._channel(conn).closed()

    def _channel(self, conn: int) -> ControllerChannel:
        channels = (self._raft, self._lifecycle, self._clients)
        return next(channel for channel in channels if channel.conn == conn)

    # ---------------------------------------------------------------- control requests
    def _control(self, message: object) -> object:
        assert isinstance(message, ControlRequest), message
        self._told(self, message)
        refusal = self.view.refusal(message, self.epoch)
        match message:
            case m.LeaderAndIsrRequest():
                if refusal:
                    return m.LeaderAndIsrResponse(error_code=refusal)
                answer = self.view.leader_and_isr(message)
                if answer.topics:
                    raise Violated("told-in-order", f"{self.name} hosts another topic of that name")
                return answer
            case m.UpdateMetadataRequest():
                if refusal:
                    return m.UpdateMetadataResponse(error_code=refusal)
                return self.view.update_metadata(message)
            case m.StopReplicaRequest():
                if refusal:
                    return m.StopReplicaResponse(error_code=refusal)
                return self.view.stop_replica(message)

    # ---------------------------------------------------------------- lifecycle
    def _register(self) -> None:
        if not self.alive:
            return
        request = m.BrokerRegistrationRequest
        self._lifecycle.ask(
            request(
                broker_id=self.id,
                cluster_id=self._cluster_id,
                incarnation_id=self._incarnation,
                listeners=[request.Listener(name="PLAINTEXT", host=host_of(self.id), port=PORT)],
                features=[
                    request.Feature(
                        name="metadata.version", min_supported_version=1, max_supported_version=25
                    )
                ],
                rack=None,
                is_migrating_zk_broker=True,
                log_dirs=(self._directory,),
            ),
            4,
            self._registered,
        )

    def _registered(self, answer: object | None) -> None:
        if isinstance(answer, m.BrokerRegistrationResponse) and not answer.error_code:
            self.epoch = answer.broker_epoch
            self._scheduler.tell(self.name, f"registered with epoch {self.epoch}")
            self._heartbeat()
        else:
            self._scheduler.after(REGISTER_US, self._register)

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        request = m.BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=max(0, self.log.high_watermark - 1),
        )
        self._lifecycle.ask(request, 1, self._beaten)

    def _beaten(self, answer: object | None) -> None:
        if isinstance(answer, m.BrokerHeartbeatResponse):
            if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                what = f"the registration of {self.name} with epoch {self.epoch} was forgotten"
                raise Violated("answered-is-committed", what)
            if not answer.error_code:
                self.fenced = answer.is_fenced
        pause_us = HASTY_HEARTBEAT_US if self.fenced or answer is None else HEARTBEAT_US
        self._scheduler.after(pause_us, self._heartbeat)

    # ---------------------------------------------------------------- the metadata log
    def _fetch(self) -> None:
        if not self.alive:
            return
        request = m.FetchRequest
        self._raft.ask(
            request(
                cluster_id=self._cluster_id,
                replica_state=request.ReplicaState(replica_id=self.id),
                max_wait_ms=FETCH_WAIT_MS,
                max_bytes=8 * 1024 * 1024,
                topics=[
                    request.FetchTopic(
                        topic_id=TOPIC_ID,
                        partitions=[
                            request.FetchPartition(
                                current_leader_epoch=self.leader_epoch,
                                fetch_offset=self.log.end_offset,
                                last_fetched_epoch=self.log.last_epoch,
                                replica_directory_id=self._directory,
                            )
                        ],
                    )
                ],
            ),
            17,
            self._answered,
        )

    def _answered(self, answer: object | None) -> None:
        pause_us = 0
        if isinstance(answer, m.FetchResponse) and answer.responses:
            pause_us = self._take(answer.responses[0].partitions[0])
        else:
            pause_us = 100 * MS
        self._scheduler.after(pause_us, self._fetch)

    def _take(self, partition: m.FetchResponse.PartitionData) -> int:
        """Follow the answer; returns how long to wait before the next fetch."""
        leader = partition.current_leader
        if partition.error_code:
            if leader.leader_epoch > self.leader_epoch:
                self.leader_epoch = leader.leader_epoch
                return 0
            return 50 * MS
        snapshot, diverging = partition.snapshot_id, partition.diverging_epoch
        if snapshot.end_offset >= 0:
            # The content is of no use to a model: it only takes the place in the log.
            self.log.end_offset, self.log.last_epoch = snapshot.end_offset, snapshot.epoch
            return 0
        if diverging.epoch >= 0:
            what = f"{self.name} at offset {self.log.end_offset} must go back to {diverging}"
            raise Violated("served-is-durable", what)
        for batch in decode_batches(partition.records or b""):
            for index, (_, value) in enumerate(batch.records):
                self._fetched(batch.base_offset + index, batch.leader_epoch, value)
            self.log.end_offset = batch.last_offset + 1
            self.log.last_epoch = batch.leader_epoch
        self.log.high_watermark = max(
            self.log.high_watermark, min(partition.high_watermark, self.log.end_offset)
        )
        return 0


def znode(broker_id: int) -> bytes:
    """What a broker writes to ``/brokers/ids``."""
    return json.dumps(
        {
            "version": 5,
            "host": host_of(broker_id),
            "port": PORT,
            "endpoints": [f"PLAINTEXT://{host_of(broker_id)}:{PORT}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "timestamp": "1",
            "features": {},
        },
        separators=(",", ":"),
    ).encode()
