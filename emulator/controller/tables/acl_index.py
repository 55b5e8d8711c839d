"""Access control entries found by the values that a filter names.

A request may have a thousand filters, and there may be 100,000 entries; comparing each with each
takes minutes. Here entries are in the order of those of name, principal and host that a filter
gives, then of their numbers: resource type, pattern type, operation, permission. So a filter costs
a look-up for each combination of numbers that occurs with its texts, and what it finds. An order is
made, in slices, when the first filter needs it, and follows the entries from then on. A filter that
names resources with few entries needs none.

Source: none; AclControlManager.deleteAclsForFilter, Kafka 3.9, compares each with each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice, product, takewhile
from typing import Any, Final, Generic, TypeAlias, TypeVar

from emulator.controller.rules.authorizer import guards
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
from emulator.metadata.pmap import PMap
from emulator.seam import RECORDS_PER_SLICE, Slices, listed

# Filters over access control entries, as DescribeAcls and DeleteAcls take them.
#
# Source: ResourcePatternFilter, AccessControlEntryFilter, AclControlManager.validateFilter,
# Kafka 3.9; KIP-290 (MATCH).

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


# A map in another order, which follows its changes.
#
# What a request looks for by something else than its key is found here without a look at each
# entry. Two versions of a map share most of their parts, so what has come and gone is found
# without a look at each entry too, whichever version is asked for: newest, committed, rewound,
# loaded. All of it is immutable, so two requests may look for something in turn, a slice of each.

K = TypeVar("K")
V = TypeVar("V")
Place: TypeAlias = tuple[Any, ...]


class Ordered(Generic[K, V]):
    """Makes the order of one version of a map from that of the version before, in slices.

    Args:
        places: of an entry; no two entries have the same.
    """

    def __init__(self, places: Callable[[K, V], Iterable[Place]]) -> None:
        self._places = places
        self._made: tuple[tuple[PMap[K, V], PMap[Place, V]], ...] = ((PMap(), PMap()),)
        """The last ones asked for, first: that of the newest version, and of what is committed."""

    def of(self, entries: PMap[K, V]) -> Slices[PMap[Place, V]]:
        """The values of a map by their places."""
        for at, (seen, order) in enumerate(self._made):
            if seen is entries:
                if at:  # the next version is likely one of this map
                    self._made = (self._made[at], self._made[0])
                return order
        before = seen, order = self._made[0]
        gone, come = seen.apart(entries)
        if len(gone) == len(seen):
            # A map of another node, or small: no step may depend on what the process did before.
            gone, order = {}, PMap()
        for some in _lacking(gone, come):
            order = order.without([one for key in some for one in self._places(key, some[key])])
            yield
        for some in _lacking(come, gone):
            order = order.update(
                {one: some[key] for key in some for one in self._places(key, some[key])}
            )
            yield
        self._made = ((entries, order), before)
        return order


def beginning(order: PMap[Place, V], begin: Place) -> Iterator[Place]:
    """The places that begin so, ascending."""
    length = len(begin)
    return takewhile(lambda place: place[:length] == begin, order.since(begin))


def _lacking(some: Mapping[K, V], others: Mapping[K, V]) -> Iterator[dict[K, V]]:
    """Entries that the others lack, part by part."""
    entries = iter(some.items())
    while part := dict(islice(entries, RECORDS_PER_SLICE)):
        yield {key: value for key, value in part.items() if others.get(key) != value}


Numbers: TypeAlias = tuple[int, ...]
"""Resource type, pattern type, operation, permission; in a filter 1 (ANY) for one not given."""
Given: TypeAlias = tuple[bool, bool, bool]
"""Whether a filter gives a name, a principal, a host."""

_MATCH: Final = int(PatternType.MATCH)
_ANY: Final = 1
"""The number of ANY in each of the four enums."""


NAMED_MAX: Final = 100
"""Entries of the resources that a filter names which are compared with it one by one."""


def _ordered(given: Given) -> Ordered[bytes, Acl]:
    """By the texts that such a filter gives, then by numbers, resource and id."""
    named, owned, placed = given

    def places(acl_id: bytes, acl: Acl) -> tuple[Place]:
        kind, pattern, name = acl.resource
        place: list[object] = [pattern, name] if named else []
        if owned:
            place.append(acl.principal)
        if placed:
            place.append(acl.host)
        return ((*place, kind, pattern, acl.operation, acl.permission, name, acl_id),)

    return Ordered(places)


_ORDERED: Final[dict[Given, Ordered[bytes, Acl]]] = {
    (named, owned, placed): _ordered((named, owned, placed))
    for named, owned, placed in product((False, True), repeat=3)
}


class AclIndex:
    """The entries of one image, for the filters of one request."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._numbers: dict[tuple[Given, Place], list[Numbers]] = {}

    def find(self, wanted: AclFilter) -> Slices[list[Entry]]:
        """Entries that match, with their ids, by resource and id."""
        names: dict[Place, None] = {(): None}
        if wanted.name is not None:
            named = wanted.candidates(self.image)
            if sum(len(group) for _, group in named) <= NAMED_MAX:
                return wanted.find(self.image)
            names = dict.fromkeys(resource[1:] for resource, _ in named)
        given = (wanted.name is not None, wanted.principal is not None, wanted.host is not None)
        order = yield from _ORDERED[given].of(self.image.acls)
        rest = [text for text in (wanted.principal, wanted.host) if text is not None]
        found: list[list[Entry]] = []
        for name in names:
            texts = (*name, *rest)
            for numbers in self._occurring(order, given, texts):
                if _fit(numbers, wanted):
                    places = beginning(order, (*texts, *numbers))
                    found.append((yield from listed(lambda at: (at[-1], order[at]), places)))
        if len(found) == 1:
            return found[0]
        return (yield from listed(_itself, merge(*found, key=by_resource_and_id)))

    def _occurring(self, order: PMap[Place, Acl], given: Given, texts: Place) -> list[Numbers]:
        """The numbers of entries with these texts: some hundred combinations at most."""
        known = self._numbers.get((given, texts))
        if known is None:
            known = self._numbers[given, texts] = []
            begin, at = texts, len(texts)
            while (place := next(order.since(begin), ()))[:at] == texts and place:
                known.append(place[at : at + 4])
                begin = (*place[: at + 3], place[at + 3] + 1)
        return known


def _itself(entry: Entry) -> Entry:
    return entry


def _fit(numbers: Numbers, wanted: AclFilter) -> bool:
    kind, pattern, operation, permission = numbers
    return (
        wanted.resource_type in {_ANY, kind}
        and wanted.pattern_type in {_ANY, _MATCH, pattern}
        and wanted.operation in {_ANY, operation}
        and wanted.permission in {_ANY, permission}
    )
