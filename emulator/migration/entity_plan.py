"""Writes of the entity classes beside topics: the differences, znode by znode.

A znode of these classes may outlive its entity (a removed quota leaves an empty config), so the
image alone does not say whether a write must create or set the znode. ``PlannedPaths`` does: it
tracks which znodes exist, since the last read of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.znodes import producer_id
from emulator.znodes.entity import Entities, EntityClass, Nodes, equal
from emulator.znodes.reader import TOP_LEVEL, Tree
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

Group: TypeAlias = tuple[ZkOp, ...]
"""Ops that go into one multi: a config and its notification."""
Piece: TypeAlias = list[Group]
T = TypeVar("T")

PAUSE: Final[Piece] = []
"""A piece that ends the step: what precedes it, or what follows, takes as long as a step may."""
MANY: Final = 2_000
"""Entities or partitions that take some ms to be collected, sorted or rendered."""
ENTITIES_PER_PIECE: Final = 25
LISTED_PER_PIECE: Final = 500


class PlannedPaths:
    """The paths that exist in ZooKeeper when everything planned so far is written.

    It is correct as long as plans are made in the order in which they are written. After a plan is
    dropped it is wrong, so a comparison with the tree, which rebuilds it, must follow.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._paths = {"", *paths}

    def __contains__(self, path: str) -> bool:
        """Whether the znode is there."""
        return path in self._paths

    def restart(self) -> None:
        """Drop every path."""
        self._paths = {""}

    def add(self, paths: Iterable[str]) -> None:
        """These paths exist."""
        self._paths.update(paths)

    def remove(self, path: str) -> None:
        """The path does not exist any more."""
        self._paths.discard(path)


def entity_changes(
    entities: Entities, before: Image, after: Image, touched: Touched, known: PlannedPaths
) -> Iterator[Piece]:
    """Writes that change a tree from one image to a later one, for touched entities only.

    Args:
        entities: the classes, in order.
        before: the image that the tree holds.
        after: the image that it shall hold.
        touched: everything the records between the two name.
        known: the paths of the tree; updated.

    Yields:
        Pieces of about 25 entities.
    """
    many = len(touched.acls) + len(touched.client_quotas) + len(touched.configs) > MANY
    for entity in entities:
        if many:
            yield PAUSE
        for keys in _batches(entity.touched(touched), ENTITIES_PER_PIECE):
            have, want = _nodes(entity, before, keys), _nodes(entity, after, keys)
            # Both values are rendered by us: equal bytes suffice, and long lists need not be
            # parsed.
            alike = {path for path in have if path in want and have[path] == want[path]}
            yield _piece(entity, have, want, known, alike)


def entity_compare(
    entities: Entities, tree: Tree, image: Image, known: PlannedPaths
) -> Iterator[Piece]:
    """Writes that make a tree equal to an image: missing, changed, malformed, surplus znodes.

    Args:
        entities: the classes, in order.
        tree: read after the claim.
        image: it takes precedence over the tree.
        known: rebuilt from the tree.

    Yields:
        Pieces of about 25 entities, possibly empty.
    """
    known.restart()
    known.add(path for path in TOP_LEVEL if tree.exists(path) or path != producer_id.PATH)
    for entity in entities:
        known.add(path for path in entity.folders if tree.exists(path))
        listed: list[str] = []
        for root in entity.roots:
            known.add(_with_parents(root) if tree.exists(root) else ())
            for paths in _batches(tree.below(root), LISTED_PER_PIECE):
                known.add(paths)
                listed += paths
                yield []
        wanted: set[str] = set()
        for keys in _batches(entity.keys(image), ENTITIES_PER_PIECE):
            want = _nodes(entity, image, keys)
            wanted.update(want)
            have = {path: tree.data(path) for path in want if tree.exists(path)}
            alike = {path for path in have if equal(entity, path, have[path], want[path])}
            yield _piece(entity, have, want, known, alike)
        yield from _surplus(entity, tree, listed, wanted, known)


def _surplus(
    entity: EntityClass[Any], tree: Tree, listed: list[str], wanted: set[str], known: PlannedPaths
) -> Iterator[Piece]:
    """Delete znodes that the image lacks, and everything below them."""
    doomed: set[str] = set()
    surplus: list[tuple[str, bool]] = []
    for paths in _batches(listed, LISTED_PER_PIECE):
        for path in paths:
            below = path.rpartition("/")[0] in doomed
            if below or (path not in wanted and entity.owns(path)):
                surplus.append((path, below))
                if below or isinstance(entity.gone(path, tree.data(path)), Delete):
                    doomed.add(path)
        yield []
    # Children before parents.
    for some in _batches(reversed(surplus), 2 * ENTITIES_PER_PIECE):
        piece: Piece = []
        for path, below in some:
            if below:
                known.remove(path)
                piece.append((Delete(path),))
            else:
                piece += _piece(entity, {path: tree.data(path)}, {}, known)
        yield piece


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _nodes(entity: EntityClass[Any], image: Image, keys: Iterable[Any]) -> Nodes:
    nodes: Nodes = {}
    for key in keys:
        nodes |= entity.nodes(image, key)
    return nodes


def _piece(
    entity: EntityClass[Any],
    have: Nodes,
    want: Nodes,
    known: PlannedPaths,
    alike: AbstractSet[str] = frozenset(),
) -> Piece:
    piece: Piece = []
    for path in have:
        if path in want or path not in known:
            continue
        gone = entity.gone(path, have[path])
        if gone is not None:
            if isinstance(gone, Delete):
                known.remove(path)
            _put(piece, entity, gone, known)
    for path, data in sorted(want.items()):
        if path not in known:
            _put(piece, entity, Create(path, data), known)
        elif path not in alike:
            _put(piece, entity, SetData(path, data), known)
    return piece


def _put(piece: Piece, entity: EntityClass[Any], op: ZkOp, known: PlannedPaths) -> None:
    """Add an op with the others of its multi, after the creation of missing parents."""
    group = (op, *entity.notifications(op))
    for one in group:
        if isinstance(one, Create):
            missing = [path for path in _with_parents(one.path)[:-1] if path not in known]
            piece += [(Create(path, None),) for path in missing]
            known.add(missing)
    if isinstance(op, Create):
        known.add((op.path,))
    piece.append(group)


def _with_parents(path: str) -> list[str]:
    """A path and those above it, from the top."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
