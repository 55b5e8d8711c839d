"""Writes of topics between two images, for what records touched.

Source: KIP-866 "Dual Metadata Writes"; KRaftMigrationZkWriter.handleTopicsDelta, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from emulator.migration.entity_plan import MANY, PAUSE, Piece
from emulator.migration.zk_tree import configs, topics
from emulator.migration.zk_tree.projection import topic_config
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

PARTITIONS_PER_PIECE: Final = 25
TOPICS_PER_PIECE: Final = 10
"""Topics that existed before, in a piece of a delta: looking at one takes as long as an operation.
"""


def topic_changes(
    before: Image, after: Image, touched: Touched, controller_epoch: int
) -> Iterator[Piece]:
    """Writes of topics that carry a tree from one image to a later one, for what records touched.

    Args:
        before: the image that the tree holds.
        after: the image that it shall hold.
        touched: everything the records between the two name.
        controller_epoch: KRaft leader epoch, written into partition states.

    Yields:
        Pieces of about 50 znodes, possibly empty: topics by name.
    """
    indexes: dict[bytes, set[int]] = {}
    for topic_id, index in touched.partitions:
        indexes.setdefault(topic_id, set()).add(index)
    if len(touched.partitions) > MANY:
        yield PAUSE
    configured = {name for kind, name in touched.configs if kind == TOPIC}
    piece: Piece = []
    looked = 0
    for name in sorted({*touched.topics.values(), *configured}):
        old, new = before.topic(name), after.topic(name)
        if old is not None and new is not None and old.id == new.id:
            some = sorted(indexes.get(new.id, ()))
            piece += _changed_head(before, after, old, new, some, config=name in configured)
            looked += 1
            if len(new.partitions) > MANY:
                yield piece
                yield PAUSE
                piece = []
            for index in some:
                piece += _changed_partition(old, new, index, controller_epoch)
                if len(piece) >= 2 * PARTITIONS_PER_PIECE:
                    yield piece
                    piece = []
            if looked >= TOPICS_PER_PIECE:
                yield piece
                piece, looked = [], 0
        else:
            yield piece
            piece, looked = [], 0
            if old is not None:
                yield from _deleted(old)
            if new is not None:
                yield from created(after, new, controller_epoch)
    yield piece


def _changed_head(
    before: Image, after: Image, old: Topic, new: Topic, indexes: Sequence[int], *, config: bool
) -> Piece:
    """Set the topic and its config, if they changed; both topics have the same id."""
    ops: list[ZkOp] = []
    if not all(_assigned_alike(old, new, index) for index in indexes):
        ops.append(SetData(topics.topic_path(new.name), topics.topic_data(new)))
    if config and before.config(TOPIC, new.name) != after.config(TOPIC, new.name):
        ops.append(SetData(configs.topic_config_path(new.name), topic_config(after, new.name)))
    return with_notifications(ops)


def _changed_partition(old: Topic, new: Topic, index: int, controller_epoch: int) -> Piece:
    """Set the state of a partition if it changed, make a new one; none is ever removed."""
    have, want = old.partitions.get(index), new.partitions.get(index)
    if want is None or (have is not None and topics.same_partition_state(have, want)):
        return []
    path = topics.partition_path(new.name, index)
    data = topics.state_data(want, controller_epoch)
    if have is not None:
        return [(SetData(f"{path}/state", data),)]
    return [(Create(path, None),), (Create(f"{path}/state", data),)]


def _assigned_alike(old: Topic, new: Topic, index: int) -> bool:
    one, other = old.partitions.get(index), new.partitions.get(index)
    return one is not None and other is not None and topics.same_assignment(one, other)


def created(image: Image, topic: Topic, controller_epoch: int) -> Iterator[Piece]:
    """Create a topic of which nothing exists: parents before children, partitions by number.

    The same operations as :func:`plan` would find from nothing, without comparing.
    """
    name, folder = topic.name, topics.partitions_path(topic.name)
    config = Create(configs.topic_config_path(name), topic_config(image, name))
    piece: Piece = [
        (Create(topics.topic_path(name), topics.topic_data(topic)),),
        (Create(folder, None),),
        *with_notifications([config]),
    ]
    if len(topic.partitions) > MANY:
        yield piece
        yield PAUSE
        piece = []
    for index, partition in topic.partitions.items():
        path = f"{folder}/{index}"
        piece.append((Create(path, None),))
        piece.append((Create(f"{path}/state", topics.state_data(partition, controller_epoch)),))
        if len(piece) >= 2 * PARTITIONS_PER_PIECE:
            yield piece
            piece = []
    yield piece


def _deleted(topic: Topic) -> Iterator[Piece]:
    """Delete a topic of an image: partitions by number, children before parents."""
    folder = topics.partitions_path(topic.name)
    piece: Piece = []
    for index in topic.partitions:
        path = f"{folder}/{index}"
        piece.append((Delete(f"{path}/state"),))
        piece.append((Delete(path),))
        if len(piece) >= 2 * PARTITIONS_PER_PIECE:
            yield piece
            piece = []
    head = (configs.topic_config_path(topic.name), folder, topics.topic_path(topic.name))
    piece += [(Delete(path),) for path in head]
    yield piece


def with_notifications(ops: list[ZkOp]) -> Piece:
    """Put the notification of a config change after the change, in the same multi."""
    return [(op, configs.notification(op.path)) if _notifies(op) else (op,) for op in ops]


def _notifies(op: ZkOp) -> bool:
    if not op.path.startswith(configs.TOPICS + "/"):
        return False
    if isinstance(op, Create):
        return not configs.is_empty(op.path, op.data)
    return isinstance(op, SetData)
