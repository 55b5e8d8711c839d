"""Indexes over the newest image, for look-ups that would otherwise visit every partition or topic.

Derived state only: ``TipIndex(image)`` builds it from an image, ``follow`` updates it after one
batch. It can always be rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeAlias

from emulator.controller.result import Record
from emulator.metadata.image import Image
from emulator.metadata.topics import NO_LEADER, Partition, Topic
from wire import records as r

PartitionKey = tuple[bytes, int]


def collision_key(name: str) -> str:
    """Topics whose names differ only in ``.`` and ``_`` share metric names and so collide.

    Source: Topic.unifyCollisionChars, Kafka 3.9.

    >>> collision_key("a.b") == collision_key("a_b")
    True
    """
    return name.replace(".", "_")


_BLOCK: Final = 1_024
"""Partition numbers in one integer of bits; a tree of ZooKeeper may hold any number."""


_Block: TypeAlias = bytes | tuple[bytes, int]


def _place(topic_id: bytes, number: int) -> tuple[_Block, int]:
    """The block that has a partition, and its bit there."""
    if number < _BLOCK:
        return topic_id, 1 << number
    block, bit = divmod(number, _BLOCK)
    return (topic_id, block), 1 << bit


class PartitionSet:
    """Partitions as bits by topic: a few bytes each, where a set of keys takes a hundred."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: dict[_Block, int] = {}
        """Bits of the first block by topic id, of further ones by topic id and block."""

    def add(self, topic_id: bytes, number: int) -> None:
        """Add a partition; nothing changes if it is there."""
        self.put(*_place(topic_id, number))

    def put(self, key: _Block, bit: int) -> None:
        """As :meth:`add`; one that is in several sets is looked for once."""
        self._bits[key] = self._bits.get(key, 0) | bit

    def remove(self, topic_id: bytes, number: int) -> None:
        """Remove a partition that is there.

        Raises:
            KeyError: it is not.
        """
        key, bit = _place(topic_id, number)
        left = self._bits[key] & ~bit
        if left:
            self._bits[key] = left
        else:
            del self._bits[key]

    def remove_all(self, keys: Iterable[_Block]) -> None:
        """Remove all partitions in these blocks, as far as they are there."""
        for key in keys:
            self._bits.pop(key, None)

    def __iter__(self) -> Iterator[PartitionKey]:
        """Those there now; of a topic by number within each block."""
        for key, bits in tuple(self._bits.items()):
            topic_id, block = key if isinstance(key, tuple) else (key, 0)
            first = block * _BLOCK
            for number in range(bits.bit_length()):
                if bits >> number & 1:
                    yield topic_id, first + number


class TipIndex:
    """Partitions by broker in ISR and by pending work, topic names by collision key.

    Source: BrokersToIsrs; imbalancedPartitions, reassigningTopics and topicsWithCollisionChars of
    ReplicationControlManager, Kafka 3.9.
    """

    def __init__(self, image: Image) -> None:
        self._in_isr: dict[int, PartitionSet] = {}
        self._leads: dict[int, int] = {}
        self._leaderless: dict[PartitionKey, None] = {}
        self._imbalanced: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}
        self._names: dict[str, dict[str, None]] = {}
        for topic_id, topic in image.topics.items():
            self._names.setdefault(collision_key(topic.name), {})[topic.name] = None
            for partition_id, partition in topic.partitions.items():
                self._add(topic_id, partition_id, partition)

    def follow(self, before: Image, after: Image, records: Iterable[Record]) -> None:
        """Update the index for one batch of records that changed ``before`` to ``after``."""
        partitions: dict[bytes, dict[int, None]] = {}
        names: dict[str, None] = {}
        removed: dict[bytes, Topic] = {}
        for record in records:
            match record:
                case r.PartitionRecord() | r.PartitionChangeRecord():
                    partitions.setdefault(record.topic_id, {})[record.partition_id] = None
                case r.TopicRecord():
                    names[record.name] = None
                case r.RemoveTopicRecord() if record.topic_id in before.topics:
                    topic = before.topics[record.topic_id]
                    names[topic.name] = None
                    removed[topic.id] = topic
                case _:
                    pass
        for name in names:
            self._name(name, exists=name in after.topic_ids)
        for topic in removed.values():
            self._remove(topic)
        for topic_id, numbers in partitions.items():
            old = None if topic_id in removed else before.topics.get(topic_id)
            new = after.topics.get(topic_id)
            for number in numbers:
                if old is not None:
                    self._drop(old, number)
                if new is not None and (partition := new.partitions.get(number)) is not None:
                    self._add(new.id, number, partition)

    def in_isr(self, broker_id: int) -> Iterator[PartitionKey]:
        """Every partition whose ISR holds the broker; those of a topic by number."""
        return iter(self._in_isr.get(broker_id, _NONE))

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

    def _add(self, topic_id: bytes, number: int, partition: Partition) -> None:
        block, bit = _place(topic_id, number)
        for broker_id in partition.isr:
            held = self._in_isr.get(broker_id)
            if held is None:
                held = self._in_isr[broker_id] = PartitionSet()
            held.put(block, bit)
        if partition.leader not in partition.replicas[:1]:
            self._imbalanced[topic_id, number] = None
        if partition.adding_replicas or partition.removing_replicas:
            self._reassigning[topic_id, number] = None
        if partition.leader == NO_LEADER:
            self._leaderless[topic_id, number] = None
        else:
            self._leads[partition.leader] = self._leads.get(partition.leader, 0) + 1

    def _drop(self, topic: Topic, number: int) -> None:
        partition = topic.partitions.get(number)
        if partition is None:
            return
        for broker_id in partition.isr:
            self._in_isr[broker_id].remove(topic.id, number)
        self._forget(topic.id, number, partition)

    def _remove(self, topic: Topic) -> None:
        """As :meth:`_drop` for all partitions of a topic."""
        blocks: set[_Block] = set()
        members: set[int] = set()
        for number, partition in topic.partitions.items():
            blocks.add(_place(topic.id, number)[0])
            members.update(partition.isr)
            self._forget(topic.id, number, partition)
        for broker_id in sorted(members):
            self._in_isr[broker_id].remove_all(blocks)

    def _forget(self, topic_id: bytes, number: int, partition: Partition) -> None:
        """Undo :meth:`_add`, the ISR apart."""
        if partition.leader not in partition.replicas[:1]:
            del self._imbalanced[topic_id, number]
        if partition.adding_replicas or partition.removing_replicas:
            del self._reassigning[topic_id, number]
        if partition.leader == NO_LEADER:
            del self._leaderless[topic_id, number]
        else:
            self._leads[partition.leader] -= 1


_NONE: Final = PartitionSet()
