"""Requests to ZooKeeper and their results: frozen values without behaviour.

Paths are absolute, without the chroot and without a trailing slash. ``data=None`` is a znode
created without data (a null byte array in Java); ``b""`` is empty data. ZooKeeper distinguishes
them, and so does this client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec

ANY_VERSION = -1
EPHEMERAL = 1
SEQUENTIAL = 2


class ZnodeAcl(msgspec.Struct, frozen=True):
    """One access rule; ``perms`` is the sum of read 1, write 2, create 4, delete 8, admin 16."""

    perms: int
    scheme: str
    id: str


OPEN: tuple[ZnodeAcl, ...] = (ZnodeAcl(31, "world", "anyone"),)


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a znode. With ``SEQUENTIAL`` ten digits are added to the path.

    The answer is the real path. Where ACLs are asked for, the class of the path decides (``acl``).
    """

    path: str
    data: bytes | None
    acl: tuple[ZnodeAcl, ...] = OPEN
    flags: int = 0


class SetData(msgspec.Struct, frozen=True, gc=False):
    """Replace a znode's data if its version is the expected one (-1: any).

    The answer is its ``Stat``.
    """

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove a znode without children if its version is the expected one (-1: any)."""

    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Only inside a ``Multi``: refuse the whole multi unless the znode has this version."""

    path: str
    version: int


class GetData(msgspec.Struct, frozen=True, gc=False):
    """Read data and stat; the answer is a ``NodeData``.

    ``watch``: report the next change of data and the deletion, once, if the znode exists now. A
    ``MultiRead`` sets no watches.
    """

    path: str
    watch: bool = False


class GetChildren(msgspec.Struct, frozen=True, gc=False):
    """Names of the children, in no order; the answer is a tuple of names.

    ``watch``: report the next change of the names, and the deletion, once.
    """

    path: str
    watch: bool = False


class Exists(msgspec.Struct, frozen=True, gc=False):
    """The ``Stat`` alone.

    ``watch``: report the next creation, change of data or deletion, once, also if it does not
    exist now.
    """

    path: str
    watch: bool = False


class Sync(msgspec.Struct, frozen=True):
    """Make this server catch up with the leader before it serves later requests."""

    path: str = "/"


class CloseSession(msgspec.Struct, frozen=True):
    """End the session: its ephemerals go, and none of its requests can be applied any more."""


@dataclass(frozen=True, slots=True)
class SaslToken:
    """One step of a SASL login; the answer is the server's token, or None where it has no SASL."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AddAuth:
    """Give the session one more identity; the answer is None."""

    scheme: str
    auth: bytes = field(repr=False)


ZkOp: TypeAlias = Create | SetData | Delete | Check
ZkRead: TypeAlias = GetData | GetChildren


class Multi(msgspec.Struct, frozen=True, gc=False):
    """All ops or none. The answer is one value per op.

    Path (create), ``Stat`` (set), None (others).

    ``body``: the ops as the client's ``op_bytes`` encodes them, one after the other; None: they are
    encoded when they are sent. With it, the answer has the values of the last two ops only.
    """

    ops: tuple[ZkOp, ...]
    body: bytes | None = None


class MultiRead(msgspec.Struct, frozen=True, gc=False):
    """Many reads in one request.

    An absent znode gives a ``ReadFailed`` for that read only.
    """

    reads: tuple[ZkRead, ...]


ZkRequest: TypeAlias = (
    Create
    | SetData
    | Delete
    | GetData
    | GetChildren
    | Exists
    | Sync
    | CloseSession
    | Multi
    | MultiRead
    | SaslToken
    | AddAuth
)


class Stat(NamedTuple):
    """A znode's stat, in the order of the wire. Times are ms since the epoch."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int
    pzxid: int


class NodeData(msgspec.Struct, frozen=True, gc=False):
    """Answer to ``GetData``."""

    data: bytes | None
    stat: Stat


class ReadFailed(msgspec.Struct, frozen=True, gc=False):
    """Answer to one read of a ``MultiRead`` that failed, usually ``NO_NODE``."""

    code: int


class Failure(msgspec.Struct, frozen=True):
    """Why a request was refused. ``index``.

    The failing op of a multi, -1 when it is the request as a whole.
    """

    code: int
    index: int = -1


ReadValue: TypeAlias = NodeData | tuple[str, ...] | ReadFailed
OpValue: TypeAlias = str | Stat | None
Value: TypeAlias = OpValue | bytes | NodeData | tuple[str, ...] | list[OpValue] | list[ReadValue]


class ZkResult(msgspec.Struct, frozen=True):
    """A request was served."""

    tag: object
    value: Value


class ZkFailed(msgspec.Struct, frozen=True):
    """A request was refused and changed nothing: see ``Failure``."""

    tag: object
    code: int
    index: int


class ZkLost(msgspec.Struct, frozen=True):
    """In doubt: it may or may not have been applied; only a read after the fence shows which."""

    tag: object


ZkOutcome: TypeAlias = ZkResult | ZkFailed | ZkLost


class WatchKind(IntEnum):
    """What happened to a watched znode (Watcher.Event.EventType)."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchFired(msgspec.Struct, frozen=True):
    """A watch was triggered, and is gone. ``kind`` is a ``WatchKind``, or a number unknown here."""

    path: str
    kind: int
