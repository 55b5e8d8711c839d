"""A broker in ZooKeeper mode, with or without migration.

It is registered in ZooKeeper and obeys the controller that its control requests name: first a
Kafka broker, which is the ZooKeeper controller, later perhaps a KRaft controller. It never
takes part in an election of the controller. With migration it is also registered with the quorum
(``quorum_registration``).

At a controlled shutdown the broker asks its controller to move the partitions that it leads; then
the session with ZooKeeper is closed, which removes the znode.

Source: KafkaServer.{startup,shutdown,controlledShutdown}, MetadataCacheControllerNodeProvider,
ZkSupport.canForward, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import ClassVar, Final, Literal

from typing_extensions import override

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.controller_channel import ControllerChannel, ControllerNode, Outcome
from emulator.broker.kraft.quorum import KnownQuorum
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.kraft.side import BrokerIdentity, channel_config, spoken
from emulator.broker.lifecycle import BrokerPart, LifecycleManager, LifeState
from emulator.broker.zookeeper.cluster import ZooKeeperCluster
from emulator.broker.zookeeper.control_requests import BrokerEpochs, ControlRequests
from emulator.broker.zookeeper.metadata_cache import ZkMetadataCache
from emulator.broker.zookeeper.part import ZooKeeperPart
from emulator.broker.zookeeper.quorum_registration import QuorumRegistration
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.broker.zookeeper.znode import ZnodeOf
from emulator.config.broker import BrokerConfig
from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.config.zookeeper_mode import ZooKeeperMode
from emulator.metadata.brokers import Endpoint
from emulator.net.channel import Answered
from emulator.net.control import ControlRequest, ControlResponse
from emulator.net.scram import UsedCredential
from emulator.seam import Effect, Event, Log, earliest
from emulator.zookeeper.client import ZkClient
from wire import messages as m

# ControlledShutdown: asks a ZooKeeper controller to move what this broker leads elsewhere.
#
# A KRaft controller is not asked by this request but by heartbeats (``lifecycle``). Source:
# KafkaServer.controlledShutdown, Kafka 3.9.


class ControlledShutdown(BrokerPart):
    """A ``BrokerPart``; ``done`` once it was granted, or was refused too often.

    Args:
        broker_id: this broker.
        channel: to the ZooKeeper controller; gives up after the request timeout.
        broker_epoch: of its znode.
        retries: requests at most.
        backoff_ms: pause after one that did not succeed.
    """

    def __init__(
        self,
        broker_id: int,
        channel: ControllerChannel[None],
        broker_epoch: Callable[[], int],
        retries: int,
        backoff_ms: int,
    ) -> None:
        self.done = False
        self.granted = False
        self._broker_id = broker_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._left = retries
        self._backoff_ms = backoff_ms
        self._due_ms: int | None = None
        self._effects: list[Effect] = []

    def begin(self, now_ms: int) -> None:
        """Ask now."""
        if not self.done:
            self._due_ms = now_ms

    # ---------------------------------------------------------------- a part
    @property
    @override
    def deadline_ms(self) -> int | None:
        times = (self._due_ms, self._channel.deadline_ms)
        return earliest(times)

    @override
    def start(self, now_ms: int) -> None:
        """:meth:`begin` asks."""

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        self._take(self._channel.handle(event, now_ms), now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        if self._due_ms is not None and self._due_ms <= now_ms:
            self._due_ms = None
            self._left -= 1
            request = m.ControlledShutdownRequest(
                broker_id=self._broker_id, broker_epoch=self._broker_epoch()
            )
            self._channel.put(request, None, now_ms)
        self._take(self._channel.tick(now_ms), now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects + self._channel.effects(now_ms)

    @override
    def close(self) -> None:
        self._due_ms = None
        self._channel.close()

    def _take(self, outcomes: list[Outcome[None]], now_ms: int) -> None:
        for outcome in outcomes:
            why = "no answer"
            if isinstance(outcome, Answered):
                answer: m.ControlledShutdownResponse = outcome.message
                remaining = len(answer.remaining_partitions)
                why = f"error {answer.error_code}, {remaining} partitions remain"
                self.granted = not answer.error_code and not remaining
            self.done = self.granted or self._left <= 0
            if not self.granted:
                fields: dict[str, object] = {"why": why, "tries_left": self._left}
                self._effects.append(Log("warning", "controlled shutdown refused", fields))
            if not self.done:
                self._due_ms = now_ms + self._backoff_ms


HANDSHAKE_MS_MAX: Final = 3_000
"""A starting ZooKeeper may never answer the connect request: connect again after this."""
_GRANTED: Final = "stopped; the controller granted it"
_NOT_GRANTED: Final = "stopped; the controller did not grant a controlled shutdown"
FULL_SINCE: Final = "3.6"
"""The first release that understands requests of type FULL."""


def _no_files(_cluster_id: str) -> Mapping[str, bytes]:
    return {}


class ZooKeeperStage(Enum):
    """How far a broker in ZooKeeper mode has come."""

    STARTING = auto()
    """Not registered in ZooKeeper yet."""
    RUNNING = auto()
    ASKING = auto()
    """The controller is asked to move what this broker leads."""
    LEAVING = auto()
    """The session with ZooKeeper is being closed."""


@dataclass(frozen=True, slots=True)
class ZooKeeperIdentity:
    """What ``meta.properties`` says, and this life of the broker.

    ``cluster_id`` None: there is no ``meta.properties`` yet; ZooKeeper has it, or else
    ``new_cluster_id`` becomes the id of a new cluster. ``log_dirs``: directory ids, empty if the
    release has none. ``files``: cluster id -> files to write once it is known, by path.
    """

    cluster_id: str | None
    new_cluster_id: str
    incarnation_id: bytes
    log_dirs: tuple[bytes, ...]
    metadata_directory_id: bytes
    files: Callable[[str], Mapping[str, bytes]] = _no_files

    def known(self, cluster_id: str) -> BrokerIdentity:
        """The same, as soon as the cluster is known."""
        return BrokerIdentity(
            cluster_id, self.incarnation_id, self.log_dirs, self.metadata_directory_id
        )


class ZooKeeperSide:
    """A ``BrokerSide``. ``over`` is set when the broker has to end.

    Args:
        config: of a broker in ZooKeeper mode.
        identity: see there.
        new_conn: allocates connection ids.
        rng: which server is asked first.
        shared: the requests to other brokers of the process, and the objects made of them.
    """

    mode: Literal["zk"] = "zk"

    def __init__(
        self,
        config: BrokerConfig,
        identity: ZooKeeperIdentity,
        new_conn: Callable[[], int],
        rng: Random,
        shared: SharedControl | None = None,
    ) -> None:
        mode = config.zookeeper
        assert mode is not None, "a broker in ZooKeeper mode"
        self.over: tuple[int, str] | None = None
        self.stage = ZooKeeperStage.STARTING
        self._config = config
        self._mode = mode
        self._identity = identity
        self._connect_by_ms: int | None = None
        self._leaving_why = ""
        self.zookeeper = ZooKeeperPart(_client(mode, new_conn, rng), _about(config, identity))
        self.registration: QuorumRegistration | None = None
        if mode.migration:
            quorum = KnownQuorum(config.bootstrap, config.voters, rng)
            self.registration = QuorumRegistration(config, quorum, new_conn)
        full = config.release >= FULL_SINCE and mode.migration
        self.cache = ZkMetadataCache(full_replaces=full, shared=shared)
        self.cluster = ZooKeeperCluster(self.cache, self.zookeeper, mode.passwords)
        self.replicas = HostedReplicas(config.node_id, config.replica_lag_ms)
        registration = self.registration
        self._epochs = BrokerEpochs(
            lambda: self.zookeeper.znode.epoch,
            None if registration is None else lambda: registration.epoch,
        )
        self.control = ControlRequests(
            config.node_id,
            self.cache,
            self.replicas,
            self._epochs,
            full_replaces=full,
            shared=shared,
        )
        self.alter_partition = AlterPartitionSender(
            self.replicas,
            ControllerChannel(self.controller, spoken(config.release), new_conn),
            lambda: self.broker_epoch,
            with_epochs=False,
        )
        self._farewell = ControlledShutdown(
            config.node_id,
            ControllerChannel(
                self.controller, spoken(config.release), new_conn, config.request_timeout_ms
            ),
            lambda: self.zookeeper.znode.epoch,
            mode.shutdown_retries,
            mode.shutdown_backoff_ms,
        )
        joined: tuple[BrokerPart, ...] = () if registration is None else (registration,)
        self.parts: Sequence[BrokerPart] = (
            self.zookeeper,
            *joined,
            self.alter_partition,
            self._farewell,
        )

    # ---------------------------------------------------------------- a side
    @property
    def forwards(self) -> bool:
        """See BrokerSide: with migration, whichever kind of controller rules (I23)."""
        return self._mode.forwards

    @property
    def knows_users(self) -> bool:
        """See BrokerSide."""
        return self.zookeeper.mirror.loaded

    def take_taken_away(self) -> list[UsedCredential]:
        """See BrokerSide: from ZooKeeper it reads what is there now."""
        return []

    @property
    def broker_epoch(self) -> int:
        """See BrokerSide: the epoch that the present controller knows."""
        return self._epochs.to_name(kraft=self._under_kraft)

    @property
    def of_another_cluster(self) -> bool:
        """Whether all controllers that it may migrate to are of another cluster than ZooKeeper."""
        return self.registration is not None and self.registration.of_another_cluster

    @property
    def running(self) -> bool:
        """See BrokerSide: it was registered in ZooKeeper; the quorum need not know it."""
        return self.stage is not ZooKeeperStage.STARTING

    @property
    def state(self) -> LifeState:
        """See BrokerSide."""
        return _STATES[self.stage]

    def controller(self) -> ControllerNode | None:
        """See BrokerSide: by the newest UpdateMetadata, a broker or the leader of the quorum."""
        known, reply_ms = self.cache.controller, self._config.request_timeout_ms
        if known is None:
            return None
        if known.kraft:
            return None if self.registration is None else self.registration.node(reply_ms)
        node = self.cache.node(known.id, self._config.inter_broker_listener_name)
        if node is None:
            return None
        own = self._config
        config = channel_config(str(own.node_id), own.release, reply_ms, own.inter_broker_access)
        return ControllerNode(node.host, node.port, config, kraft=False)

    def take_control_request(self, request: ControlRequest, now_ms: int) -> ControlResponse:
        """See BrokerSide."""
        return self.control.take(request, now_ms)

    def exchange(self, now_ms: int) -> None:
        """See BrokerSide."""
        self._STAGES[self.stage](self, now_ms)
        self.zookeeper.topics_changed(*self.cache.take_changes())
        if self.registration is not None and self.registration.broken:
            self._end(1, self.registration.broken)

    def shut_down(self, now_ms: int) -> None:
        """See BrokerSide."""
        self.stage = ZooKeeperStage.ASKING
        ruling, life = self.cache.controller, self._life
        if not self._config.controlled_shutdown or self.zookeeper.znode.epoch < 0:
            self._leave(now_ms)
        elif ruling is not None and not ruling.kraft:
            self._farewell.begin(now_ms)
        elif ruling is not None and life is not None:
            life.shut_down(now_ms, controlled=True)
        else:
            # There is no controller, or it is one with which this broker is not registered.
            self._leave(now_ms)

    # ---------------------------------------------------------------- stage by stage
    def _starting(self, now_ms: int) -> None:
        if self._connect_by_ms is None:
            self._connect_by_ms = now_ms + self._mode.connection_timeout_ms
        znode = self.zookeeper.znode
        if znode.over is not None:
            self._end(1, znode.over)
        elif znode.registered and self.zookeeper.mirror.loaded:
            self.stage = ZooKeeperStage.RUNNING
            assert znode.cluster_id is not None
            self.zookeeper.write(self._identity.files(znode.cluster_id))
            if self.registration is not None:
                self.registration.begin(self._identity.known(znode.cluster_id), now_ms)
        elif not self.zookeeper.zk.generation and self._connect_by_ms <= now_ms:
            self._end(1, f"no connection to ZooKeeper within {self._mode.connection_timeout_ms} ms")

    def _running(self, _now_ms: int) -> None:
        """Nothing to pass on."""

    def _asking(self, now_ms: int) -> None:
        life = self._life
        if life is not None and life.over is not None:
            self._leave(now_ms, life.over[1])
        elif self._farewell.done:
            self._leave(now_ms, _GRANTED if self._farewell.granted else _NOT_GRANTED)

    def _leaving(self, _now_ms: int) -> None:
        if self.zookeeper.gone:
            self._end(0, self._leaving_why)

    def _leave(self, now_ms: int, why: str = "stopped") -> None:
        self.stage, self._leaving_why = ZooKeeperStage.LEAVING, why
        self.zookeeper.leave(now_ms)

    def _end(self, exit_code: int, why: str) -> None:
        if self.over is None:
            self.over = (exit_code, why)

    @property
    def _life(self) -> LifecycleManager | None:
        """The registration with the quorum; None before it begins, and without migration."""
        return None if self.registration is None else self.registration.life

    @property
    def _under_kraft(self) -> bool:
        return self.cache.controller is not None and self.cache.controller.kraft

    _STAGES: ClassVar[Mapping[ZooKeeperStage, Callable[[ZooKeeperSide, int], None]]] = {
        ZooKeeperStage.STARTING: _starting,
        ZooKeeperStage.RUNNING: _running,
        ZooKeeperStage.ASKING: _asking,
        ZooKeeperStage.LEAVING: _leaving,
    }


_STATES: Final = {
    ZooKeeperStage.STARTING: LifeState.STARTING,
    ZooKeeperStage.RUNNING: LifeState.RUNNING,
    ZooKeeperStage.ASKING: LifeState.PENDING_CONTROLLED_SHUTDOWN,
    ZooKeeperStage.LEAVING: LifeState.SHUTTING_DOWN,
}


def _client(mode: ZooKeeperMode, new_conn: Callable[[], int], rng: Random) -> ZkClient:
    return ZkClient(
        [(one.host, one.port) for one in mode.servers],
        mode.chroot,
        mode.session_timeout_ms,
        min(mode.connection_timeout_ms, HANDSHAKE_MS_MAX),
        new_conn,
        rng,
        max_in_flight=mode.max_in_flight_requests,
        security=mode.security,
        keeps_session=True,
    )


def _about(config: BrokerConfig, identity: ZooKeeperIdentity) -> ZnodeOf:
    return ZnodeOf(
        config.node_id,
        tuple(
            Endpoint(one.name, one.host, one.port, SECURITY_PROTOCOLS[one.security_protocol])
            for one in config.advertised
        ),
        config.rack,
        identity.cluster_id,
        identity.new_cluster_id,
    )
