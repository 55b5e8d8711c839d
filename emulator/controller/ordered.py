"""A map in another order, which follows its changes.

What a request looks for by something else than its key is found here without a look at each entry.
Two versions of a map share most of their parts, so what has come and gone is found without a look
at each entry too, whichever version is asked for: newest, committed, rewound, loaded. All of it is
immutable, so two requests may look for something in turn, a slice of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, Generic, TypeAlias, TypeVar

from emulator.metadata.pmap import PMap
from emulator.seam import RECORDS_PER_SLICE, Slices

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
        """The last ones first: that of the newest version, and of what is committed."""

    def of(self, entries: PMap[K, V]) -> Slices[PMap[Place, V]]:
        """The values of a map by their places."""
        for seen, order in self._made:
            if seen is entries:
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
