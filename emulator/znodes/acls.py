"""``/kafka-acl`` and ``/kafka-acl-extended``: access control entries, and their notifications.

One znode per resource holds all its entries: ``/kafka-acl/<Type>/<name>`` for literal names (``*``
is the wildcard), ``/kafka-acl-extended/prefixed/<Type>/<name>`` for prefixes. The name is in the
path without encoding, so not every name is possible: :func:`storable`. A log may hold entries for
impossible names; they are left out. Entries are a set; their order has no meaning. The znode is
deleted with its last entry.

A ZooKeeper-mode broker watches ``/kafka-acl-changes`` and ``/kafka-acl-extended-changes``, so every
change of a resource comes with a notification. Missing folders, where no AclAuthorizer has ever
run, are created (Kafka 3.9 drops the change then, and its next failover never ends).

Folders of other resource types and pattern types are left alone: no broker reads them.

Source: kafka.zk.{ResourceZNode,ZkAclStore,LiteralAclChangeStore,ExtendedAclChangeStore},
kafka.security.authorizer.AclEntry, org.apache.kafka.common.utils.SecurityUtils, Kafka 3.9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, TypeVar

import msgspec

from emulator.metadata.acls import Acl, Operation, PatternType, Permission, Resource, ResourceType
from emulator.metadata.acls import record_of as _record_of
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.metadata.znodes import why_no_name
from emulator.znodes.entity import Nodes, Record, Refusal
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode, encode, require_short
from emulator.zookeeper.ops import SEQUENTIAL, Create, Delete, SetData, ZkOp
from wire import records as r
from wire.text import uuid_text

LITERAL: Final = "/kafka-acl"
EXTENDED: Final = "/kafka-acl-extended"
PREFIXED: Final = f"{EXTENDED}/prefixed"
CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
CHANGE: Final = "acl_changes_"

_ROOTS: Final = {PatternType.LITERAL: LITERAL, PatternType.PREFIXED: PREFIXED}

_Enum = TypeVar("_Enum", bound=IntEnum)


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _names(kind: type[_Enum], lowest: int) -> dict[str, _Enum]:
    """Names as Kafka reads them: PascalCase, or the same in capitals; only stored values."""
    pairs = [(_pascal(one.name), one) for one in kind if one >= lowest]
    return {name: one for pascal, one in pairs for name in (pascal.upper(), pascal)}


_OPERATIONS: Final = _names(Operation, Operation.ALL)
_PERMISSIONS: Final = _names(Permission, Permission.DENY)
_OPERATION_NAMES: Final = {int(one): _pascal(one.name) for one in Operation}
_PERMISSION_NAMES: Final = {int(one): _pascal(one.name) for one in Permission}
_TYPES: Final = {_pascal(one.name): one for one in ResourceType if one >= ResourceType.TOPIC}


class _EntryJson(msgspec.Struct):
    principal: str
    permissionType: str  # noqa: N815 - Kafka's key
    operation: str
    host: str


class _AclsJson(msgspec.Struct):
    version: int
    acls: list[_EntryJson]


class _AclChangeJson(msgspec.Struct):
    version: int
    resourceType: str  # noqa: N815 - Kafka's key
    name: str
    patternType: str  # noqa: N815 - Kafka's key


def path_of(resource: Resource) -> str:
    """Path of a resource's znode.

    >>> path_of(Resource(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, "tx-"))
    '/kafka-acl-extended/prefixed/TransactionalId/tx-'
    """
    kind = _pascal(ResourceType(resource.resource_type).name)
    return f"{_ROOTS[PatternType(resource.pattern_type)]}/{kind}/{resource.name}"


def resource_of(path: str) -> Resource | None:
    """The resource of a znode path; None for a folder and a path that no broker reads.

    >>> resource_of("/kafka-acl/Group/*")
    Resource(resource_type=3, pattern_type=3, name='*')
    """
    for pattern, root in _ROOTS.items():
        folder, _, name = path.removeprefix(f"{root}/").partition("/")
        kind = _TYPES.get(folder)
        if path.startswith(f"{root}/") and kind is not None and name and "/" not in name:
            return Resource(int(kind), int(pattern), name)
    return None


def storable(resource: Resource) -> str | None:
    """Why ZooKeeper cannot hold a resource's entries; None if it can.

    Kafka accepts such a resource and then fails to write it, at that and at every later failover.

    >>> storable(Resource(ResourceType.GROUP, PatternType.LITERAL, "a/b"))
    "the resource name 'a/b' contains '/', so it cannot be the name of a znode"
    """
    why = why_no_name(resource.name)
    if why is None:
        return None
    return f"the resource name {resource.name!r} {why}, so it cannot be the name of a znode"


def left_out(image: Image) -> Iterator[tuple[str, str]]:
    """Resources with entries in the log but no possible znode: the path it would have, and why.

    A log begun by a Kafka controller may hold them. Brokers that read ACLs from ZooKeeper never had
    these entries.
    """
    for resource in image.acls_by_resource:
        why = storable(resource)
        if why is not None:
            yield path_of(resource), why


def parse(path: str, data: bytes | None) -> frozenset[Acl]:
    """Read the entries of one resource; no data is no entry.

    Raises:
        ZnodeError: malformed, a version other than 1, an invalid operation or permission, a
            principal without a type, or a string too long for a record.
    """
    resource = resource_of(path)
    if resource is None:
        raise ZnodeError(path, "is not where access control entries are kept")
    if not data:
        return frozenset()
    found = decode(path, data, _AclsJson)
    if found.version != 1:
        raise ZnodeError(path, f"version {found.version} of access control entries is unknown")
    return frozenset(_entry(path, resource, entry) for entry in found.acls)


def _entry(path: str, resource: Resource, entry: _EntryJson) -> Acl:
    operation = _OPERATIONS.get(entry.operation)
    if operation is None:
        raise ZnodeError(path, f"{entry.operation!r} is no operation of an entry")
    permission = _PERMISSIONS.get(entry.permissionType)
    if permission is None:
        raise ZnodeError(path, f"{entry.permissionType!r} is no permission: Allow or Deny")
    if ":" not in entry.principal:
        raise ZnodeError(path, f"the principal {entry.principal!r} has no type, as in User:name")
    for text in (resource.name, entry.principal, entry.host):
        require_short(path, text, text)
    return Acl(resource, entry.principal, entry.host, int(operation), int(permission))


def entries_data(entries: Iterable[Acl]) -> bytes:
    """Render the entries of one resource, each once, sorted."""
    ordered = sorted({(a.principal, a.permission, a.operation, a.host) for a in entries})
    shown = [
        _EntryJson(principal, _PERMISSION_NAMES[permission], _OPERATION_NAMES[operation], host)
        for principal, permission, operation, host in ordered
    ]
    return encode(_AclsJson(1, shown))


def resources(tree: Tree) -> Iterator[Resource]:
    """Every resource a tree has a znode for, by pattern type, resource type, name."""
    for pattern, root in _ROOTS.items():
        for folder, kind in _TYPES.items():
            for name in tree.children(f"{root}/{folder}"):
                yield Resource(int(kind), int(pattern), name)


def ignored(tree: Tree) -> Iterator[str]:
    """Paths of znodes with data below the roots where no broker looks for entries."""
    for root in (LITERAL, EXTENDED):
        for path in tree.below(root):
            if tree.data(path) and resource_of(path) is None:
                yield path


def read(tree: Tree, resource: Resource) -> frozenset[Acl]:
    """The entries of one resource of a tree; none when its znode is absent.

    Raises:
        ZnodeError: malformed.
    """
    path = path_of(resource)
    return parse(path, tree.data(path))


def resource_records(tree: Tree, resource: Resource) -> Iterator[r.AccessControlEntryRecord]:
    """Yield the records of one resource, in the order in which it would be written.

    Raises:
        ZnodeError: malformed.
    """
    entries = read(tree, resource)
    for acl in sorted(entries, key=lambda a: (a.principal, a.permission, a.operation, a.host)):
        yield _record_of(entry_id(acl), acl)


def entry_id(acl: Acl) -> bytes:
    """The id for a copied entry; entries in ZooKeeper have none.

    Kafka draws one at random; here it is derived from the entry, so that a repeated copy gives the
    same records. It has the format of a random one (RFC 9562 version 4) and, as in Kafka, never
    begins with ``-``.
    """
    parts = (acl.principal, acl.host, acl.operation, acl.permission, *acl.resource)
    seed = msgspec.json.encode(parts)
    while True:
        seed = hashlib.sha256(seed).digest()
        found = bytearray(seed[:16])
        found[6] = found[6] & 0x0F | 0x40
        found[8] = found[8] & 0x3F | 0x80
        if not uuid_text(bytes(found)).startswith("-"):
            return bytes(found)


def same(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two znodes hold the same entries.

    Raises:
        ZnodeError: one of them is malformed.
    """
    return parse(path, one) == parse(path, other)


