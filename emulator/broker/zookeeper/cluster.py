"""The cluster of a ZooKeeper-mode broker: what its controller sent, and what ZooKeeper holds.

Source: ZkMetadataCache, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from random import Random
from typing import Final

from typing_extensions import override

from emulator.broker.cluster import KnownCluster, KnownNode
from emulator.broker.zookeeper.metadata_cache import CachedTopic, ZkMetadataCache
from emulator.broker.zookeeper.mirror import TOPICS, ZooKeeperMirror
from emulator.broker.zookeeper.part import ZooKeeperPart
from emulator.config.passwords import PasswordSettings
from emulator.metadata import configs as config_types
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import LATEST
from emulator.metadata.snapshot import from_records
from emulator.znodes import configs
from emulator.znodes.entities import entities
from emulator.znodes.entity import Entities
from emulator.znodes.passwords import Passwords
from emulator.znodes.producer_id import ProducerIdBlock
from emulator.znodes.tree import Tree, ZnodeError
from wire import records as r
from wire.schema import ZERO_UUID

# What ZooKeeper holds beside topics, as an image: for the APIs that describe it.
#
# Of topics the image has the names and ids that the controller sent, with their configs. A znode
# that cannot be read is left out, with a warning.
#
# Source: the classes of ``emulator.znodes``, by which a migration copies the same znodes.

NO_OFFSET: Final = -1
"""The image is of no log."""


def image_of(
    mirror: ZooKeeperMirror, topics: Iterable[CachedTopic], entities: Entities
) -> tuple[Image, list[str]]:
    """Build the image; returns it with a sentence for each znode that was left out."""
    warnings: list[str] = []
    records = [*_topics(mirror, topics, warnings), *_others(mirror.tree, entities, warnings)]
    return from_records(records, NO_OFFSET, NO_OFFSET), warnings


def _topics(
    mirror: ZooKeeperMirror, topics: Iterable[CachedTopic], warnings: list[str]
) -> Iterator[object]:
    used = {ZERO_UUID}
    for topic in topics:
        # A controller without topic ids sends zeros, and a faulty one the same id twice: the
        # APIs ask for names, which are unique.
        topic_id = topic.id if topic.id not in used else sha256(topic.name.encode()).digest()[:16]
        used.add(topic_id)
        yield r.TopicRecord(name=topic.name, topic_id=topic_id)
        data = mirror.topic_configs.get(topic.name)
        if data is None:
            continue
        try:
            found = configs.parse(f"{TOPICS}/{topic.name}", data)
        except ZnodeError as error:
            warnings.append(str(error))
            continue
        for key, value in found.items():
            yield r.ConfigRecord(
                resource_type=config_types.TOPIC,
                resource_name=topic.name,
                name=key,
                value=value,
            )


def _others(tree: Tree, entities: Entities, warnings: list[str]) -> Iterator[object]:
    wanted = [one for one in entities if not isinstance(one, ProducerIdBlock)]
    whole = Tree()
    whole.lists, whole.nodes = tree.lists, dict(tree.nodes)
    for entity in wanted:
        for refusal in entity.refusals(tree, LATEST):
            if refusal is not None:
                warnings.append(f"{refusal.path}: {refusal.why}")
                whole.nodes.pop(refusal.path, None)
    for entity in wanted:
        try:
            for group in entity.records(whole, Image(NO_OFFSET, NO_OFFSET)):
                yield from group
        except ZnodeError as error:
            warnings.append(str(error))


class ZooKeeperCluster(KnownCluster):
    """A ``KnownCluster``.

    Args:
        cache: what the controller sent.
        zookeeper: what ZooKeeper holds.
        passwords: for encoded passwords in configs of brokers.
    """

    def __init__(
        self, cache: ZkMetadataCache, zookeeper: ZooKeeperPart, passwords: PasswordSettings
    ) -> None:
        self.cache = cache
        self.zookeeper = zookeeper
        self._entities = entities(Passwords(passwords))
        self._image = EMPTY
        self._versions = (0, 0)
        """Of the mirror and of the topics, from which the image was made."""

    @override
    def now(self) -> ZooKeeperCluster:
        return _Moment(self)

    @property
    @override
    def cluster_id(self) -> str:
        """Empty before it is known."""
        return self.zookeeper.znode.cluster_id or ""

    @property
    @override
    def image(self) -> Image:
        """Made when it is asked for and something has changed."""
        mirror = self.zookeeper.mirror
        versions = (mirror.version, self.cache.topics_version)
        if versions != self._versions:
            self._image, warnings = image_of(mirror, self.cache.topics(), self._entities)
            self._versions = versions
            self.zookeeper.warn(warnings)
        return self._image

    @override
    def topic(self, name: str) -> CachedTopic | None:
        return self.cache.topic(name)

    @override
    def topic_by_id(self, topic_id: bytes) -> CachedTopic | None:
        return self.cache.topic_by_id(topic_id)

    @override
    def topics(self) -> Iterable[CachedTopic]:
        return self.cache.topics()

    @override
    def registered(self, broker_id: int) -> bool:
        """Of brokers that do not live nothing is known."""
        return broker_id in self.cache.live

    @override
    def node(self, broker_id: int, listener: str) -> KnownNode | None:
        return self.cache.node(broker_id, listener)

    @override
    def online(self, broker_id: int, listener: str) -> bool:  # of the protocol
        """A live broker's replicas are online on every listener."""
        return broker_id in self.cache.live

    @override
    def alive(self, listener: str) -> list[KnownNode]:
        return self.cache.alive(listener)

    def controller_id(self, rng: Random) -> int:
        """See KnownCluster (A02)."""
        return self.cache.controller_id(rng)

    @override
    def features(self) -> tuple[int, Mapping[str, int]]:
        """Those of ``/feature``."""
        found = self.zookeeper.features
        return found.epoch, found.levels


class _Moment(ZooKeeperCluster, KnownCluster):
    """The cluster as it was. Its image is made when it is first asked for, which is at once."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        self.cache = cluster.cache.now()
        self.zookeeper = cluster.zookeeper
        self._cluster = cluster
        self._then: Image | None = None

    @property
    @override
    def image(self) -> Image:
        if self._then is None:
            self._then = self._cluster.image
        return self._then
