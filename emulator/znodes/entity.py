"""The interface of a class of entities; ``entities.entities`` lists the classes.

A class is one module of this package. The reader, the copy, the preconditions, both kinds of plan,
the comparison for operators and the laws use it for the znodes, and name no class there; what else
names each class is in the row of CONTRIBUTING.md for a class of entities. Topics are not among
the classes: their znodes are nested, and are processed in pieces of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.znodes.tree import Tree, ZnodeError
from emulator.zookeeper.ops import Delete, SetData, ZkOp

K = TypeVar("K")

Nodes: TypeAlias = dict[str, bytes | None]
"""Data by path; None is null data."""
Record: TypeAlias = object


class RefusalKind(Enum):
    """Kinds of refusals; reports show the values."""

    MALFORMED = "malformed_znode"
    METADATA_VERSION = "metadata_version"
    ENCODED = "encoded_value"


class Refusal(msgspec.Struct, frozen=True):
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
        """Name for operators and the trace, such as ``broker_configs``."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Paths that are read with everything below them; none is inside another."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Other znodes whose existence must be known: the parents of notifications."""

    def owns(self, path: str) -> bool:
        """Whether a path below one of ``roots`` is an entity's, so that it may be deleted."""

    def refusals(self, tree: Tree, version: MetadataVersion) -> Iterator[Refusal | None]:
        """Yield znodes that :meth:`records` cannot copy, and None after each piece of work."""

    def records(self, tree: Tree, image: Image) -> Iterator[Iterable[Record]]:
        """Yield the records of one entity after the other.

        Args:
            tree: one in which :meth:`refusals` found nothing.
            image: the newest stable image, without what :meth:`leftovers` removes.

        Raises:
            ZnodeError: a znode changed into something unreadable since it was checked.
        """

    def leftovers(self, image: Image) -> Iterator[Record]:
        """Yield the records that remove an unfinished copy from the log."""

    def keys(self, image: Image) -> Iterable[K]:
        """Every entity, in an order that depends on the image alone."""

    def touched(self, touched: Touched) -> Iterable[K]:
        """Every entity that records touched, in an order that depends on them alone."""

    def nodes(self, image: Image, key: K) -> Nodes:
        """Znodes of one entity as the image has it; none when it does not have it."""

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Whether two values of a znode mean the same to Kafka.

        Raises:
            ZnodeError: one of them is malformed.
        """

    def gone(self, path: str, data: bytes | None) -> Delete | SetData | None:
        """The write for a znode whose entity was removed; None: it stays as it is."""

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """The notifications to ZooKeeper-mode brokers of a write, sent in the same multi."""


Entities: TypeAlias = tuple[EntityClass[Any], ...]

NO_FOLDERS: Final[tuple[str, ...]] = ()


def equal(entity: EntityClass[Any], path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two values mean the same; a malformed value only equals itself."""
    if one == other:
        return True
    try:
        return entity.same(path, one, other)
    except ZnodeError:
        return False
