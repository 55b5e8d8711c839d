"""The metadata of a ZooKeeper-mode broker: the content of UpdateMetadata requests.

Every request replaces the controller and all live brokers; it names only the partitions that
changed. A request of type FULL, which only a KRaft controller sends, names all topics.

Source: ZkMetadataCache.updateMetadata, Kafka 3.9. Kafka drops whole topics that a FULL request
leaves out, and never single partitions of a topic; so does this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from random import Random
from weakref import ref

from emulator.broker.cluster import NO_CONTROLLER, KnownNode
from emulator.broker.zookeeper.shared_control import SharedControl
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


@dataclass(frozen=True, slots=True)
class CachedTopic:
    """A topic; ``id`` is zeros if the controller gave none. ``partitions`` ascend.

    Never changed: brokers of one process that got the same hold the same object.
    """

    name: str
    id: bytes = ZERO_UUID
    partitions: Mapping[int, CachedPartition] = field(default_factory=dict)


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
    """The sender of the newest UpdateMetadata. ``kraft``: a KRaft controller."""

    id: int
    kraft: bool


@dataclass(slots=True, eq=False)
class UpdatedTopic:
    """A topic in one UpdateMetadata; a partition that is being deleted is None."""

    name: str
    id: bytes
    partitions: Mapping[int, CachedPartition | None]
    _last: tuple[CachedTopic | None, CachedTopic | None] | None = None

    def after(self, known: CachedTopic | None) -> CachedTopic | None:
        """What the topic then is, None if it has no partition; made once for all that knew it so.

        Args:
            known: what it was before; None: unknown.
        """
        if self._last is None or self._last[0] is not known:
            self._last = (known, self._made(known))
        return self._last[1]

    def _made(self, known: CachedTopic | None) -> CachedTopic | None:
        partitions: dict[int, CachedPartition] = {} if known is None else {**known.partitions}
        ascending = True
        for index, partition in self.partitions.items():
            if partition is None:
                partitions.pop(index, None)
                continue
            if index not in partitions and index < next(reversed(partitions), -1):
                ascending = False
            partitions[index] = partition
        if not ascending:
            partitions = dict(sorted(partitions.items()))
        return CachedTopic(self.name, self.id, partitions) if partitions else None


@dataclass(frozen=True, slots=True, eq=False)
class UpdateMetadataContent:
    """The content of one UpdateMetadata, without its epochs and its controller."""

    live: Mapping[int, CachedBroker]
    topics: tuple[UpdatedTopic, ...]


def update_metadata_content(request: m.UpdateMetadataRequest) -> UpdateMetadataContent:
    """Read a request; brokers that get the same one may share the result."""
    return UpdateMetadataContent(
        {
            one.id: CachedBroker(one.id, tuple(_endpoints(one)), one.rack or None)
            for one in request.live_brokers
        },
        tuple(
            UpdatedTopic(
                topic.topic_name,
                topic.topic_id,
                {p.partition_index: _partition(p) for p in topic.partition_states},
            )
            for topic in request.topic_states
        ),
    )


class ZkMetadataCache:
    """See the module's docstring; the part of ``KnownCluster`` that comes from the controller.

    Args:
        full_replaces: whether type FULL is understood: releases from 3.6 on, in a migration.
        shared: the requests to other brokers of the process, and the objects made of them.
    """

    def __init__(self, *, full_replaces: bool, shared: SharedControl | None = None) -> None:
        self.controller: CachedController | None = None
        self.live: Mapping[int, CachedBroker] = {}
        self._full_replaces = full_replaces
        self._shared = shared
        self.topics_version = 0
        """Raised whenever a topic came, went, or got another id."""
        self._gone: list[str] = []
        self._new: list[str] = []
        self._topics: dict[str, CachedTopic] = {}
        self._names: dict[bytes, str] = {}
        self._moment: ref[ZkMetadataCache] | None = None

    def now(self) -> ZkMetadataCache:
        """The same, as it is at this moment; later requests do not change it."""
        moment = None if self._moment is None else self._moment()
        if moment is None:
            moment = copy(self)
            self._moment = ref(moment)
        return moment

    # ---------------------------------------------------------------- requests
    def update(self, request: m.UpdateMetadataRequest, *, full: bool) -> None:
        """Take a request that passed the checks of epochs; ``full``: its type is FULL."""
        if self._moment is not None and self._moment() is not None:
            # Answers are still being made from these.
            self._topics, self._names = {**self._topics}, {**self._names}
        self._moment = None
        self.controller = None
        if request.controller_id >= 0:
            self.controller = CachedController(request.controller_id, request.is_kraft_controller)
        shared = self._shared
        content = (
            update_metadata_content(request)
            if shared is None
            else shared.made_of(request, update_metadata_content)
        )
        self.live = content.live
        if full and request.is_kraft_controller and self._full_replaces:
            named = {topic.id for topic in content.topics}
            for name in [one.name for one in self._topics.values() if one.id not in named]:
                self._drop(name)
        for topic in content.topics:
            self._take(topic)

    def _take(self, topic: UpdatedTopic) -> None:
        name = topic.name
        known = self._topics.get(name)
        after = topic.after(known)
        if known is None:
            self.topics_version += 1
            self._new.append(name)
        self._identify(name, ZERO_UUID if known is None else known.id, topic.id)
        if after is not None:
            self._topics[name] = after
            return
        self._topics.pop(name, None)
        self._forget(name, topic.id)

    def _identify(self, name: str, before: bytes, topic_id: bytes) -> None:
        if before == topic_id:
            return
        self._names.pop(before, None)
        self.topics_version += 1
        if topic_id != ZERO_UUID:
            self._names[topic_id] = name

    def _drop(self, name: str) -> None:
        self._forget(name, self._topics.pop(name).id)

    def _forget(self, name: str, topic_id: bytes) -> None:
        self.topics_version += 1
        self._gone.append(name)
        self._names.pop(topic_id, None)

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
        """All topics of this moment."""
        return [*self._topics.values()]

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


def _partition(p: m.UpdateMetadataRequest.UpdateMetadataPartitionState) -> CachedPartition | None:
    if p.leader == DURING_DELETE:
        return None
    return CachedPartition(
        p.leader,
        p.leader_epoch,
        tuple(p.isr),
        tuple(p.replicas),
        tuple(p.offline_replicas),
        p.zk_version,
    )
