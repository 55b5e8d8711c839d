"""Writes that make the topics of a tree equal to those of an image.

A topic that was deleted and made again under its name is deleted first, with everything below it:
otherwise the new topic would have the old topic's partition states. (Kafka 3.9 creates first and
then deletes both.)

A state whose version is below the partition epoch is written until it is not: see
``topic_changes``.

Most topics are as they should be. That is seen without making their znodes: what was read is parsed
once and compared with the image.

Source: KRaftMigrationZkWriter.handleTopicsSnapshot, Kafka 3.9.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, repeat
from typing import Final

from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.migration.entity_plan import MANY, PAUSE, Group, Piece
from emulator.znodes import configs, topics
from emulator.znodes.entity import Nodes
from emulator.znodes.projection import partition_nodes, same, topic_config, topic_head
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import number_of
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

# Writes of topics between two images, for what records touched.
#
# The version of a partition's state znode is the partition epoch of ZooKeeper mode. Brokers know
# the epochs of the log, and after a rollback they refuse lower ones for ever. So a state is
# written as often as its partition epoch moved, also if its data is the same and in one multi, and
# every write leaves the version at the partition epoch or above it.
#
# Source: KIP-866 "Dual Metadata Writes"; KRaftMigrationZkWriter.handleTopicsDelta, Kafka 3.9.

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
    for count, (topic_id, index) in enumerate(touched.partitions, 1):
        indexes.setdefault(topic_id, set()).add(index)
        if count % MANY == 0:
            yield PAUSE
    configured = {name for kind, name in touched.configs if kind == TOPIC}
    names = yield from _sorted(chain(touched.topics.values(), configured))
    piece: Piece = []
    looked = 0
    for name in names:
        old, new = before.topic(name), after.topic(name)
        if old is not None and new is not None and old.id == new.id:
            some = sorted(indexes.get(new.id, ()))
            head = _changed_head(before, after, old, new, some, config=name in configured)
            piece = yield from _in_pieces(piece, head)
            looked += 1
            if len(new.partitions) > MANY:
                yield piece
                yield PAUSE
                piece = []
            for index in some:
                groups = _changed_partition(old, new, index, controller_epoch)
                piece = yield from _in_pieces(piece, groups)
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


def _in_pieces(piece: Piece, groups: Iterable[Group]) -> Generator[Piece, None, Piece]:
    """Add groups to a piece; full ones are yielded, the last is returned."""
    for group in groups:
        if len(piece) >= 2 * PARTITIONS_PER_PIECE:
            yield piece
            piece = []
        piece.append(group)
    return piece


def _sorted(names: Iterable[str]) -> Generator[Piece, None, Iterable[str]]:
    """Names in order, each once; of many a part in each slice, and the rest while they are used."""
    left = iter(names)
    parts = []
    while part := sorted(islice(left, MANY)):
        parts.append(part)
        if len(part) == MANY:
            yield PAUSE
    return (name for name, _ in groupby(heapq.merge(*parts)))


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
        state = created_state(name, index, partition, controller_epoch)
        groups = [(Create(f"{folder}/{index}", None),), *state]
        piece = yield from _in_pieces(piece, groups)
    yield piece


def _deleted(topic: Topic) -> Iterator[Piece]:
    """Delete a topic of an image: partitions by number, children before parents."""
    folder = topics.partitions_path(topic.name)
    piece: Piece = []
    for index in topic.partitions:
        path = f"{folder}/{index}"
        piece = yield from _in_pieces(piece, [(Delete(f"{path}/state"),), (Delete(path),)])
    head = (configs.topic_config_path(topic.name), folder, topics.topic_path(topic.name))
    yield (yield from _in_pieces(piece, [(Delete(path),) for path in head]))


def with_notifications(ops: list[ZkOp]) -> Piece:
    """Put the notification of a config change after the change, in the same multi."""
    return [(op, configs.notification(op.path)) if _notifies(op) else (op,) for op in ops]


def _notifies(op: ZkOp) -> bool:
    if not op.path.startswith(configs.TOPICS + "/"):
        return False
    if isinstance(op, Create):
        return not configs.is_empty(op.path, op.data)
    return isinstance(op, SetData)


LOOKED_PER_PIECE: Final = 150
"""Znodes that a piece looks at: about 0.4 ms."""
PLANNED_AS_LOOKED: Final = 20
"""Making and comparing the znodes of a part of a topic takes as long as looking at so many."""
NOT_THERE: Final = -1
"""Version of a znode that is to be created: it then has 0."""
ALIKE_PARTITIONS_MAX: Final = 1_000
"""A topic with more is compared part by part, as one that differs."""


def plan(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> list[ZkOp]:
    """Order the writes that turn one set of znodes into another.

    Deletes come first, children before parents; then creates, parents before children; then sets.
    If only a prefix of the plan is applied, planning again still leads to ``after``.

    Args:
        before: data by path, as read or as last written; every path absolute.
        after: the wanted data by path. Values that mean the same (``projection.same``) are left
            alone.

    >>> plan({"/a": b"1", "/b": None}, {"/a": b"2", "/c": None})
    [Delete(path='/b', version=-1), Create(path='/c', data=None, ...), SetData(path='/a', ...)]
    """
    recreated = tuple(path + "/" for path in before if _recreated(path, before, after))
    gone = {path for path in before if path not in after or f"{path}/".startswith(recreated)}
    ops: list[ZkOp] = [Delete(path) for path in sorted(gone, reverse=True)]
    ops += [
        Create(path, after[path]) for path in sorted(after) if path not in before or path in gone
    ]
    ops += [
        SetData(path, after[path])
        for path in sorted(after)
        if path in before and path not in gone and not same(path, before[path], after[path])
    ]
    return ops


def _recreated(
    path: str, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]
) -> bool:
    if path.count("/") != 3 or not path.startswith(topics.ROOT) or path not in after:
        return False
    if before[path] == after[path]:
        return False
    ids = {_topic_id(path, before[path]), _topic_id(path, after[path])}
    return len(ids) == 2 and topics.NO_ID not in ids


def _topic_id(path: str, data: bytes | None) -> bytes:
    try:
        return topics.parse_topic_id(path, data)
    except ZnodeError:
        return topics.NO_ID


def topic_compare(tree: Tree, image: Image, controller_epoch: int) -> Iterator[Piece]:
    """Writes that make the topics of a tree, and their configs, equal to those of an image.

    Args:
        tree: read after the claim.
        image: it takes precedence over the tree.
        controller_epoch: KRaft leader epoch, written into partition states.

    Yields:
        Pieces of about 50 znodes to write, or :data:`LOOKED_PER_PIECE` that are as they should be:
        topics by name.
    """
    piece: Piece = []
    looked = 0
    named = (tree.children(topics.ROOT), tree.children(configs.TOPICS), image.topic_ids)
    for name, _ in groupby(heapq.merge(*named)):
        topic = image.topic(name)
        if topic is not None and _alike(tree, image, topic):
            count = len(topic.partitions)
            looked += 3 + count
            if count > LOOKED_PER_PIECE:
                yield PAUSE
        else:
            for part in _differences(tree, image, name, controller_epoch):
                piece += part
                looked += PLANNED_AS_LOOKED + len(part)
                if part is PAUSE or looked >= LOOKED_PER_PIECE:
                    yield piece
                    piece, looked = [], 0
                if part is PAUSE:
                    yield PAUSE
        if looked >= LOOKED_PER_PIECE:
            yield piece
            piece, looked = [], 0
    yield piece


def _alike(tree: Tree, image: Image, topic: Topic) -> bool:
    """Whether the znodes of a topic hold what the image has: none is missing, surplus, malformed.

    Other clients may have created more below them, which a comparison keeps.
    """
    path, folder = topics.topic_path(topic.name), topics.partitions_path(topic.name)
    config_path = configs.topic_config_path(topic.name)
    head, config, listed = tree.node(path), tree.node(config_path), tree.lists.get(folder)
    if head is None or config is None or listed is None:
        return False
    if not len(listed) == len(topic.partitions) <= ALIKE_PARTITIONS_MAX:
        return False
    try:
        return (
            topics.parse_topic(path, head.data) == topics.zk_topic(topic)
            and configs.parse(config_path, config.data) == dict(image.config(TOPIC, topic.name))
            and all(
                _state_alike(tree, f"{folder}/{i}/state", p) for i, p in topic.partitions.items()
            )
        )
    except ZnodeError:
        return False


def _state_alike(tree: Tree, path: str, partition: Partition) -> bool:
    node = tree.node(path)
    return (
        node is not None
        and node.version >= partition.partition_epoch
        and topics.is_state(path, node.data, partition)
    )


def _differences(tree: Tree, image: Image, name: str, controller_epoch: int) -> Iterator[Piece]:
    topic, found = image.topic(name), _found_topic(tree, name)
    if found is None and topic is not None:
        yield from created(image, topic, controller_epoch)
    else:
        want = None if topic is None else _whole(image, topic, controller_epoch)
        yield from _topic_pieces(name, found, want)


@dataclass(frozen=True, slots=True)
class _Side:
    """A topic on one side of a comparison, complete or the part that is compared."""

    topic_id: bytes
    head: Nodes
    indexes: Sequence[str]
    partition: Callable[[str], Nodes]
    odd: Nodes = field(default_factory=dict)
    """Znodes below the topic that are not Kafka's: kept, unless the topic is deleted."""
    odd_below: Callable[[str], Nodes] = field(default=lambda _index: {})
    """The same below one partition, if they were read."""
    version: Callable[[str], int] = field(default=lambda _index: NOT_THERE)
    """Of a partition's state: that of the znode, just after ``partition`` was asked for it, or the
    one it should have at least."""


