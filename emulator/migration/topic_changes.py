"""Writes of topics between two images, for what records touched.

The version of a partition's state znode is the partition epoch of ZooKeeper mode. Brokers know the
epochs of the log, and after a rollback they refuse lower ones for ever. So a state is written as
often as its partition epoch moved, also if its data is the same and in one multi, and every write
leaves the version at the partition epoch or above it.

Source: KIP-866 "Dual Metadata Writes"; KRaftMigrationZkWriter.handleTopicsDelta, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.migration.entity_plan import MANY, PAUSE, Group, Piece
from emulator.znodes import configs, topics
from emulator.znodes.projection import topic_config
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

PARTITIONS_PER_PIECE: Final = 25
RAISES_MAX: Final = 1_000_000
"""How often one state is written only to raise its version: some 20 s of ZooKeeper's time.

Far beyond what a partition's epoch moves while nobody writes; a log that names 2^31 is not to stop
a takeover for ever. What is left then is a difference (``tree_diff``), and the next comparison goes
on with it.
"""
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
                for group in _changed_partition(old, new, index, controller_epoch):
                    piece.append(group)
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


def _changed_partition(
    old: Topic, new: Topic, index: int, controller_epoch: int
) -> Iterator[Group]:
    """Set the state of a partition if it changed, make a new one; none is ever removed."""
    have, want = old.partitions.get(index), new.partitions.get(index)
    if want is None:
        return
    if have is None:
        yield (Create(topics.partition_path(new.name, index), None),)
        yield from created_state(new.name, index, want, controller_epoch)
        return
    alike = topics.same_partition_state(have, want)
    writes = max(want.partition_epoch - have.partition_epoch, 0 if alike else 1)
    if writes:
        data = topics.state_data(want, controller_epoch)
        yield from repeat((SetData(topics.state_path(new.name, index), data),), writes)


def created_state(
    name: str, index: int | str, partition: Partition, controller_epoch: int
) -> Iterator[Group]:
    """Create the state of a partition, and raise its version to the partition epoch.

    At most :data:`RAISES_MAX` times. A partition that was made in the same delta has an epoch of at
    most the delta's records.
    """
    path, data = topics.state_path(name, index), topics.state_data(partition, controller_epoch)
    yield (Create(path, data),)
    yield from repeat((SetData(path, data),), min(partition.partition_epoch, RAISES_MAX))


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
        for group in created_state(name, index, partition, controller_epoch):
            piece.append(group)
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
