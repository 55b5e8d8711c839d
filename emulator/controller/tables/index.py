"""Indexes over the newest image, for look-ups that would otherwise visit every partition or topic.

Derived state only: ``TipIndex.of(image)`` builds it from an image in slices, ``apply`` updates it
after one batch. It can always be rebuilt. What a batch changes is found in slices, too, and then
applied at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from emulator.controller.result import Record
from emulator.controller.tables.partition_set import Block, PartitionKey, PartitionSet, place
from emulator.metadata.client_quotas import ClientQuotas, Entity, EntityPart
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.topics import NO_LEADER, Partition, Topic
from emulator.seam import RECORDS_PER_SLICE, Kept, Pace, Same, Slices, whole
from wire import records as r

# Client quotas found by what a filter names, as there may be 100,000 entities.
#
# Kept until a quota changes, and made in slices.

Key: TypeAlias = EntityPart | str
"""A part of an entity, or the type of one."""


class QuotaIndex:
    """The entities of one image, by their parts and by the types of these."""

    def __init__(self, by_key: dict[Key, list[Entity]]) -> None:
        self._by_key = by_key

    @classmethod
    def of(cls, quotas: ClientQuotas) -> Slices[QuotaIndex]:
        """The one of the last request, as long as no quota has changed."""
        return (yield from _KEPT.made(Same(quotas), lambda: cls._made(quotas)))

    @classmethod
    def _made(cls, quotas: ClientQuotas) -> Slices[QuotaIndex]:
        by_key: dict[Key, list[Entity]] = {}
        pace = Pace(RECORDS_PER_SLICE)
        for entity in quotas:
            if pace.over():
                yield
            for part in entity:
                by_key.setdefault(part, []).append(entity)
                by_key.setdefault(part.type, []).append(entity)
        return cls(by_key)

    def with_all(self, keys: Iterable[Key]) -> Sequence[Entity]:
        """At least the entities that have all of these, ascending: those of the rarest."""
        return min((self._by_key.get(key, ()) for key in keys), key=len)


_KEPT: Final = Kept[QuotaIndex]()


# What one batch changes in the index over the newest image, collected in slices.
#
# New partitions and removed topics, of which one request may have thousands, are collected by
# broker. To apply them then takes a few operations for each block of partitions, and readers never
# see a part.

IMBALANCED: Final = 0
REASSIGNING: Final = 1
LEADERLESS: Final = 2
"""What partitions may need; the place of its look-up among those of the index."""
Need: TypeAlias = tuple[int, PartitionKey]


def collision_key(name: str) -> str:
    """Topics whose names differ only in ``.`` and ``_`` share metric names and so collide.

    Source: Topic.unifyCollisionChars, Kafka 3.9.

    >>> collision_key("a.b") == collision_key("a_b")
    True
    """
    return name.replace(".", "_")


class IndexChange:
    """Applied in the order of its fields.

    ``names``: collision keys and names of topics that were created or removed, and whether they
    exist now. ``removed``: broker
    id -> blocks of partitions of removed topics. ``gone``, ``come``: what partitions needed and
    need. ``left``, ``added``: broker id -> bits of partitions whose ISR it left and joined, by
    block. ``leads``: broker id -> how many more partitions it leads.
    """

    __slots__ = ("added", "come", "gone", "leads", "left", "names", "removed")

    def __init__(self) -> None:
        self.names: list[tuple[str, str, bool]] = []
        self.removed: dict[int, dict[Block, None]] = {}
        self.gone: list[Need] = []
        self.come: list[Need] = []
        self.left: dict[int, dict[Block, int]] = {}
        self.added: dict[int, dict[Block, int]] = {}
        self.leads: dict[int, int] = {}

    def remove(self, topic_id: bytes, number: int, partition: Partition) -> None:
        """One partition of a topic that is removed whole."""
        block, _ = place(topic_id, number)
        for broker_id in partition.isr:
            blocks = self.removed.get(broker_id)
            if blocks is None:
                blocks = self.removed[broker_id] = {}
            blocks[block] = None
        _need(self.gone, topic_id, number, partition)
        self._lead(partition.leader, -1)

    def add(self, topic_id: bytes, number: int, partition: Partition) -> None:
        """One partition that is new."""
        self.add_alike(*place(topic_id, number), 1, partition)
        _need(self.come, topic_id, number, partition)

    def add_alike(self, block: Block, bits: int, count: int, partition: Partition) -> None:
        """So many new partitions of a block that are alike; what they need comes besides."""
        _put(self.added, partition.isr, block, bits)
        self._lead(partition.leader, count)

    def alter(self, topic_id: bytes, number: int, old: Partition, new: Partition) -> None:
        """One partition that was there before."""
        if new.isr != old.isr:
            where = place(topic_id, number)
            _put(self.left, [one for one in old.isr if one not in new.isr], *where)
            _put(self.added, [one for one in new.isr if one not in old.isr], *where)
        _need(self.gone, topic_id, number, old)
        _need(self.come, topic_id, number, new)
        if new.leader != old.leader:
            self._lead(old.leader, -1)
            self._lead(new.leader, 1)

    def _lead(self, broker_id: int, more: int) -> None:
        if broker_id != NO_LEADER:
            self.leads[broker_id] = self.leads.get(broker_id, 0) + more


def index_change(before: Image, after: Image, records: Sequence[Record]) -> Slices[IndexChange]:
    """What records that changed ``before`` to ``after`` change in the index."""
    change = IndexChange()
    partitions: dict[bytes, dict[int, None]] = {}
    names: dict[str, None] = {}
    removed: dict[bytes, Topic] = {}
    for count, record in enumerate(records, 1):
        if count % RECORDS_PER_SLICE == 0:
            yield
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
    change.names += [(collision_key(name), name, name in after.topic_ids) for name in names]
    yield from _removed(change, removed.values())
    count = 0
    for topic_id, numbers in partitions.items():
        new = after.topics.get(topic_id)
        if new is None:
            continue
        old = None if topic_id in removed else before.topics.get(topic_id)
        if old is None and len(numbers) > 1:
            if count + len(numbers) > RECORDS_PER_SLICE:
                count = 0
                yield
            yield from _created(change, new)
            count += len(numbers)
            continue
        for number in numbers:
            if count >= RECORDS_PER_SLICE:
                count = 0
                yield
            _compare(change, old, new, number)
            count += 1
    return change


def _removed(change: IndexChange, topics: Iterable[Topic]) -> Slices[None]:
    count = 0
    for topic in topics:
        for number, partition in topic.partitions.items():
            change.remove(topic.id, number, partition)
            count += 1
            if count % RECORDS_PER_SLICE == 0:
                yield


def _created(change: IndexChange, topic: Topic) -> Slices[None]:
    """All partitions of a topic that is new; most are one object, and are put in together."""
    alike: Partition | None = None
    block: Block = topic.id
    bits = count = 0
    needs = False
    for seen, (number, partition) in enumerate(topic.partitions.items(), 1):
        if seen % RECORDS_PER_SLICE == 0:
            yield
        at, bit = place(topic.id, number)
        if partition is not alike or at != block:
            if alike is not None:
                change.add_alike(block, bits, count, alike)
            alike, block, bits, count = partition, at, 0, 0
            needs = _needs(partition)
        bits, count = bits | bit, count + 1
        if needs:
            _need(change.come, topic.id, number, partition)
    if alike is not None:
        change.add_alike(block, bits, count, alike)


def _compare(change: IndexChange, old: Topic | None, new: Topic, number: int) -> None:
    partition = new.partitions.get(number)
    was = None if old is None else old.partitions.get(number)
    if partition is None:
        return
    if was is None:
        change.add(new.id, number, partition)
    elif was is not partition:
        change.alter(new.id, number, was, partition)


def _needs(partition: Partition) -> bool:
    """Whether a partition needs anything."""
    found: list[Need] = []
    _need(found, b"", 0, partition)
    return bool(found)


def _need(needs: list[Need], topic_id: bytes, number: int, partition: Partition) -> None:
    if partition.leader not in partition.replicas[:1]:
        needs.append((IMBALANCED, (topic_id, number)))
    if partition.adding_replicas or partition.removing_replicas:
        needs.append((REASSIGNING, (topic_id, number)))
    if partition.leader == NO_LEADER:
        needs.append((LEADERLESS, (topic_id, number)))


def _put(
    bits_of: dict[int, dict[Block, int]], broker_ids: Sequence[int], block: Block, bit: int
) -> None:
    for broker_id in broker_ids:
        bits = bits_of.get(broker_id)
        if bits is None:
            bits = bits_of[broker_id] = {}
        bits[block] = bits.get(block, 0) | bit


class TipIndex:
    """Partitions by broker in ISR and by pending work, topic names by collision key.

    Source: BrokersToIsrs; imbalancedPartitions, reassigningTopics and topicsWithCollisionChars of
    ReplicationControlManager, Kafka 3.9.
    """

    def __init__(self, image: Image = EMPTY) -> None:
        self._in_isr: dict[int, PartitionSet] = {}
        self._leads: dict[int, int] = {}
        self._leaderless: dict[PartitionKey, None] = {}
        self._imbalanced: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}
        # At IMBALANCED, REASSIGNING and LEADERLESS.
        self._needs = (self._imbalanced, self._reassigning, self._leaderless)
        self.unled: Collection[PartitionKey] = self._leaderless.keys()
        """Every partition without a leader, as a live view."""
        self.imbalanced: Collection[PartitionKey] = self._imbalanced.keys()
        """Every partition whose leader is not its preferred replica, as a live view."""
        self.reassigning: Collection[PartitionKey] = self._reassigning.keys()
        """Every partition with replicas being added or removed, as a live view."""
        self._names: dict[str, dict[str, None]] = {}
        if image.topics:
            whole(self._add(image))

    @classmethod
    def of(cls, image: Image) -> Slices[TipIndex]:
        """The index of an image, in slices."""
        index = cls()
        yield from index._add(image)
        return index

    def _add(self, image: Image) -> Slices[None]:
        pace = Pace(RECORDS_PER_SLICE)
        for topic in image.topics.values():
            change = IndexChange()
            change.names.append((collision_key(topic.name), topic.name, True))
            yield from _created(change, topic)
            self.apply(change)
            if pace.over(len(topic.partitions) or 1):
                yield

    def apply(self, change: IndexChange) -> None:
        """Make the changes that ``index_change`` found for one batch."""
        for alike, name, exists in change.names:
            names = self._names.setdefault(alike, {})
            if exists:
                names[name] = None
            else:
                names.pop(name, None)
            if not names:
                del self._names[alike]
        for broker_id, blocks in change.removed.items():
            self._in_isr[broker_id].remove_all(blocks)
        for need, key in change.gone:
            del self._needs[need][key]
        for need, key in change.come:
            self._needs[need][key] = None
        for broker_id, bits in change.left.items():
            for block, numbers in bits.items():
                self._in_isr[broker_id].cut(block, numbers)
        for broker_id, bits in change.added.items():
            held = self._in_isr.setdefault(broker_id, PartitionSet())
            for block, numbers in bits.items():
                held.put(block, numbers)
        for broker_id, more in change.leads.items():
            self._leads[broker_id] = self._leads.get(broker_id, 0) + more

    def in_isr(self, broker_id: int) -> Iterator[PartitionKey]:
        """Every partition whose ISR holds the broker; those of a topic by number."""
        return iter(self._in_isr.get(broker_id, _NONE))

    def leads(self, broker_id: int) -> bool:
        """Whether the broker leads at least one partition."""
        return self._leads.get(broker_id, 0) > 0

    def leaderless(self) -> Iterator[PartitionKey]:
        """Every partition without a leader."""
        yield from tuple(self._leaderless)

    def colliding(self, name: str) -> str | None:
        """An existing topic, other than ``name`` itself, whose name collides with it."""
        names = self._names.get(collision_key(name), ())
        return next((other for other in names if other != name), None)


_NONE: Final = PartitionSet()
