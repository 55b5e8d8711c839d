"""ZooKeeper's tree as a model: what create, setData, delete, check and multi do to znodes.

Checked against a real ZooKeeper 3.9.5 by running one script on both. Access rules are kept, not
enforced.

Source: org.apache.zookeeper.server.{PrepRequestProcessor,DataTree,DataNode}, ZooKeeper 3.9.5.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    ANY_VERSION,
    EPHEMERAL,
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    OpValue,
    SetData,
    Stat,
    ZkOp,
    ZnodeAcl,
)

# UTF-16 units are looked at: what needs two of them is refused as well.
_BAD_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_SPECIAL = frozenset({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})


class RefusedOp(Exception):  # noqa: N818  # an expected outcome, not a fault
    """One op cannot be done; nothing was changed by it."""

    def __init__(self, code: ZkCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class Znode:
    """One znode. ``creates`` counts children ever made: the number a sequential child gets."""

    data: bytes | None
    acl: tuple[ZnodeAcl, ...]
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    creates: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        """As clients see it: cversion counts both creations and deletions of children."""
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            self.creates * 2 - len(self.children),
            0,
            self.ephemeral_owner,
            len(self.data) if self.data is not None else 0,
            len(self.children),
            self.pzxid,
        )


def parent_of(path: str) -> str:
    """Path of the parent; the root is its own.

    >>> parent_of("/a/b"), parent_of("/a"), parent_of("/")
    ('/a', '/', '/')
    """
    return path[: path.rindex("/")] or "/"


def _check_path(path: str) -> None:
    parts = path.split("/")
    if (
        not path.startswith("/")
        or (len(path) > 1 and "" in parts[1:])
        or "." in parts
        or ".." in parts
        or _BAD_CHARACTER.search(path)
    ):
        raise RefusedOp(ZkCode.BAD_ARGUMENTS)


class ServerTree:
    """All znodes by path, and the last zxid.

    ``changed`` takes the path of every znode that is written, made or removed, for the onlookers.
    ``locked``: paths whose ACL gives clients nothing but to see that the znode exists;
    ``read_only``: those that may be read as well.
    """

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Znode] = {}
        for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            self.nodes[path] = Znode(b"", (), 0, 0, 0, 0, 0)
            if path != "/":
                self.nodes[parent_of(path)].children.add(path.rsplit("/", 1)[1])
        self.changed: set[str] = set()
        self.refused = 0
        """Multis of which nothing was done."""
        self.locked: set[str] = set()
        self.read_only: set[str] = set()
        self._undo: dict[str, Znode | None] | None = None

    def get(self, path: str) -> Znode:
        """The znode at ``path``.

        Raises:
            Refused: NO_NODE.
        """
        node = self.nodes.get(path)
        if node is None:
            raise RefusedOp(ZkCode.NO_NODE)
        return node

    def permit(self, path: str, *, write: bool) -> None:
        """Ask the ACL of ``path``; ``write``: for any of the rights but READ.

        Raises:
            Refused: NO_AUTH.
        """
        if path in self.locked or (write and path in self.read_only):
            raise RefusedOp(ZkCode.NO_AUTH)

    def write(self, op: ZkOp, session_id: int, now_ms: int) -> OpValue:
        """Do one op as a transaction of its own; a refused one uses up a zxid as well."""
        self.zxid += 1
        return self._apply(op, session_id, now_ms)

    def multi(
        self, ops: Sequence[ZkOp], session_id: int, now_ms: int
    ) -> list[OpValue] | tuple[int, ZkCode]:
        """Do all ops or none, as one transaction.

        Returns:
            One value per op, or index and code of the op that failed.
        """
        self.zxid += 1
        self._undo = {}
        changed = set(self.changed)
        values: list[OpValue] = []
        try:
            for index, op in enumerate(ops):
                try:
                    values.append(self._apply(op, session_id, now_ms))
                except RefusedOp as refused:
                    self._roll_back()
                    self.changed.intersection_update(changed)
                    self.refused += 1
                    return index, refused.code
        finally:
            self._undo = None
        return values

    def end_session(self, session_id: int) -> None:
        """Remove the session's ephemeral znodes, as one transaction."""
        self.zxid += 1
        owned = [path for path, node in self.nodes.items() if node.ephemeral_owner == session_id]
        for path in owned:
            self._remove(path)

    def _apply(self, op: ZkOp, session_id: int, now_ms: int) -> OpValue:
        match op:
            case Create():
                return self._create(op, session_id, now_ms)
            case SetData():
                _check_path(op.path)
                self.get(op.path)
                self.permit(op.path, write=True)
                node = self._expect(op.path, op.version)
                self._touch(op.path)
                node.data = op.data
                node.version += 1
                node.mzxid = self.zxid
                node.mtime_ms = now_ms
                return node.stat()
            case Delete():
                if not op.path.startswith("/") or op.path in _SPECIAL:
                    raise RefusedOp(ZkCode.BAD_ARGUMENTS)
                self.get(op.path)
                self.permit(parent_of(op.path), write=True)
                node = self._expect(op.path, op.version)
                if node.children:
                    raise RefusedOp(ZkCode.NOT_EMPTY)
                self._remove(op.path)
            case Check():
                _check_path(op.path)
                self.get(op.path)
                self.permit(op.path, write=False)
                self._expect(op.path, op.version)
        return None

    def _expect(self, path: str, version: int) -> Znode:
        node = self.get(path)
        if version not in (ANY_VERSION, node.version):
            raise RefusedOp(ZkCode.BAD_VERSION)
        return node

    def _create(self, op: Create, session_id: int, now_ms: int) -> str:
        if not 0 <= op.flags <= EPHEMERAL | SEQUENTIAL or "/" not in op.path:
            raise RefusedOp(ZkCode.BAD_ARGUMENTS)
        parent_path = parent_of(op.path)
        if not op.acl:
            raise RefusedOp(ZkCode.INVALID_ACL)
        parent = self.get(parent_path)
        self.permit(parent_path, write=True)
        path = op.path
        if op.flags & SEQUENTIAL:
            path += f"{parent.creates:010d}"
        _check_path(path)
        if path in self.nodes:
            raise RefusedOp(ZkCode.NODE_EXISTS)
        if parent.ephemeral_owner:
            raise RefusedOp(ZkCode.NO_CHILDREN_FOR_EPHEMERALS)
        self._touch(parent_path)
        self._touch(path)
        parent.children.add(path.rsplit("/", 1)[1])
        parent.creates += 1
        parent.pzxid = self.zxid
        owner = session_id if op.flags & EPHEMERAL else 0
        self.nodes[path] = Znode(
            op.data, op.acl, self.zxid, self.zxid, self.zxid, now_ms, now_ms, owner
        )
        return path

    def _remove(self, path: str) -> None:
        parent_path = parent_of(path)
        self._touch(parent_path)
        self._touch(path)
        parent = self.nodes[parent_path]
        parent.children.remove(path.rsplit("/", 1)[1])
        parent.pzxid = self.zxid
        del self.nodes[path]

    def _touch(self, path: str) -> None:
        self.changed.add(path)
        if self._undo is not None and path not in self._undo:
            node = self.nodes.get(path)
            self._undo[path] = replace(node, children=set(node.children)) if node else None

    def _roll_back(self) -> None:
        assert self._undo is not None
        for path, node in self._undo.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
