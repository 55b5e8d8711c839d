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

from heapq import merge
from itertools import product
from typing import Final, TypeAlias

from emulator.controller.acl_filter import AclFilter, Entry, by_resource_and_id
from emulator.controller.ordered import Ordered, Place, beginning
from emulator.metadata.acls import Acl, PatternType
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.seam import Slices, listed

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
