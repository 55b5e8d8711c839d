"""Filters over access control entries, as DescribeAcls and DeleteAcls take them.

Source: ResourcePatternFilter, AccessControlEntryFilter, AclControlManager.validateFilter,
Kafka 3.9; KIP-290 (MATCH).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from emulator.controller.authorizer import guards
from emulator.metadata.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceAcls,
    ResourceType,
)
from emulator.metadata.image import Image

Entry: TypeAlias = tuple[bytes, Acl]
"""Id and entry."""
_Kind: TypeAlias = type[ResourceType | PatternType | Operation | Permission]
_KINDS: Final[tuple[_Kind, ...]] = (ResourceType, PatternType, Operation, Permission)
_VALID: Final = {kind: frozenset(map(int, kind)) - {0} for kind in _KINDS}
_STORED_TYPES: Final = tuple(int(one) for one in ResourceType if one > ResourceType.ANY)
_STORED: Final = (int(PatternType.LITERAL), int(PatternType.PREFIXED))


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which entries to select: numbers of the enums; ANY (1) or None selects every value.

    With a ``name`` and the pattern type MATCH it selects every entry that applies to that name.
    """

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def problem(self) -> str | None:
        """Why the filter is invalid; None if it is valid."""
        if not _known(ResourceType, self.resource_type) or not _known(
            PatternType, self.pattern_type
        ):
            return "Unknown patternFilter."
        if not _known(Operation, self.operation) or not _known(Permission, self.permission):
            return "Unknown entryFilter."
        return None

    def find(self, image: Image) -> list[Entry]:
        """Entries that match, with their ids, by resource and id."""
        return [entry for _, entries in self.by_resource(image) for entry in entries]

    def by_resource(self, image: Image) -> Iterator[tuple[Resource, list[Entry]]]:
        """The same, resource by resource; those without a match are left out."""
        everyone = self.principal is None and self.host is None
        everyone = everyone and self.operation == Operation.ANY
        everyone = everyone and self.permission == Permission.ANY
        for resource, acls in self.candidates(image):
            if not self._covers(resource):
                continue
            entries = [entry for entry in acls.items() if everyone or self._fits(entry[1])]
            if entries:
                yield resource, entries

    def candidates(self, image: Image) -> Collection[tuple[Resource, ResourceAcls]]:
        """Resources that may match: some if the filter has a name, else all."""
        if self.name is None:
            return image.acls_by_resource.items()
        kinds = [self.resource_type] if self.resource_type != ResourceType.ANY else _STORED_TYPES
        if self.pattern_type == PatternType.MATCH:
            acls = image.acls_by_resource
            return sorted(
                (one for kind in kinds for one in guards(acls, kind, self.name)), key=_key
            )
        keys = (Resource(kind, pattern, self.name) for kind in kinds for pattern in _STORED)
        return [(key, image.resource_acls(key)) for key in keys]

    def _covers(self, resource: Resource) -> bool:
        if self.resource_type not in {ResourceType.ANY, resource.resource_type}:
            return False
        exact = self.pattern_type in {PatternType.ANY, resource.pattern_type}
        if self.name is None:
            return exact or self.pattern_type == PatternType.MATCH
        if exact:
            return self.name == resource.name
        if self.pattern_type != PatternType.MATCH:
            return False
        if resource.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name in {self.name, WILDCARD}

    def _fits(self, acl: Acl) -> bool:
        return (
            (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )


def by_resource_and_id(entry: Entry) -> tuple[Resource, bytes]:
    """The key by which entries are sorted."""
    return entry[1].resource, entry[0]


def _key(found: tuple[Resource, ResourceAcls]) -> Resource:
    return found[0]


def _known(kind: _Kind, number: int) -> bool:
    return number in _VALID[kind]