def notification(path: str) -> Create:
    """Make ZooKeeper-mode brokers read the znode of a resource again, deleted or changed.

    >>> notification("/kafka-acl/TransactionalId/*").data
    b'TRANSACTIONAL_ID:*'
    >>> notification("/kafka-acl-extended/prefixed/Group/g").data
    b'{"version":1,"resourceType":"GROUP","name":"g","patternType":"PREFIXED"}'
    """
    resource = resource_of(path)
    assert resource is not None, path
    kind = ResourceType(resource.resource_type).name
    if resource.pattern_type == PatternType.LITERAL:
        text = f"{kind}:{resource.name}".encode()
        return Create(f"{CHANGES}/{CHANGE}", text, flags=SEQUENTIAL)
    pattern = PatternType(resource.pattern_type).name
    change = encode(_AclChangeJson(1, kind, resource.name, pattern))
    return Create(f"{EXTENDED_CHANGES}/{CHANGE}", change, flags=SEQUENTIAL)


class AccessControlEntries:
    """Access control entries. A key is their resource."""

    name = "acls"
    roots = (LITERAL, EXTENDED)
    folders = (CHANGES, EXTENDED_CHANGES)

    def owns(self, path: str) -> bool:
        """A resource's znode."""
        return resource_of(path) is not None

    def refusals(self, tree: Tree, _version: MetadataVersion) -> Iterator[Refusal | None]:
        """Malformed znodes."""
        for resource in resources(tree):
            try:
                read(tree, resource)
                yield None
            except ZnodeError as error:
                yield Refusal.of(error)

    def records(self, tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """One record per entry, resource by resource."""
        for resource in resources(tree):
            yield resource_records(tree, resource)

    def leftovers(self, image: Image) -> Iterator[Record]:
        """One removal per entry."""
        for acl_id in image.acls:
            yield r.RemoveAccessControlEntryRecord(id=acl_id)

    def keys(self, image: Image) -> Iterable[Resource]:
        """Every resource with entries."""
        return image.acls_by_resource

    def touched(self, touched: Touched) -> Iterable[Resource]:
        """Every resource whose entries records named."""
        return sorted(touched.acls)

    def nodes(self, image: Image, key: Resource) -> Nodes:
        """The resource's znode, if it has entries and ZooKeeper can have a znode of that name."""
        entries = image.resource_acls(key)
        if not entries or why_no_name(key.name) is not None:
            return {}
        return {path_of(key): entries_data(entries.values())}

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Entries are a set."""
        return same(path, one, other)

    def gone(self, path: str, _data: bytes | None) -> Delete | SetData | None:
        """Deleted with the last entry."""
        return Delete(path)

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """One notification per write of a resource, removals included."""
        return (notification(op.path),) if self.owns(op.path) else ()
