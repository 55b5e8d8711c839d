"""The cluster of a ZooKeeper-mode broker: what its controller sent, and what ZooKeeper holds.

Source: ZkMetadataCache, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from typing_extensions import override

from emulator.broker.cluster import KnownCluster, KnownNode
from emulator.broker.zk_metadata_cache import CachedTopic, ZkMetadataCache
from emulator.broker.zookeeper_image import image_of
from emulator.broker.zookeeper_part import ZooKeeperPart
from emulator.config.passwords import PasswordSettings
from emulator.metadata.image import EMPTY, Image
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords


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
