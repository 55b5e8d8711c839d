"""A broker in KRaft mode: it follows the metadata log and is registered with the quorum's leader.

Source: BrokerServer, RaftControllerNodeProvider, BrokerMetadataPublisher, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final, Literal, Protocol

from emulator.broker.cluster import ImageCluster
from emulator.broker.controller_channel import ControllerChannel, ControllerNode
from emulator.broker.kraft.followed import FollowedMetadata, FollowerIdentity
from emulator.broker.kraft.hosting import Hosting
from emulator.broker.kraft.observer import LogObserver
from emulator.broker.kraft.quorum import KnownQuorum
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.lifecycle import BrokerPart, LifecycleManager, LifeSettings, LifeState
from emulator.config.broker import BrokerConfig
from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.config.sasl import OPEN_ACCESS, PeerAccess
from emulator.controller.registry import supported_features
from emulator.controller.rules.credentials import taken_away
from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.net.channel import ChannelConfig
from emulator.net.control import ControlRequest, ControlResponse
from emulator.net.greeting import Greeting
from emulator.net.login import Login
from emulator.net.scram import UsedCredential
from wire import messages as m
from wire.releases import Ranges, controller_ranges

CONNECT_MS: Final = 10_000
"""Timeout of a connection (socket.connection.setup.timeout.ms)."""
RECONNECT_MS: Final = 50
"""Pause before the next connection (reconnect.backoff.ms)."""
SOFTWARE: Final = "kraft-bridge"
NOT_OURS: Final = (
    "not registered with the controller: INCONSISTENT_CLUSTER_ID, all controllers that are named "
    "are of another cluster"
)
"""Why a broker ends that no controller will ever take; Kafka's asks on until its time is over."""


class Listens(Protocol):
    """Takes the metadata as the broker learns it."""

    def take_image(self, image: Image, now_ms: int) -> None:
        """The metadata, after it was read from a snapshot."""

    def take_delta(self, delta: Delta, now_ms: int) -> None:
        """One change, in order."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What ``meta.properties`` says, and this life of the broker.

    ``log_dirs``: directory ids of ``log.dirs``, empty if the release has none.
    """

    cluster_id: str
    incarnation_id: bytes
    log_dirs: tuple[bytes, ...]
    metadata_directory_id: bytes


def spoken(release: str) -> Ranges:
    """API key -> versions that a broker of this release sends to its controller."""
    return controller_ranges(release)


@lru_cache(maxsize=1_024)
def channel_config(
    client_id: str, release: str, reply_ms: int, access: PeerAccess = OPEN_ACCESS
) -> ChannelConfig:
    """One connection to a controller, with ApiVersions first, then the login, if it needs one."""
    return ChannelConfig(
        client_id=client_id,
        connect_ms=CONNECT_MS,
        reply_ms=reply_ms,
        retry_ms=RECONNECT_MS,
        greeting=Greeting(
            m.ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=release),
            version=spoken(release)[18][1],
            login=Login.of(access.login),
        ),
        tls=access.tls,
    )


