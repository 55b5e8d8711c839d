"""One life of a simulated broker by its mode: what it runs on, and what it knows there."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Protocol

from emulator.broker.alter_partition import IsrChangeCounts
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.kraft.side import KRaftSide
from emulator.broker.side import BrokerSide
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.config.broker import BrokerConfig
from emulator.net.control import ControlRequest, ControlResponse
from emulator.simulation.models import broker_settings
from emulator.simulation.models.network import Address, Network


class KnownByBroker(Protocol):
    """What a broker knows, in either mode."""

    @property
    def side(self) -> BrokerSide:
        """Its mode, for the machine."""

    @property
    def epoch(self) -> int:
        """The epoch of its registration with the quorum; -1 before it has one."""

    @property
    def leader(self) -> Address | None:
        """Where the quorum's leader is, as far as it knows."""

    @property
    def topics(self) -> Iterable[Any]:
        """What it would answer clients: each has ``id``, ``name`` and ``partitions``."""

    @property
    def live(self) -> frozenset[int]:
        """The brokers that it knows to be registered."""

    @property
    def replicas(self) -> HostedReplicas:
        """The partitions that it hosts."""

    @property
    def counts(self) -> IsrChangeCounts:
        """The changes of ISRs that were granted."""

    def take_control_requests(self) -> list[tuple[ControlRequest, ControlResponse]]:
        """Control requests since the last call, with its answers."""


class _RecordingSide(ZooKeeperSide):
    """The side of a broker in ZooKeeper mode; keeps the control requests that it gets."""

    seen: list[tuple[ControlRequest, ControlResponse]]

    def take_control_request(self, request: ControlRequest, now_ms: int) -> ControlResponse:
        """See BrokerSide."""
        response = super().take_control_request(request, now_ms)
        self.seen.append((request, response))
        return response


class KnownInZooKeeperMode:
    """See KnownByBroker."""

    def __init__(self, config: BrokerConfig, network: Network, rng: Random) -> None:
        identity = broker_settings.zookeeper_identity(config.node_id, rng.randbytes(16))
        self.side = _RecordingSide(config, identity, network.new_conn, rng)
        self.side.seen = []

    @property
    def epoch(self) -> int:
        """See KnownByBroker."""
        registration = self.side.registration
        return -1 if registration is None else registration.epoch

    @property
    def leader(self) -> Address | None:
        """See KnownByBroker: where it registers with the quorum."""
        registration = self.side.registration
        found = None if registration is None else registration.quorum.leader
        return None if found is None else (found.host, found.port)

    @property
    def topics(self) -> Iterable[Any]:
        """See KnownByBroker: from UpdateMetadata requests."""
        return self.side.cache.topics()

    @property
    def live(self) -> frozenset[int]:
        """See KnownByBroker: from UpdateMetadata requests."""
        return frozenset(self.side.cache.live)

    @property
    def replicas(self) -> HostedReplicas:
        """See KnownByBroker: from LeaderAndIsr requests."""
        return self.side.replicas

    @property
    def counts(self) -> IsrChangeCounts:
        """See KnownByBroker."""
        return self.side.alter_partition.counts

    def take_control_requests(self) -> list[tuple[ControlRequest, ControlResponse]]:
        """See KnownByBroker."""
        seen, self.side.seen = self.side.seen, []
        return seen


class KnownInKRaftMode:
    """See KnownByBroker; everything is from the metadata log."""

    def __init__(
        self, config: BrokerConfig, images: LogImages, network: Network, rng: Random
    ) -> None:
        identity = broker_settings.identity(config.node_id, rng.randbytes(16))
        self.side = KRaftSide(config, identity, images, network.new_conn, rng)

    @property
    def epoch(self) -> int:
        """See KnownByBroker."""
        return self.side.broker_epoch

    @property
    def leader(self) -> Address | None:
        """See KnownByBroker."""
        found = self.side.quorum.leader
        return None if found is None else (found.host, found.port)

    @property
    def topics(self) -> Iterable[Any]:
        """See KnownByBroker."""
        return self.side.cluster.image.topics.values()

    @property
    def live(self) -> frozenset[int]:
        """See KnownByBroker."""
        return frozenset(self.side.cluster.image.brokers)

    @property
    def replicas(self) -> HostedReplicas:
        """See KnownByBroker."""
        return self.side.hosting.replicas

    @property
    def counts(self) -> IsrChangeCounts:
        """See KnownByBroker."""
        return self.side.hosting.isrs.counts

    def take_control_requests(self) -> list[tuple[ControlRequest, ControlResponse]]:
        """See KnownByBroker: its listeners do not offer such requests."""
        return []
