"""What a broker knows of its cluster: the data behind all answers that it gives itself.

A broker in KRaft mode knows the image of the metadata log, one in ZooKeeper mode what the
controller sent. Both are one protocol here, so an API is written once.

Source: MetadataCache, KRaftMetadataCache, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from typing_extensions import override

from emulator.metadata.brokers import Broker
from emulator.metadata.image import EMPTY, Image

NO_CONTROLLER = -1


class KnownNode(NamedTuple):
    """Where a broker is reached on one listener."""

    id: int
    host: str
    port: int
    rack: str | None


class KnownPartition(Protocol):
    """A partition; -1 is no leader."""

    @property
    def leader(self) -> int:
        """Id of the leader."""

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader."""

    @property
    def isr(self) -> Sequence[int]:
        """In-sync replicas."""

    @property
    def replicas(self) -> Sequence[int]:
        """All replicas, the preferred leader first."""


class KnownTopic(Protocol):
    """A topic."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def id(self) -> bytes:
        """Its id, 16 bytes; zeros if it has none."""

    @property
    def partitions(self) -> Mapping[int, KnownPartition]:
        """By number, ascending."""


class KnownCluster(Protocol):
    """What a broker knows of its cluster, read-only; the same in both modes."""

    def now(self) -> KnownCluster:
        """The same, as it is at this moment, for all slices of one answer."""

    @property
    def cluster_id(self) -> str:
        """Id of the cluster, base64url."""

    @property
    def image(self) -> Image:
        """Configs, ACLs, quotas, credentials and tokens, and the names of topics."""

    def topic(self, name: str) -> KnownTopic | None:
        """The topic of that name."""

    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        """The topic of that id."""

    def topics(self) -> Iterable[KnownTopic]:
        """All topics of this moment, which may be gone through while the cluster changes."""

    def registered(self, broker_id: int) -> bool:
        """Whether the broker is part of the cluster, alive or not."""

    def node(self, broker_id: int, listener: str) -> KnownNode | None:
        """A broker on a listener, if it is registered and has the listener."""

    def online(self, broker_id: int, listener: str) -> bool:
        """Whether the replicas of a broker count as online on a listener."""

    def alive(self, listener: str) -> list[KnownNode]:
        """All brokers that are alive and have the listener, by id."""

    def controller_id(self, rng: Random) -> int:
        """The id shown to clients as the controller; -1 if there is none."""

    def features(self) -> tuple[int, Mapping[str, int]]:
        """Epoch of the finalised features, -1 if there are none, and level by name."""


@dataclass(slots=True)
class ImageCluster(KnownCluster):
    """A broker's cluster in KRaft mode: the newest image that was published.

    Clients never learn the controller, which they cannot reach: a random broker is shown instead
    (KIP-590, A02).
    """

    cluster_id: str
    image: Image = EMPTY

    @override
    def now(self) -> KnownCluster:
        return ImageCluster(self.cluster_id, self.image)

    @override
    def topic(self, name: str) -> KnownTopic | None:
        return self.image.topic(name)

    @override
    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        return self.image.topics.get(topic_id)

    @override
    def topics(self) -> Iterable[KnownTopic]:
        return self.image.topics.values()

    @override
    def registered(self, broker_id: int) -> bool:
        return broker_id in self.image.brokers

    @override
    def node(self, broker_id: int, listener: str) -> KnownNode | None:
        """A fenced broker has an address too."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else _node(broker, listener)

    @override
    def online(self, broker_id: int, listener: str) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker.endpoint(listener) is not None

    @override
    def alive(self, listener: str) -> list[KnownNode]:
        return [
            node
            for broker in self.image.brokers.values()
            if not broker.fenced and (node := _node(broker, listener)) is not None
        ]

    @override
    def controller_id(self, rng: Random) -> int:
        alive = [broker.id for broker in self.image.brokers.values() if not broker.fenced]
        return rng.choice(alive) if alive else NO_CONTROLLER

    @override
    def features(self) -> tuple[int, Mapping[str, int]]:
        """The epoch is the offset of the image."""
        return self.image.offset, self.image.finalised_features


def _node(broker: Broker, listener: str) -> KnownNode | None:
    endpoint = broker.endpoint(listener)
    if endpoint is None:
        return None
    return KnownNode(broker.id, endpoint.host, endpoint.port, broker.rack)