def _topic_pieces(name: str, have: _Side | None, want: _Side | None) -> Iterator[Piece]:
    if have is not None and (want is None or _replaced(have, want)):
        for chunk in _chunks(have.indexes):
            yield with_notifications(plan(_partitions(have, chunk, gone=chunk), {}))
        yield with_notifications(plan(have.head | have.odd, {}))
        have = None
    if want is None:
        return
    yield with_notifications(plan({} if have is None else have.head, want.head))
    if len(want.indexes) > ALIKE_PARTITIONS_MAX:
        yield PAUSE
    wanted = frozenset(want.indexes)
    more = () if have is None else [index for index in have.indexes if index not in wanted]
    indexes = want.indexes  # by number
    if more:
        indexes = sorted((*indexes, *more), key=lambda index: (len(index), index))
    for chunk in _chunks(indexes):
        gone = [index for index in chunk if index not in wanted]
        before = {} if have is None else _partitions(have, chunk, gone)
        after = _partitions(want, chunk)
        lacks = {
            topics.state_path(name, index): want.version(index) - _version(have, index)
            for index in chunk
            if index in wanted
        }
        yield from _raised(plan(before, after), lacks, after)


def _version(have: _Side | None, index: str) -> int:
    return NOT_THERE if have is None else have.version(index)


