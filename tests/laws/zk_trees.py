"""ZooKeeper trees for laws: the simulator's tree, what is written to it, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis.strategies import SearchStrategy

from emulator.metadata import EMPTY, Image, Touched, replay, touch
from emulator.migration.plan import Piece, PlannedPaths, compare
from emulator.simulation.models.zookeeper_tree import RefusedOp, ServerTree
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import EntityClass
from emulator.znodes.projection import same, znodes
from emulator.znodes.reader import TOP_LEVEL, Tree, TreeReader
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    Create,
    GetChildren,
    NodeData,
    ReadFailed,
    ReadValue,
    ZkOp,
    ZkRead,
    ZkResult,
)
from tests.laws.metadata_records import logs
from wire import records as r

EPOCH = 7
FOREIGN = "/foreign"
"""A znode nobody knows, below one that may go."""
TOPICS = ("/brokers/topics/", "/config/topics/")
Nodes = dict[str, bytes | None]


def stories(size: int = 30) -> SearchStrategy[list[object]]:
    """Logs in which no topic id is used twice: ids are random, and a name may well come back."""

    def ids_differ(records: list[object]) -> bool:
        ids = [record.topic_id for record in records if isinstance(record, r.TopicRecord)]
        return len(ids) == len(set(ids))

    return logs(size=size).filter(ids_differ)


def empty_tree() -> ServerTree:
    """A tree with Kafka's top-level znodes."""
    tree = ServerTree()
    for path in TOP_LEVEL:
        tree.write(Create(path, None), 0, 0)
    return tree


def tree_of(nodes: Nodes) -> ServerTree:
    """A tree that holds ``nodes`` beside the top-level ones."""
    tree = empty_tree()
    for path in sorted(nodes):
        parts = path.split("/")
        for parent in ("/".join(parts[:end]) for end in range(2, len(parts))):
            if parent not in tree.nodes:
                tree.write(Create(parent, None), 0, 0)
        if path in tree.nodes:
            tree.nodes[path].data = nodes[path]
        else:
            tree.write(Create(path, nodes[path]), 0, 0)
    return tree


def tree_with(image: Image, epoch: int = EPOCH) -> ServerTree:
    """A tree that holds an image, with the versions that it asks for."""
    tree = tree_of(znodes(image, controller_epoch=epoch))
    for path, version in versions(image).items():
        tree.nodes[path].version = version
    return tree


def versions(image: Image) -> dict[str, int]:
    """The partition epoch by path of the partition's state."""
    return {
        f"/brokers/topics/{topic.name}/partitions/{index}/state": partition.partition_epoch
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
    }


def behind(tree: ServerTree, image: Image) -> list[str]:
    """States whose version is below the partition epoch: a broker would refuse what they say."""
    wanted = versions(image).items()
    return [path for path, version in wanted if tree.nodes[path].version < version]


def owned(tree: ServerTree) -> Nodes:
    """Every znode that follows an image; not what :data:`FOREIGN` hands left in it."""
    return {
        path: node.data
        for path, node in tree.nodes.items()
        if (path.startswith(TOPICS) or _entities(path)) and FOREIGN not in path
    }


def _entities(path: str) -> list[EntityClass[Any]]:
    return [entity for entity in ENTITIES_WITHOUT_SECRETS if entity.owns(path)]


def known(tree: ServerTree) -> PlannedPaths:
    """What a plan may know of a tree."""
    return PlannedPaths(tree.nodes)


def write(tree: ServerTree, ops: Iterable[ZkOp]) -> None:
    """Apply in order; the tree refuses an op that comes too early or twice."""
    for op in ops:
        tree.write(op, 0, 0)


def mend(tree: ServerTree, image: Image) -> None:
    """Reconcile as the write-behind does: look below what could not be deleted, and begin anew."""
    below: set[str] = set()
    for _ in range(20):
        for op in ops_of(compare(read(tree, below=below), image, controller_epoch=EPOCH)):
            if not written(tree, op):
                assert op.path not in below, f"still not empty: {op}"
                below.add(op.path)
                break
        else:
            return
    raise AssertionError(below)


def written(tree: ServerTree, op: ZkOp) -> bool:
    """Apply one op; False if it is the deletion of a znode with others below."""
    try:
        write(tree, [op])
    except RefusedOp as refused:
        if refused.code != ZkCode.NOT_EMPTY:
            raise
        return False
    return True


def ops_of(pieces: Iterable[Piece]) -> list[ZkOp]:
    """All ops of all pieces."""
    return [op for piece in pieces for group in piece for op in group]


def read(tree: ServerTree, *, reads_max: int = 7, below: Iterable[str] = ()) -> Tree:
    """Read the whole tree as the product does."""
    reader = TreeReader(reads_max=reads_max, below=sorted(below))
    while not reader.complete:
        for tag, request in reader.requests():
            reader.outcome(ZkResult(tag, [_answer(tree, one) for one in request.reads]))
    return reader.tree


def _answer(tree: ServerTree, one: ZkRead) -> ReadValue:
    try:
        node = tree.get(one.path)
    except RefusedOp as refused:
        return ReadFailed(refused.code)
    return (
        tuple(node.children) if isinstance(one, GetChildren) else NodeData(node.data, node.stat())
    )


def differing(tree: ServerTree, image: Image) -> list[str]:
    """Paths at which the tree is not what the image says.

    A znode may outlive its entity if it says that nothing is left.
    """
    have, want = owned(tree), znodes(image, controller_epoch=EPOCH)
    gone = {
        path
        for path in have.keys() - want.keys()
        if any(entity.gone(path, have[path]) is None for entity in _entities(path))
    }
    return sorted(
        path
        for path in {*have, *want} - gone
        if path not in have or path not in want or not same(path, have[path], want[path])
    )


def replayed(records: list[object], image: Image = EMPTY) -> tuple[Image, Touched]:
    """The image after some records, and what they touched."""
    touched = Touched()
    for record in records:
        touch(touched, image, record)
        image = replay(image, record, image.offset + 1, 1)
    return image, touched
