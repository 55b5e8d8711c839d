"""Access control entries found by the values that a filter names.

A request may have a thousand filters, and there may be 100,000 entries; comparing each with each
takes minutes. Here entries are grouped by those of name, principal and host that a filter gives,
and each group by those of its numbers that a filter gives: resource type, pattern type, operation,
permission. So a filter costs two look-ups, or two for each length of prefix that occurs, and what
it finds. Groups are made, in slices, when the first filter needs them, and kept until an entry
changes. A filter that names resources with few entries needs none.

Source: none; AclControlManager.deleteAclsForFilter, Kafka 3.9, compares each with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from typing import Final, TypeAlias

from emulator.controller.acl_filter import AclFilter, Entry, by_resource_and_id
from emulator.metadata.acls import (
    WILDCARD,
    PatternType,
)
from emulator.metadata.image import Image
from emulator.slices import RECORDS_PER_SLICE, Kept, Pace, Same, Slices, listed

Numbers: TypeAlias = tuple[int, ...]
"""Resource type, pattern type, operation, permission; 1 (ANY) for those that are not given."""
Given: TypeAlias = tuple[bool, bool, bool]
"""Whether a filter gives a name, a principal, a host."""
Key: TypeAlias = tuple[tuple[int, str] | None, str | None, str | None]
"""Pattern type and name, principal, host; None: not given."""

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_MATCH: Final = int(PatternType.MATCH)
_ANY: Final = 1
"""The number of ANY in each of the four enums."""


NAMED_MAX: Final = 100
"""Entries of the resources that a filter names which are compared with it one by one."""


class AclIndex:
    """The entries of one image. Two requests may look for something in turn, a slice of each."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._groups: dict[Given, dict[Key, list[Entry]]] = {}
        self._by_numbers: dict[tuple[Key, tuple[bool, ...]], dict[Numbers, list[Entry]]] = {}
        self._lengths: list[int] | None = None
        """The lengths of prefixes that occur; None: nobody has asked yet."""

    @classmethod
    def of(cls, image: Image) -> AclIndex:
        """The one of the last request, as long as no entry has changed."""
        key = Same(image.acls)
        return _KEPT.find(key) or _KEPT.keep(key, cls(image))

    def find(self, wanted: AclFilter) -> Slices[list[Entry]]:
        """Entries that match, with their ids, by resource and id."""
        if wanted.name is not None:
            named = wanted.candidates(self.image)
            if sum(len(group) for _, group in named) <= NAMED_MAX:
                return wanted.find(self.image)
        given = (wanted.name is not None, wanted.principal is not None, wanted.host is not None)
        groups = self._groups.get(given)
        if groups is None:
            groups = self._groups[given] = yield from self._group(given)
        found: list[Sequence[Entry]] = []
        for name in (yield from self._names(wanted)):
            key = (name, wanted.principal, wanted.host)
            members = groups.get(key)
            if members is not None:
                found.append((yield from self._numbered(key, members, _numbers(wanted))))
        return (yield from listed(_itself, merge(*found, key=by_resource_and_id)))

    def _group(self, given: Given) -> Slices[dict[Key, list[Entry]]]:
        named, owned, placed = given
        groups: dict[Key, list[Entry]] = {}
        pace = Pace(RECORDS_PER_SLICE)
        # In the order in which they are told.
        for resource, entries in self.image.acls_by_resource.items():
            name = resource[1:] if named else None
            for entry in entries.items():
                if pace.over():
                    yield
                acl = entry[1]
                key = (name, acl.principal if owned else None, acl.host if placed else None)
                groups.setdefault(key, []).append(entry)
        return groups

    def _numbered(
        self, key: Key, members: Sequence[Entry], wanted: Numbers
    ) -> Slices[Sequence[Entry]]:
        """Those of ``members``, which have this key, whose numbers are the wanted ones."""
        given = tuple(number != _ANY for number in wanted)
        known = self._by_numbers.get((key, given))
        if known is None:
            known = {}
            pace = Pace(RECORDS_PER_SLICE)
            for entry in members:
                if pace.over():
                    yield
                acl = entry[1]
                kind, pattern, _name = acl.resource
                numbers = (kind, pattern, acl.operation, acl.permission)
                seen = tuple(n if told else _ANY for n, told in zip(numbers, given, strict=True))
                known.setdefault(seen, []).append(entry)
            self._by_numbers[key, given] = known
        return known.get(wanted, ())

    def _names(self, wanted: AclFilter) -> Slices[list[tuple[int, str] | None]]:
        """The pattern types and names that a filter covers."""
        if wanted.name is None:
            return [None]
        if wanted.pattern_type != PatternType.MATCH:
            return [(_LITERAL, wanted.name), (_PREFIXED, wanted.name)]
        if self._lengths is None:
            lengths: set[int] = set()
            pace = Pace(RECORDS_PER_SLICE)
            for one in self.image.acls_by_resource:
                if pace.over():
                    yield
                if one.pattern_type == _PREFIXED:
                    lengths.add(len(one.name))
            self._lengths = sorted(lengths)
        literals = dict.fromkeys((wanted.name, WILDCARD))
        most = len(wanted.name)
        return [
            *((_LITERAL, literal) for literal in literals),
            *((_PREFIXED, wanted.name[:length]) for length in self._lengths if length <= most),
        ]


_KEPT: Final = Kept[AclIndex]()


def _itself(entry: Entry) -> Entry:
    return entry


def _numbers(wanted: AclFilter) -> Numbers:
    """The numbers that a filter gives, and ANY for the others."""
    pattern = _ANY if wanted.pattern_type == _MATCH else wanted.pattern_type
    return wanted.resource_type, pattern, wanted.operation, wanted.permission
