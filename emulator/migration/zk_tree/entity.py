"""What a class of entities says about itself; ``entities.ENTITIES`` lists the classes.

A class is one module of this package. The reader, the copy, the preconditions, both kinds of plan,
the comparison for people and the laws ask it; none of them knows a class by name. Topics are not
among them: their znodes nest, and come in pieces of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.tree import Tree
from emulator.zookeeper.ops import Delete, SetData, ZkOp

K = TypeVar("K")

Nodes: TypeAlias = dict[str, bytes | None]
"""Data by path; None is null data."""
Record: TypeAlias = object


class RefusalKind(Enum):
    """Why a znode cannot be copied; the values stand in reports."""

    MALFORMED = "malformed_znode"
    METADATA_VERSION = "metadata_version"
    ENCODED = "encoded_value"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A znode that cannot be copied, and why; ``why`` begins with no path."""

    kind: RefusalKind
    path: str
    why: str

    @classmethod
    def of(cls, error: ZnodeError) -> Refusal:
        """What is malformed."""
        return cls(RefusalKind.MALFORMED, error.path, error.why)


class EntityClass(Protocol[K]):
    """One class of entities, in both stores. Keys name its entities in an image."""

    @property
    def name(self) -> str:
        """For people and the trace, as ``broker_configs``."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """Read whole, whatever is below; none inside another."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """Other znodes whose presence must be known: those that notifications go below."""
        ...

    def owns(self, path: str) -> bool:
        """Whether a path (below one of ``roots``) is an entity's, so that it may be surplus."""
        ...

    def refusals(self, tree: Tree, version: MetadataVersion) -> Iterator[Refusal | None]:
        """Yield what :meth:`records` could not copy, and None after each piece of work."""
        ...

    def records(self, tree: Tree, image: Image) -> Iterator[Iterable[Record]]:
        """Yield the records of one entity after the other.

        Args:
            tree: one in which :meth:`refusals` found nothing.
            image: the newest stable image, without what :meth:`leftovers` removes.

        Raises:
            ZnodeError: a znode changed into something unreadable since it was checked.
        """
        ...

    def leftovers(self, image: Image) -> Iterator[Record]:
        """Yield what removes an unfinished copy from the log."""
        ...

    def keys(self, image: Image) -> Iterable[K]:
        """Every entity, in an order that depends on the image alone."""
        ...

    def touched(self, touched: Touched) -> Iterable[K]:
        """Every entity that records touched, in an order that depends on them alone."""
        ...

    def nodes(self, image: Image, key: K) -> Nodes:
        """Znodes of one entity as the image has it; none when it does not have it."""
        ...

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Whether two values of a znode mean the same to Kafka.

        Raises:
            ZnodeError: one of them is malformed.
        """
        ...

    def gone(self, path: str, data: bytes | None) -> Delete | SetData | None:
        """What is written to a znode whose entity was removed; None: it may stay as it is."""
        ...

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """What tells ZooKeeper-mode brokers of a write of ours; goes into one multi with it."""
        ...


Entities: TypeAlias = tuple[EntityClass[Any], ...]

NO_FOLDERS: Final[tuple[str, ...]] = ()


def equal(entity: EntityClass[Any], path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two values mean the same; a malformed one is the same as nothing but itself."""
    if one == other:
        return True
    try:
        return entity.same(path, one, other)
    except ZnodeError:
        return False
