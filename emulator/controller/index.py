"""Indexes over the newest image, for look-ups that would otherwise visit every partition or topic.

Derived state only: ``TipIndex(image)`` builds it from an image, ``follow`` updates it after one
batch. It can always be rebuilt. What a batch changes is found in slices (``index_change.py``) and
then applied at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from emulator.controller.index_change import IndexChange, collision_key
from emulator.controller.partition_set import PartitionKey, PartitionSet
from emulator.metadata.image import Image


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
        # At IMBALANCED, REASSIGNING and LEADERLESS.
        self._needs = (self._imbalanced, self._reassigning, self._leaderless)
        self._names: dict[str, dict[str, None]] = {}
        for topic_id, topic in image.topics.items():
            self._names.setdefault(collision_key(topic.name), {})[topic.name] = None
            change = IndexChange()
            for partition_id, partition in topic.partitions.items():
                change.add(topic_id, partition_id, partition)
            self.apply(change)

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


_NONE: Final = PartitionSet()
