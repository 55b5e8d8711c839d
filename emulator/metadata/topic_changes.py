"""Replays runs of records about topics: one new image for many records, not one for each.

The records of a large creation follow each other, and each of them would copy the parts of three
maps that it changes.

Source: ReplicationControlManager.replay, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic, changed_partition, new_partition
from wire import records as r
from wire.text import uuid_text

OF_TOPICS: Final = (r.TopicRecord, r.PartitionRecord, r.PartitionChangeRecord)
"""The records that are replayed here."""


class TopicChanges:
    """Changes of topics on an image that is not made yet; :meth:`applied` makes it.

    After an error nothing of it may be used.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._topics: dict[bytes, Topic] = {}
        """New ones; their partitions are below."""
        self._ids: dict[str, bytes] = {}
        """Of the new ones, by name."""
        self._partitions: dict[bytes, dict[int, Partition]] = {}
        """New and changed ones, by topic id and number."""

    def replay(self, record: object) -> Topic:
        """Apply one record, of :data:`OF_TOPICS`; returns its topic.

        The partitions in the topic returned need not be the newest.

        Raises:
            ReplayError: the record does not fit.
        """
        match record:
            case r.PartitionRecord():
                topic = self._known(record.topic_id)
                self._put(topic, record.partition_id, new_partition(record))
            case r.PartitionChangeRecord():
                topic = self._known(record.topic_id)
                before = self._partition(topic, record.partition_id)
                self._put(topic, record.partition_id, changed_partition(before, record))
            case _:
                assert isinstance(record, r.TopicRecord)
                topic = self._new(record)
        return topic

    def applied(self, offset: int, epoch: int) -> Image:
        """The image with all changes; the last of them is at that offset, in that epoch."""
        image = self._image
        topics = dict(self._topics)
        for topic_id, changed in self._partitions.items():
            topic = topics.get(topic_id) or image.topics[topic_id]
            topics[topic_id] = Topic(topic.name, topic.id, topic.partitions.update(changed))
        return replace(
            image,
            topics=image.topics.update(topics),
            topic_ids=image.topic_ids.update(self._ids),
            offset=offset,
            epoch=epoch,
        )

    def _new(self, record: r.TopicRecord) -> Topic:
        name, topic_id, image = record.name, record.topic_id, self._image
        held = image.topic_ids.get(name) or self._ids.get(name)
        if held is not None:
            raise ReplayError(f"topic {name} exists with id {uuid_text(held)}")
        if topic_id in self._topics or topic_id in image.topics:
            raise ReplayError(f"topic id {uuid_text(topic_id)} exists under another name")
        topic = self._topics[topic_id] = Topic(name, topic_id)
        self._ids[name] = topic_id
        return topic

    def _known(self, topic_id: bytes) -> Topic:
        topic = self._topics.get(topic_id) or self._image.topics.get(topic_id)
        if topic is None:
            raise ReplayError(f"there is no topic with id {uuid_text(topic_id)}")
        return topic

    def _partition(self, topic: Topic, partition_id: int) -> Partition:
        changed = self._partitions.get(topic.id, _NONE)
        found = changed.get(partition_id) or topic.partitions.get(partition_id)
        if found is None:
            raise ReplayError(f"topic {topic.name} has no partition {partition_id}")
        return found

    def _put(self, topic: Topic, partition_id: int, partition: Partition) -> None:
        changed = self._partitions.get(topic.id)
        if changed is None:
            changed = self._partitions[topic.id] = {}
        changed[partition_id] = partition


_NONE: Final[dict[int, Partition]] = {}
