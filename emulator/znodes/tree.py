"""The part of a ZooKeeper tree that was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

# The one error of this package.


class ZnodeError(ValueError):
    """A znode's data is malformed for its path.

    ``path`` names it, ``why`` says what is wrong.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


FREED_PER_STEP: Final = 5_000
"""Znodes; to free those of 1,000,000 partitions takes a few tenths of a second."""


class TreeNode(msgspec.Struct, frozen=True, gc=False):
    """One znode as read; ``data`` None is null data. ``ephemeral_owner`` 0: persistent."""

    data: bytes | None
    version: int = 0
    czxid: int = 0
    ephemeral_owner: int = 0


class Tree:
    """The znodes read, by path, and the children by parent."""

    def __init__(self) -> None:
        self.nodes: dict[str, TreeNode] = {}
        self.lists: dict[str, tuple[str, ...]] = {}
        self.unreadable: dict[str, int] = {}
        """Result code of every read that failed for another reason than absence."""

    def emptied(self, count: int = FREED_PER_STEP) -> Iterator[None]:
        """Drop the znodes of a large tree that nobody reads any more, so many in each slice."""
        for held in (self.nodes, self.lists):
            while len(held) > count:
                for _ in range(count):
                    held.popitem()
                yield

    def node(self, path: str) -> TreeNode | None:
        """The znode at ``path``; None when it is absent or its data was not read."""
        return self.nodes.get(path)

    def data(self, path: str) -> bytes | None:
        """Data at ``path``; None if there is none."""
        node = self.nodes.get(path)
        return None if node is None else node.data

    def children(self, path: str) -> tuple[str, ...]:
        """Names below ``path``, ascending; none when it is absent."""
        return self.lists.get(path, ())

    def exists(self, path: str) -> bool:
        """Whether the znode existed, read or only listed."""
        if path in self.nodes or path in self.lists:
            return True
        parent, _, name = path.rpartition("/")
        return name in self.lists.get(parent, ())

    def below(self, path: str) -> Iterator[str]:
        """Every path known below ``path``, parents before children."""
        for name in self.children(path):
            child = f"{path}/{name}"
            yield child
            yield from self.below(child)
