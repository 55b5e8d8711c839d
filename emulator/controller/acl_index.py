"""Access control entries found by the values that a filter names.

A request may have a thousand filters, and there may be ten thousand entries; comparing each with
each takes seconds. Here entries are grouped by those of name, principal and host that a filter
gives, and each group by those of its numbers that a filter gives: resource type, pattern type,
operation, permission. So a filter costs two look-ups, or two for each length of prefix that occurs,
and what it finds. Groups are made when the first filter needs them.

Source: none; AclControlManager.deleteAclsForFilter, Kafka 3.9, compares each with each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from emulator.controller.acl_filter import AclFilter, Entry, by_resource_and_id
from emulator.metadata.acls import (
    WILDCARD,
    PatternType,
)
from emulator.metadata.image import Image

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


class AclIndex:
    """The entries of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._groups: dict[Given, dict[Key, list[Entry]]] = {}
        self._by_numbers: dict[tuple[Key, tuple[bool, ...]], dict[Numbers, list[Entry]]] = {}

    @cached_property
    def _lengths(self) -> list[int]:
        """The lengths of prefixes that occur."""
        resources = self._image.acls_by_resource
        return sorted({len(one.name) for one in resources if one.pattern_type == _PREFIXED})

    def find(self, wanted: AclFilter) -> list[Entry]:
        """Entries that match, with their ids, by resource and id."""
        given = (wanted.name is not None, wanted.principal is not None, wanted.host is not None)
        groups = self._groups.get(given)
        if groups is None:
            groups = self._groups[given] = self._group(given)
        found: list[Entry] = []
        for name in self._names(wanted):
            key = (name, wanted.principal, wanted.host)
            members = groups.get(key)
            if members is not None:
                found += self._numbered(key, members, _numbers(wanted))
        found.sort(key=by_resource_and_id)
        return found

    def _group(self, given: Given) -> dict[Key, list[Entry]]:
        named, owned, placed = given
        groups: dict[Key, list[Entry]] = {}
        for entry in self._image.acls.items():
            acl = entry[1]
            key = (
                acl.resource[1:] if named else None,
                acl.principal if owned else None,
                acl.host if placed else None,
            )
            groups.setdefault(key, []).append(entry)
        return groups

    def _numbered(self, key: Key, members: Sequence[Entry], wanted: Numbers) -> Sequence[Entry]:
        """Those of ``members``, which have this key, whose numbers are the wanted ones."""
        given = tuple(number != _ANY for number in wanted)
        known = self._by_numbers.get((key, given))
        if known is None:
            known = self._by_numbers[key, given] = {}
            for entry in members:
                acl = entry[1]
                kind, pattern, _name = acl.resource
                numbers = (kind, pattern, acl.operation, acl.permission)
                seen = tuple(n if told else _ANY for n, told in zip(numbers, given, strict=True))
                known.setdefault(seen, []).append(entry)
        return known.get(wanted, ())

    def _names(self, wanted: AclFilter) -> Iterator[tuple[int, str] | None]:
        """The pattern types and names that a filter covers."""
        if wanted.name is None:
            yield None
        elif wanted.pattern_type == PatternType.MATCH:
            for literal in dict.fromkeys((wanted.name, WILDCARD)):
                yield _LITERAL, literal
            for length in self._lengths:
                if length > len(wanted.name):
                    return
                yield _PREFIXED, wanted.name[:length]
        else:
            yield _LITERAL, wanted.name
            yield _PREFIXED, wanted.name


def _numbers(wanted: AclFilter) -> Numbers:
    """The numbers that a filter gives, and ANY for the others."""
    pattern = _ANY if wanted.pattern_type == _MATCH else wanted.pattern_type
    return wanted.resource_type, pattern, wanted.operation, wanted.permission
