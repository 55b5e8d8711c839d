"""The metadata of a ZooKeeper-mode broker: what UpdateMetadata requests have told it.

Every request replaces the controller and all live brokers; it names only the partitions that
changed. A request of type FULL, which only a KRaft controller sends, names all topics.

Source: ZkMetadataCache.updateMetadata, Kafka 3.9. Kafka drops whole topics that a FULL request
leaves out, and never single partitions of a topic; so does this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from emulator.broker.cluster import NO_CONTROLLER, KnownNode
from emulator.metadata.brokers import Endpoint
from wire import messages as m
from wire.schema import ZERO_UUID

DURING_DELETE = -2
"""The leader of a partition that is being deleted (LeaderAndIsr.LeaderDuringDelete)."""


@dataclass(frozen=True, slots=True)
class CachedPartition:
    """A partition as UpdateMetadata named it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int


@dataclass(slots=True)
class CachedTopic:
    """A topic; ``id`` is zeros if the controller gave none. ``partitions`` ascend."""

    name: str
    id: bytes = ZERO_UUID
    partitions: dict[int, CachedPartition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachedBroker:
    """A broker that the controller calls live."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None

    def node(self, listener: str) -> KnownNode | None:
        """Where it is reached on a listener."""
        for one in self.endpoints:
            if one.name == listener:
                return KnownNode(self.id, one.host, one.port, self.rack)
        return None


@dataclass(frozen=True, slots=True)
class CachedController:
    """Who sent the newest UpdateMetadata. ``kraft``: a KRaft controller."""

    id: int
    kraft: bool


class ZkMetadataCache:
    """See the module's docstring; the part of ``KnownCluster`` that comes from the controller.

    Args:
        full_replaces: whether type FULL is understood: releases from 3.6 on, in a migration.
    """

    def __init__(self, *, full_replaces: bool) -> None:
        self.controller: CachedController | None = None
        self.live: Mapping[int, CachedBroker] = {}
        self._full_replaces = full_replaces
        self.topics_version = 0
        """Raised whenever a topic came, went, or got another id."""
        self._gone: list[str] = []
        self._new: list[str] = []
        self._topics: dict[str, CachedTopic] = {}
        self._names: dict[bytes, str] = {}

    # ---------------------------------------------------------------- what it is told
    def update(self, request: m.UpdateMetadataRequest, *, full: bool) -> None:
        """Take a request that passed the checks of epochs; ``full``: its type is FULL."""
        self.controller = None
        if request.controller_id >= 0:
            self.controller = CachedController(request.controller_id, request.is_kraft_controller)
        self.live = {
            one.id: CachedBroker(one.id, tuple(_endpoints(one)), one.rack or None)
            for one in request.live_brokers
        }
        if full and request.is_kraft_controller and self._full_replaces:
            told = {topic.topic_id for topic in request.topic_states}
            for name in [one.name for one in self._topics.values() if one.id not in told]:
                self._drop(name)
        for topic in request.topic_states:
            self._take(topic)

    def _take(self, told: m.UpdateMetadataRequest.UpdateMetadataTopicState) -> None:
        known = self._topics.get(told.topic_name)
        if known is None:
            known = self._topics[told.topic_name] = CachedTopic(told.topic_name)
            self.topics_version += 1
            self._new.append(told.topic_name)
        self._identify(known, told.topic_id)
        ascending = True
        for p in told.partition_states:
            if p.leader == DURING_DELETE:
                known.partitions.pop(p.partition_index, None)
                continue
            last = next(reversed(known.partitions), -1)
            if p.partition_index not in known.partitions and p.partition_index < last:
                ascending = False
            known.partitions[p.partition_index] = CachedPartition(
                p.leader,
                p.leader_epoch,
                tuple(p.isr),
                tuple(p.replicas),
                tuple(p.offline_replicas),
                p.zk_version,
            )
        if not ascending:
            known.partitions = dict(sorted(known.partitions.items()))
        if not known.partitions:
            self._drop(told.topic_name)

    def _identify(self, topic: CachedTopic, topic_id: bytes) -> None:
        if topic.id == topic_id:
            return
        self._names.pop(topic.id, None)
        self.topics_version += 1
        topic.id = topic_id
        if topic_id != ZERO_UUID:
            self._names[topic_id] = topic.name

    def _drop(self, name: str) -> None:
        topic = self._topics.pop(name)
        self.topics_version += 1
        self._gone.append(name)
        self._names.pop(topic.id, None)

    def take_changes(self) -> tuple[list[str], list[str]]:
        """Names of the topics that went and of those that came since the last call."""
        changes = self._gone, self._new
        self._gone, self._new = [], []
        return changes

    # ---------------------------------------------------------------- what it knows
    def topic(self, name: str) -> CachedTopic | None:
        """The topic of that name."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> CachedTopic | None:
        """The topic of that id; the zero id is no topic's."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def topics(self) -> Iterable[CachedTopic]:
        """All topics."""
        return self._topics.values()

    def node(self, broker_id: int, listener: str) -> KnownNode | None:
        """Where a live broker is reached on a listener."""
        broker = self.live.get(broker_id)
        return None if broker is None else broker.node(listener)

    def alive(self, listener: str) -> list[KnownNode]:
        """All live brokers that have the listener, by id."""
        nodes = (self.live[broker_id].node(listener) for broker_id in sorted(self.live))
        return [node for node in nodes if node is not None]

    def controller_id(self, rng: Random) -> int:
        """The ZooKeeper controller while one rules, else a random live broker, else -1."""
        if self.controller is None:
            return NO_CONTROLLER
        if not self.controller.kraft:
            return self.controller.id
        return rng.choice(sorted(self.live)) if self.live else NO_CONTROLLER


def _endpoints(broker: m.UpdateMetadataRequest.UpdateMetadataBroker) -> Iterable[Endpoint]:
    for one in broker.endpoints:
        yield Endpoint(one.listener, one.host, one.port, one.security_protocol)