def _raised(ops: Sequence[ZkOp], lacks: dict[str, int], after: Nodes) -> Iterator[Piece]:
    """A plan, with each state written as often as its version is too low, one after the other."""
    piece: Piece = []
    for op in ops:
        piece.append((op,))
        again = lacks.pop(op.path, 0) - 1
        if again > 0:
            yield piece
            yield from _raises(op.path, after[op.path], again)
            piece = []
    yield piece
    for path, again in lacks.items():
        yield from _raises(path, after[path], again)


def _raises(path: str, data: bytes | None, again: int) -> Iterator[Piece]:
    left = min(again, RAISES_MAX)
    while left > 0:
        yield [(SetData(path, data),)] * min(left, 2 * PARTITIONS_PER_PIECE)
        left -= 2 * PARTITIONS_PER_PIECE


def _replaced(have: _Side, want: _Side) -> bool:
    return topics.NO_ID != have.topic_id != want.topic_id


def _partitions(side: _Side, indexes: Sequence[str], gone: Sequence[str] = ()) -> Nodes:
    nodes: Nodes = {}
    for index in indexes:
        nodes |= side.partition(index)
    for index in gone:
        nodes |= side.odd_below(index)
    return nodes


def _chunks(indexes: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(indexes), PARTITIONS_PER_PIECE):
        yield indexes[at : at + PARTITIONS_PER_PIECE]


def _whole(image: Image, topic: Topic, controller_epoch: int) -> _Side:
    return _Side(
        topic.id,
        topic_head(image, topic),
        [str(index) for index in topic.partitions],
        _image_partitions(topic, controller_epoch),
        version=_image_epochs(topic),
    )


def _image_epochs(topic: Topic) -> Callable[[str], int]:
    def epoch(index: str) -> int:
        number = number_of(index)
        found = None if number is None else topic.partitions.get(number)
        return 0 if found is None else found.partition_epoch

    return epoch


def _image_partitions(topic: Topic, controller_epoch: int) -> Callable[[str], Nodes]:
    def partition(index: str) -> Nodes:
        number = number_of(index)
        found = None if number is None else topic.partitions.get(number)
        if found is None:
            return {}
        return partition_nodes(topic.name, index, found, controller_epoch)

    return partition


def _existing(tree: Tree, paths: Sequence[str]) -> Nodes:
    return {path: tree.data(path) for path in paths if tree.exists(path)}


def _found_topic(tree: Tree, name: str) -> _Side | None:
    """A topic in the tree, even if only a part of it exists, such as its config."""
    path, folder = topics.topic_path(name), topics.partitions_path(name)
    head = _existing(tree, [path, configs.topic_config_path(name)])
    if folder in tree.lists:
        head[folder] = None
    if not head:
        return None

    indexes = tree.children(folder)
    listed = frozenset(indexes)
    versions: dict[str, int] = {}  # of the states that were just looked at

    def partition(index: str) -> Nodes:
        if index not in listed:
            return {}
        one = topics.partition_path(name, index)
        state = tree.node(f"{one}/state")
        if state is None:
            return {one: None}
        versions[index] = state.version
        return {one: None, f"{one}/state": state.data}

    def odd_below(index: str) -> Nodes:
        one = topics.partition_path(name, index)
        return _below(tree, one) | _below(tree, f"{one}/state")

    odd = _below(tree, configs.topic_config_path(name))
    for child in tree.children(path):
        # Partitions are looked at part by part: there may be 10,000.
        if f"{path}/{child}" != folder:
            odd |= {f"{path}/{child}": tree.data(f"{path}/{child}")}
            odd |= _below(tree, f"{path}/{child}")

    topic_id = _topic_id(path, tree.data(path))
    return _Side(
        topic_id,
        head,
        indexes,
        partition,
        odd,
        odd_below,
        lambda index: versions.pop(index, NOT_THERE),
    )


def _below(tree: Tree, path: str) -> Nodes:
    return {one: tree.data(one) for one in tree.below(path)}
