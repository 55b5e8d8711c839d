"""Filters over access control entries, as DescribeAcls and DeleteAcls take them.

Source: ResourcePatternFilter, AccessControlEntryFilter, AclControlManager.validateFilter,
Kafka 3.9; KIP-290 (MATCH).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from emulator.metadata.acls import (
    WILDCARD,
    Acl,
    AclsByResource,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceAcls,
    ResourceType,
)
from emulator.metadata.image import Image

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

    def find(self, image: Image) -> Iterator[tuple[bytes, Acl]]:
        """Entries that match, with their ids, by resource and id."""
        for resource, group in self._candidates(image.acls_by_resource):
            if self._covers(resource):
                yield from ((key, acl) for key, acl in group.items() if self._fits(acl))

    def _candidates(self, acls: AclsByResource) -> Iterable[tuple[Resource, ResourceAcls]]:
        """Resources that may match: one look-up if the filter gives a complete key, else all."""
        if self.name is None or self.pattern_type == PatternType.MATCH:
            return acls.items()
        kinds = [self.resource_type] if self.resource_type != ResourceType.ANY else _STORED_TYPES
        keys = (Resource(kind, pattern, self.name) for kind in kinds for pattern in _STORED)
        return [(key, group) for key in keys if (group := acls.get(key)) is not None]

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
            self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )


def _known(kind: type[ResourceType | PatternType | Operation | Permission], number: int) -> bool:
    return number != kind.UNKNOWN and number in list(kind)
