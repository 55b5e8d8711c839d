"""Plans the writes that turn one tree into another.

``plan`` orders the writes of two small maps. ``changes`` (image to image, by what records touched)
and ``compare`` (tree to image, everything) split the work into pieces of about 50 znodes and plan
each, so that no step is long. After every prefix of the pieces a new comparison leads to the same
result. Equal arguments give equal pieces, so a position in them is still valid after a reconnect.

A topic that was deleted and made again under its name is deleted first, with everything below it:
otherwise the new topic would have the old topic's partition states. (Kafka 3.9 creates first and
then deletes both.)

Source: KIP-866 "Dual Metadata Writes"; KRaftMigrationZkWriter.{handleSnapshot,handleDelta}, Kafka
3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from emulator.migration.entity_plan import (
    MANY,
    PAUSE,
    Group,
    Piece,
    PlannedPaths,
    entity_changes,
    entity_compare,
)
from emulator.migration.zk_tree import admin, configs, producer_id, topics
from emulator.migration.zk_tree.entities import ENTITIES
from emulator.migration.zk_tree.entity import Entities, Nodes
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.projection import (
    partition_nodes,
    same,
    topic_config,
    topic_head,
)
from emulator.migration.zk_tree.reader import TOP_LEVEL, Tree
from emulator.migration.zk_tree.znode_json import number_of
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

PARTITIONS_PER_PIECE: Final = 25
TOPICS_PER_PIECE: Final = 10
"""Topics that existed before, in a piece of a delta: looking at one takes as long as an operation.
"""

__all__ = ["PAUSE", "Group", "Piece", "PlannedPaths", "changes", "compare", "plan"]


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


def _topic_pieces(have: _Side | None, want: _Side | None) -> Iterator[Piece]:
    if have is not None and (want is None or _replaced(have, want)):
        for chunk in _chunks(have.indexes):
            yield _groups(plan(_partitions(have, chunk, gone=chunk), {}))
        yield _groups(plan(have.head | have.odd, {}))
        have = None
    if want is None:
        return
    yield _groups(plan({} if have is None else have.head, want.head))
    indexes = {*want.indexes, *(() if have is None else have.indexes)}
    wanted = frozenset(want.indexes)
    for chunk in _chunks(sorted(indexes, key=lambda index: (len(index), index))):
        gone = [index for index in chunk if index not in wanted]
        before = {} if have is None else _partitions(have, chunk, gone)
        yield _groups(plan(before, _partitions(want, chunk)))


def _created(image: Image, topic: Topic, controller_epoch: int) -> Iterator[Piece]:
    """Create a topic of which nothing exists: parents before children, partitions by number.

    The same operations as :func:`plan` would find from nothing, without comparing.
    """
    name, folder = topic.name, topics.partitions_path(topic.name)
    config = Create(configs.topic_config_path(name), topic_config(image, name))
    piece: Piece = [
        (Create(topics.topic_path(name), topics.topic_data(topic)),),
        (Create(folder, None),),
        *_groups([config]),
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


def _groups(ops: list[ZkOp]) -> Piece:
    """Put the notification of a config change after the change, in the same multi."""
    return [(op, configs.notification(op.path)) if _notifies(op) else (op,) for op in ops]


def _notifies(op: ZkOp) -> bool:
    if not op.path.startswith(configs.TOPICS + "/"):
        return False
    if isinstance(op, Create):
        return not configs.is_empty(op.path, op.data)
    return isinstance(op, SetData)


def changes(
    before: Image,
    after: Image,
    touched: Touched,
    *,
    controller_epoch: int,
    known: PlannedPaths,
    entities: Entities = ENTITIES,
) -> Iterator[Piece]:
    """Writes that carry a tree from one image to a later one, only for what records touched.

    Args:
        before: the image that the tree holds.
        after: the image that it shall hold.
        touched: everything the records between the two name.
        controller_epoch: KRaft leader epoch, written into partition states.
        known: the existing znodes of the other classes; updated.
        entities: the classes beside topics.

    Yields:
        Pieces of about 50 znodes, possibly empty: topics by name, then the other classes in order.
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
                yield from _created(after, new, controller_epoch)
    yield piece
    yield from entity_changes(entities, before, after, touched, known)


