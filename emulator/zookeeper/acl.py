"""The ACLs of the znodes that we create: Kafka's, by class of path.

With ``zookeeper.set.acl=true`` the creator of a znode has all permissions and everybody may read
it. Znodes under paths with secrets are readable by the creator only; ``/consumers`` stays open for
old clients. ``setData`` never changes an ACL.

Source: kafka.zk.ZkData.defaultAcls, Kafka 3.9. The whole path decides. Kafka's migration uses only
the name of a config entity, and so leaves SCRAM credentials readable by everybody
(ZkConfigMigrationClient.tryWriteEntityConfig).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from emulator.zookeeper import jute
from emulator.zookeeper.ops import OPEN, Create, Multi, ZkOp, ZkRequest, ZnodeAcl

CREATOR_ALL: Final = (ZnodeAcl(31, "auth", ""),)
"""ZooKeeper replaces ``auth`` with every identity of the session."""
WORLD_READ: Final = (ZnodeAcl(1, "world", "anyone"),)
CREATOR_ALL_WORLD_READ: Final = CREATOR_ALL + WORLD_READ
SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
CONSUMERS: Final = "/consumers"


def acls(path: str) -> tuple[ZnodeAcl, ...]:
    """The ACLs of a new znode, by its path below the chroot.

    >>> acls("/config/users/alice") == CREATOR_ALL, acls("/brokers") == CREATOR_ALL_WORLD_READ
    (True, True)
    """
    if path == CONSUMERS:
        return OPEN
    return CREATOR_ALL if path.startswith(SENSITIVE) else CREATOR_ALL_WORLD_READ


def protected(request: ZkRequest) -> ZkRequest:
    """The same request with the ACLs of its path class in every create."""
    match request:
        case Create():
            return replace(request, acl=acls(request.path))
        case Multi(ops=ops, body=None):
            return Multi(tuple(protected_op(op) for op in ops))
        case _:
            return request


def protected_op(op: ZkOp) -> ZkOp:
    """The same for one operation of a multi."""
    return replace(op, acl=acls(op.path)) if isinstance(op, Create) else op


def op_size(op: ZkOp, chroot: str, *, set_acl: bool) -> int:
    """Bytes that an operation adds to a multi, with its path below the chroot and its ACLs."""
    return jute.op_size(protected_op(op) if set_acl else op, chroot)
