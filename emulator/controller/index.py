"""Indexes over the newest image, for look-ups that would otherwise visit every partition or topic.

Derived state only: ``TipIndex(image)`` builds it from an image, ``follow`` updates it after one
batch. It can always be rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from emulator.controller.result import Record
from emulator.metadata.image import Image
from emulator.metadata.topics import NO_LEADER, Partition
from wire import records as r

PartitionKey = tuple[bytes, int]


def collision_key(name: str) -> str:
    """Topics whose names differ only in ``.`` and ``_`` share metric names and so collide.

    Source: Topic.unifyCollisionChars, Kafka 3.9.

    >>> collision_key("a.b") == collision_key("a_b")
    True
    """
    return name.replace(".", "_")


class TipIndex:
    """Partitions by broker in ISR and by pending work, topic names by collision key.

    Source: BrokersToIsrs; imbalancedPartitions, reassigningTopics and topicsWithCollisionChars of
    ReplicationControlManager, Kafka 3.9.
    """

    def __init__(self, image: Image) -> None:
        self._in_isr: dict[int, dict[PartitionKey, None]] = {}
        self._leads: dict[int, int] = {}
        self._leaderless: dict[PartitionKey, None] = {}
        self._imbalanced: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}
        self._names: dict[str, dict[str, None]] = {}
        for topic_id, topic in image.topics.items():
            self._names.setdefault(collision_key(topic.name), {})[topic.name] = None
            for partition_id, partition in topic.partitions.items():
                self._add((topic_id, partition_id), partition)

    def follow(self, before: Image, after: Image, records: Iterable[Record]) -> None:
        """Update the index for one batch of records that changed ``before`` to ``after``."""
        partitions: dict[PartitionKey, None] = {}
        names: dict[str, None] = {}
        for record in records:
            match record:
                case r.PartitionRecord() | r.PartitionChangeRecord():
                    partitions[record.topic_id, record.partition_id] = None
                case r.TopicRecord():
                    names[record.name] = None
                case r.RemoveTopicRecord() if record.topic_id in before.topics:
                    topic = before.topics[record.topic_id]
                    names[topic.name] = None
                    for partition_id in topic.partitions:
                        partitions[topic.id, partition_id] = None
                case _:
                    pass
        for name in names:
            self._name(name, exists=name in after.topic_ids)
        for key in partitions:
            self._drop(key, before.partition(*key))
            self._add(key, after.partition(*key))

    def in_isr(self, broker_id: int) -> Iterator[PartitionKey]:
        """Every partition whose ISR holds the broker."""
        yield from tuple(self._in_isr.get(broker_id, ()))

    def leads(self, broker_id: int) -> bool:
        """Whether the broker leads at least one partition."""
        return self._leads.get(broker_id, 0) > 0

    def leaderless(self) -> Iterator[PartitionKey]:
        """Every partition without a leader."""
        yield from tuple(self._leaderless)

    @property
    def unled(self) -> Collection[PartitionKey]:
        """Every partition without a leader, as a live view."""
        return self._leaderless.keys()

    @property
    def imbalanced(self) -> Collection[PartitionKey]:
        """Every partition whose leader is not its preferred replica, as a live view."""
        return self._imbalanced.keys()

    @property
    def reassigning(self) -> Collection[PartitionKey]:
        """Every partition with replicas being added or removed, as a live view."""
        return self._reassigning.keys()

    def colliding(self, name: str) -> str | None:
        """An existing topic, other than ``name`` itself, whose name collides with it."""
        names = self._names.get(collision_key(name), ())
        return next((other for other in names if other != name), None)

    def _name(self, name: str, *, exists: bool) -> None:
        names = self._names.setdefault(collision_key(name), {})
        if exists:
            names[name] = None
        else:
            names.pop(name, None)
        if not names:
            del self._names[collision_key(name)]

    def _add(self, key: PartitionKey, partition: Partition | None) -> None:
        if partition is None:
            return
        for broker_id in partition.isr:
            self._in_isr.setdefault(broker_id, {})[key] = None
        if partition.leader not in partition.replicas[:1]:
            self._imbalanced[key] = None
        if partition.adding_replicas or partition.removing_replicas:
            self._reassigning[key] = None
        if partition.leader == NO_LEADER:
            self._leaderless[key] = None
        else:
            self._leads[partition.leader] = self._leads.get(partition.leader, 0) + 1

    def _drop(self, key: PartitionKey, partition: Partition | None) -> None:
        if partition is None:
            return
        for broker_id in partition.isr:
            self._in_isr.get(broker_id, {}).pop(key, None)
        self._imbalanced.pop(key, None)
        self._reassigning.pop(key, None)
        if partition.leader == NO_LEADER:
            self._leaderless.pop(key, None)
        else:
            self._leads[partition.leader] -= 1