class KRaftSide:
    """A ``BrokerSide``.

    Args:
        config: of the broker.
        identity: see there.
        images: of this cluster, shared with other brokers of the process.
        new_conn: allocates connection ids.
        rng: which controller is asked first, which broker is shown as the controller.
    """

    mode: Literal["kraft"] = "kraft"
    forwards = True

    def __init__(
        self,
        config: BrokerConfig,
        identity: BrokerIdentity,
        images: LogImages,
        new_conn: Callable[[], int],
        rng: Random,
    ) -> None:
        self.cluster = ImageCluster(identity.cluster_id)
        self.over: tuple[int, str] | None = None
        self._config = config
        self.quorum = KnownQuorum(config.bootstrap, config.voters, rng)
        self.log = FollowedMetadata(
            FollowerIdentity(config.node_id, identity.cluster_id, identity.metadata_directory_id),
            images,
        )
        self.observer = LogObserver(
            self.log,
            self.quorum,
            spoken(config.release),
            once(config),
            new_conn,
        )
        heartbeat_reply_ms = config.session_timeout_ms // 2
        self.lifecycle = LifecycleManager(
            life(config, identity),
            ControllerChannel(
                lambda: self._node(heartbeat_reply_ms),
                spoken(config.release),
                new_conn,
                heartbeat_reply_ms,
            ),
            reached=lambda: self.log.image.offset,
            ready=lambda: self._published and not self._wants_fence,
        )
        self.hosting = Hosting(
            config.node_id,
            config.replica_lag_ms,
            next(iter(identity.log_dirs), None),
            lambda: ControllerChannel(self.controller, spoken(config.release), new_conn),
            lambda: self.broker_epoch,
        )
        self.listeners: list[Listens] = [self.hosting]
        """These take each change of the metadata, from the first publication on."""
        self.parts: Sequence[BrokerPart] = (self.observer, self.lifecycle, *self.hosting.parts)
        self._published = False
        self._wants_fence = False
        """Whether it is to be fenced though it could serve, as a test wants it."""
        self._registered = False
        """Whether the metadata have shown the registration of this life."""
        self._idle: Callable[[], bool] | None = None
        self._taken_away: list[UsedCredential] = []
        self._directories = identity.log_dirs

    @property
    def knows_users(self) -> bool:
        """See BrokerSide."""
        return self._published and not self.log.outrun

    def take_taken_away(self) -> list[UsedCredential]:
        """See BrokerSide."""
        taken, self._taken_away = self._taken_away, []
        return taken

    @property
    def broker_epoch(self) -> int:
        """See BrokerSide."""
        return self.lifecycle.epoch

    @property
    def running(self) -> bool:
        """See BrokerSide."""
        return self.state in {LifeState.RUNNING, LifeState.PENDING_CONTROLLED_SHUTDOWN}

    @property
    def state(self) -> LifeState:
        """See BrokerSide."""
        return self.lifecycle.state

    def controller(self) -> ControllerNode | None:
        """See BrokerSide."""
        return self._node(self._config.request_timeout_ms)

    def exchange(self, now_ms: int) -> None:
        """See BrokerSide."""
        replaced, deltas = self.log.take_deltas()
        image = self.log.image
        self._taken_away += taken_away(deltas)
        if self._published:
            if replaced:
                for listener in self.listeners:
                    listener.take_image(deltas[0].before if deltas else image, now_ms)
            for delta in deltas:
                for listener in self.listeners:
                    listener.take_delta(delta, now_ms)
            self.cluster.image = image
        elif self.log.current and self.state not in {LifeState.NOT_RUNNING, LifeState.STARTING}:
            # The first image is shown when it holds all that was committed at the start, and the
            # controller knows this life: before, the broker may lead for the life before it.
            self._published = True
            self.cluster.image = image
            for listener in self.listeners:
                listener.take_image(image, now_ms)
            self.lifecycle.hurry(now_ms)
        if replaced or any(delta.touched.features for delta in deltas):
            self._check_features(image, now_ms)
            self._report_directories(image, now_ms)
        if self.over is None and self.lifecycle.over is not None:
            exit_code, why = self.lifecycle.over
            if exit_code and self.observer.refusal:
                why += f"; the metadata log is refused: {self.observer.refusal}"
            self.over = exit_code, why
        if self._idle is not None and self._removed(image) and self._idle() and self.over is None:
            self.over = (0, "unregistered: an UnregisterBroker has removed this broker")
        if self.observer.broken and self.over is None:
            self.over = (1, self.observer.broken)
        if self.observer.of_another_cluster and self.over is None and self.broker_epoch < 0:
            self.over = (1, f"{NOT_OURS}; cluster.id of this broker is {self.cluster.cluster_id}")

    def want_fence(self, wanted: bool, now_ms: int) -> None:
        """Have heartbeats ask to be fenced, or not any more, beginning at once."""
        self._wants_fence = wanted
        self.lifecycle.hurry(now_ms)

    def end_unregistered(self, idle: Callable[[], bool]) -> None:
        """End in order once the registration has been removed, and ``idle``."""
        self._idle = idle

    def _removed(self, image: Image) -> bool:
        own = image.brokers.get(self._config.node_id)
        if own is not None:
            self._registered = own.epoch == self.broker_epoch
        return self._registered and own is None

    def take_control_request(self, request: ControlRequest, _now_ms: int) -> ControlResponse:
        """Never called: the listeners of a broker in KRaft mode do not offer these requests."""
        raise AssertionError(f"a broker in KRaft mode was told {type(request).__name__}")

    def shut_down(self, now_ms: int) -> None:
        """See BrokerSide."""
        self.lifecycle.shut_down(now_ms, controlled=self._config.controlled_shutdown)

    def _node(self, reply_ms: int) -> ControllerNode | None:
        leader = self.quorum.leader
        if leader is None:
            return None
        own = self._config
        config = channel_config(str(own.node_id), own.release, reply_ms, own.controller_access)
        return ControllerNode(leader.host, leader.port, config)

    def _report_directories(self, image: Image, now_ms: int) -> None:
        """A metadata.version that knows directories came after the registration (KIP-858)."""
        own = image.brokers.get(self._config.node_id)
        if (
            own is not None
            and own.epoch == self.broker_epoch
            and not own.log_dirs
            and self._directories
            and image.metadata_version.supports(Feature.DIRECTORIES)
        ):
            self.lifecycle.register_again(now_ms)

    def _check_features(self, image: Image, now_ms: int) -> None:
        """A level that this release does not support ends the broker (KIP-778)."""
        supported = supported_features(self._config.release)
        for name, level in image.features.items():
            low, high = supported.get(name, (0, 0))
            if not low <= level <= high:
                why = (
                    f"{name} {level} is finalised, but a broker of release "
                    f"{self._config.release} supports {low} to {high} (kraftbridge.release)"
                )
                self.lifecycle.unregister(why, now_ms)


def once(config: BrokerConfig) -> ChannelConfig:
    """The observer makes each connection once: the next one may be to another node."""
    made = channel_config(
        f"raft-client-{config.node_id}",
        config.release,
        config.quorum_request_timeout_ms,
        config.controller_access,
    )
    return ChannelConfig(
        client_id=made.client_id,
        connect_ms=config.quorum_request_timeout_ms,
        reply_ms=made.reply_ms,
        retry_ms=None,
        greeting=made.greeting,
        tls=made.tls,
    )


def life(config: BrokerConfig, identity: BrokerIdentity) -> LifeSettings:
    """What a broker in KRaft mode registers."""
    kind = m.BrokerRegistrationRequest.Listener
    return LifeSettings(
        broker_id=config.node_id,
        cluster_id=identity.cluster_id,
        incarnation_id=identity.incarnation_id,
        listeners=tuple(
            kind(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=SECURITY_PROTOCOLS[one.security_protocol],
            )
            for one in config.advertised
        ),
        features=supported_features(config.release),
        rack=config.rack,
        log_dirs=tuple(sorted(identity.log_dirs)),
        heartbeat_ms=config.heartbeat_interval_ms,
        session_ms=config.session_timeout_ms,
        registration_ms=config.registration_timeout_ms,
    )
