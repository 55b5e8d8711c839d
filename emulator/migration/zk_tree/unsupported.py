"""Classes of entities that are not copied yet: refused by name, never dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.migration.zk_tree import configs
from emulator.migration.zk_tree.entity import NO_FOLDERS, Kind, Nodes, Record, Refusal
from emulator.migration.zk_tree.tree import Tree
from emulator.zookeeper.ops import Delete, SetData, ZkOp


class Unsupported:
    """Whatever lies below some roots.

    Args:
        name: of the class, plural.
        roots: by the depth from which on a znode counts.
    """

    folders = NO_FOLDERS

    def __init__(self, name: str, roots: dict[str, int]) -> None:
        self.name = name
        self.roots = tuple(roots)
        self._depths = roots

    def owns(self, _path: str) -> bool:
        """Nothing: all is left as it is."""
        return False

    def refusals(self, tree: Tree, _version: MetadataVersion) -> Iterator[Refusal | None]:
        """Every znode; an empty config (what is left of a removed quota) counts for nothing."""
        for root, depth in self._depths.items():
            for path in tree.below(root):
                empty = root.startswith("/config/") and configs.is_empty(path, tree.data(path))
                if path.count("/") >= depth and not empty:
                    yield Refusal(Kind.UNSUPPORTED, path, self.name)

    def records(self, _tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """None."""
        return iter(())

    def leftovers(self, _image: Image) -> Iterator[Record]:
        """None."""
        return iter(())

    def keys(self, _image: Image) -> Iterable[str]:
        """None."""
        return ()

    def touched(self, _touched: Touched) -> Iterable[str]:
        """None."""
        return ()

    def nodes(self, _image: Image, _key: str) -> Nodes:
        """None."""
        return {}

    def same(self, _path: str, one: bytes | None, other: bytes | None) -> bool:
        """Byte by byte."""
        return one == other

    def gone(self, _path: str, _data: bytes | None) -> Delete | SetData | None:
        """It stays."""
        return None

    def notifications(self, _op: ZkOp) -> Sequence[ZkOp]:
        """None."""
        return ()
