"""Access control entries, by id and by resource.

Source: AccessControlEntryRecord, RemoveAccessControlEntryRecord; AclControlManager.replay,
Kafka 3.9; KIP-290, KIP-801.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from emulator.metadata.pmap import PMap
from wire import records as r


class ResourceType(IntEnum):
    """org.apache.kafka.common.resource.ResourceType; only 2 and above are ever stored."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """org.apache.kafka.common.resource.PatternType; only 3 and 4 are ever stored."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """org.apache.kafka.common.acl.AclOperation; UNKNOWN and ANY are never stored."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """org.apache.kafka.common.acl.AclPermissionType; only 2 and 3 are ever stored."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
"""Wildcard: every resource name, every host, or every user in ``User:*``."""


class Resource(NamedTuple):
    """The resource of an entry: numbers of ResourceType and PatternType, and the name."""

    resource_type: int
    pattern_type: int
    name: str


class Acl(msgspec.Struct, frozen=True, gc=False):
    """One access control entry; ``principal`` is ``Type:name``."""

    resource: Resource
    principal: str
    host: str
    operation: int
    permission: int


Acls: TypeAlias = PMap[bytes, Acl]
"""By id (16 bytes)."""
ResourceAcls: TypeAlias = PMap[bytes, Acl]
"""Those of one resource, by id."""
AclsByResource: TypeAlias = PMap[Resource, ResourceAcls]

NONE: Final[ResourceAcls] = PMap()


def of_record(record: r.AccessControlEntryRecord) -> Acl:
    """The entry a record holds."""
    return Acl(
        Resource(record.resource_type, record.pattern_type, record.resource_name),
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def record_of(acl_id: bytes, acl: Acl) -> r.AccessControlEntryRecord:
    """The record that adds an entry."""
    return r.AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