def _changed_head(
    before: Image, after: Image, old: Topic, new: Topic, indexes: Sequence[int], *, config: bool
) -> Piece:
    """Set the topic and its config, if they changed; both topics have the same id."""
    ops: list[ZkOp] = []
    if not all(_assigned_alike(old, new, index) for index in indexes):
        ops.append(SetData(topics.topic_path(new.name), topics.topic_data(new)))
    if config and before.config(TOPIC, new.name) != after.config(TOPIC, new.name):
        ops.append(SetData(configs.topic_config_path(new.name), topic_config(after, new.name)))
    return _groups(ops)


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


def _whole(image: Image, topic: Topic, controller_epoch: int) -> _Side:
    return _Side(
        topic.id,
        topic_head(image, topic),
        [str(index) for index in topic.partitions],
        _image_partitions(topic, controller_epoch),
    )


def _image_partitions(topic: Topic, controller_epoch: int) -> Callable[[str], Nodes]:
    def partition(index: str) -> Nodes:
        number = number_of(index)
        found = None if number is None else topic.partitions.get(number)
        if found is None:
            return {}
        return partition_nodes(topic.name, index, found, controller_epoch)

    return partition


def compare(
    tree: Tree,
    image: Image,
    *,
    controller_epoch: int,
    known: PlannedPaths | None = None,
    entities: Entities = ENTITIES,
) -> Iterator[Piece]:
    """Writes that make any tree equal to an image: the full reconcile.

    Missing, extra, changed and malformed znodes, missing and surplus partitions, topics created
    again with another id, topics with a pending deletion.

    Args:
        tree: read after the claim.
        image: stable; it takes precedence over the tree.
        controller_epoch: KRaft leader epoch, written into partition states.
        known: rebuilt from the tree, for the changes that follow.
        entities: the classes beside topics.

    Yields:
        Pieces of about 50 znodes, possibly empty: top-level znodes, topics and their configs by
        name, the other classes in order, pending deletions last: the topic must be deleted before
        its entry in ``/admin/delete_topics``.
    """
    missing = [path for path in TOP_LEVEL if not tree.exists(path) and path != producer_id.PATH]
    yield [(Create(path, None),) for path in missing]
    named = (*tree.children(topics.ROOT), *tree.children(configs.TOPICS), *image.topic_ids)
    for name in sorted({*named}):
        topic, found = image.topic(name), _found_topic(tree, name)
        if found is None and topic is not None:
            yield from _created(image, topic, controller_epoch)
        else:
            want = None if topic is None else _whole(image, topic, controller_epoch)
            yield from _topic_pieces(found, want)
    yield from entity_compare(entities, tree, image, PlannedPaths() if known is None else known)
    pending = [f"{admin.DELETE_TOPICS}/{name}" for name in admin.pending_deletions(tree)]
    for path in pending:
        yield _groups(plan({path: None, **_below(tree, path)}, {}))


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

    def partition(index: str) -> Nodes:
        if index not in listed:
            return {}
        one = topics.partition_path(name, index)
        state = tree.node(f"{one}/state")
        return {one: None} if state is None else {one: None, f"{one}/state": state.data}

    def odd_below(index: str) -> Nodes:
        one = topics.partition_path(name, index)
        return _below(tree, one) | _below(tree, f"{one}/state")

    odd = {one: data for one, data in _below(tree, path).items() if not _inside(one, folder)}
    odd |= _below(tree, configs.topic_config_path(name))
    return _Side(_topic_id(path, tree.data(path)), head, indexes, partition, odd, odd_below)


def _below(tree: Tree, path: str) -> Nodes:
    return {one: tree.data(one) for one in tree.below(path)}


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
