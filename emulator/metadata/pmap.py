"""A persistent map: a change returns a new version that shares most data with the old one.

Entries are stored in small dicts over consecutive ranges of keys, so a change copies one dict and
the list of dicts. Iteration is by ascending key, independent of the history and the hash seed:
plans, snapshots and simulated runs made from equal maps are equal.

Keys of one map must be of one type and ordered. Values are not copied and should be immutable.
"""

from __future__ import annotations

import bisect
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    ValuesView,
)
from itertools import filterfalse
from typing import Any, Final, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

# Keys are ordered, which the type does not express; a cast would cost a call in each look-up.
_bisect_right: Final[Callable[[list[Any], object, int], int]] = bisect.bisect_right

CHUNK: Final = 128
"""Most entries in one dict. 64 costs more at 100,000 keys, 256 more at 1,000."""


class PMap(Mapping[K, V]):
    """Immutable ordered mapping. ``set`` and ``delete`` return another map.

    >>> a = PMap({"b": 1})
    >>> b = a.set("a", 2)
    >>> list(b.items()), len(a), b.delete("a") == a
    ([('a', 2), ('b', 1)], 1, True)
    """

    __slots__ = ("_chunks", "_lows", "_size")

    _chunks: list[dict[K, V]]
    _lows: list[Any]
    _size: int

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        source = dict(entries)
        keys = sorted(cast("Iterable[Any]", source))
        parts = [keys[at : at + CHUNK] for at in range(0, len(keys), CHUNK)] or [[]]
        self._chunks = [{key: source[key] for key in part} for part in parts]
        # The first chunk takes every key below the second, so its own bound is never compared.
        self._lows = [None, *(part[0] for part in parts[1:])]
        self._size = len(keys)

    def set(self, key: K, value: V) -> PMap[K, V]:
        """Return this map with ``key`` at ``value``."""
        at = _bisect_right(self._lows, key, 1) - 1
        chunk = self._chunks[at].copy()
        chunk[key] = value
        chunks = self._chunks.copy()
        chunks[at] = chunk
        if len(chunk) == len(self._chunks[at]):
            return self._built(chunks, self._lows, self._size)
        if len(chunk) <= CHUNK:
            return self._built(chunks, self._lows, self._size + 1)
        keys = sorted(cast("Iterable[Any]", chunk))
        # Keys that come in ascending order fill each chunk instead of leaving it half empty.
        cut = CHUNK if key == keys[-1] else CHUNK // 2
        chunks[at : at + 1] = [{k: chunk[k] for k in part} for part in (keys[:cut], keys[cut:])]
        lows = self._lows.copy()
        lows.insert(at + 1, keys[cut])
        return self._built(chunks, lows, self._size + 1)

    def update(self, entries: Mapping[K, V]) -> PMap[K, V]:
        """Return this map with all these entries; each part is copied once.

        >>> list(PMap({"b": 1, "d": 2}).update({"a": 0, "d": 3}).items())
        [('a', 0), ('b', 1), ('d', 3)]
        """
        if not entries:
            return self
        if len(entries) == 1:
            return self.set(*next(iter(entries.items())))
        parts: dict[int, dict[K, V]] = {}
        for key, value in entries.items():
            at = _bisect_right(self._lows, key, 1) - 1
            part = parts.get(at)
            if part is None:
                part = parts[at] = self._chunks[at].copy()
            part[key] = value
        chunks, lows = self._chunks.copy(), self._lows.copy()
        size = self._size
        for at in sorted(parts, reverse=True):
            part = parts[at]
            size += len(part) - len(chunks[at])
            if len(part) <= CHUNK:
                chunks[at] = part
                continue
            keys = sorted(cast("Iterable[Any]", part))
            cuts = [keys[low : low + CHUNK] for low in range(0, len(keys), CHUNK)]
            chunks[at : at + 1] = [{key: part[key] for key in cut} for cut in cuts]
            lows[at + 1 : at + 1] = [cut[0] for cut in cuts[1:]]
        return self._built(chunks, lows, size)

    def delete(self, key: K) -> PMap[K, V]:
        """Return this map without ``key``.

        Raises:
            KeyError: there is no such key.
        """
        at = self._at(key)
        chunk = self._chunks[at].copy()
        del chunk[key]
        chunks = self._chunks.copy()
        chunks[at] = chunk
        lows = self._lows
        for left in (at - 1, at):
            pair = chunks[max(left, 0) : left + 2]
            if len(pair) == 2 and len(pair[0]) + len(pair[1]) <= CHUNK // 2:
                chunks[left : left + 2] = [{**pair[0], **pair[1]}]
                lows = [*lows[: left + 1], *lows[left + 2 :]]
                break
        return self._built(chunks, lows, self._size - 1)

    def without(self, keys: Collection[K]) -> PMap[K, V]:
        """Return this map without these keys; each part is copied once.

        Args:
            keys: each once.

        Raises:
            KeyError: there is no such key.

        >>> PMap({"a": 1, "b": 2, "c": 3}).without(["a", "c"])
        PMap({'b': 2})
        """
        if not keys:
            return self
        if len(keys) == 1:
            return self.delete(next(iter(keys)))
        parts: dict[int, dict[K, V]] = {}
        for key in keys:
            at = _bisect_right(self._lows, key, 1) - 1
            part = parts.get(at)
            if part is None:
                part = parts[at] = self._chunks[at].copy()
            del part[key]
        chunks, lows = self._chunks.copy(), self._lows.copy()
        for at in sorted(parts, reverse=True):
            chunks[at] = parts[at]
            # One on the left that changes too is joined in its own turn.
            for left in (at,) if at - 1 in parts or not at else (at, at - 1):
                pair = chunks[left : left + 2]
                if len(pair) == 2 and (not all(pair) or sum(map(len, pair)) <= CHUNK // 2):
                    chunks[left : left + 2] = [{**pair[0], **pair[1]}]
                    del lows[left + 1]
        return self._built(chunks, lows, self._size - len(keys))

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: object = None) -> object:
        """Return the value at ``key``, or ``default``."""
        chunk: dict[K, Any] = self._chunks[_bisect_right(self._lows, key, 1) - 1]
        return chunk.get(key, default)

    def floor(self, key: K) -> K | None:
        """Return the greatest key that is not above ``key``, or None.

        >>> PMap({"b": 1, "d": 2}).floor("c")
        'b'
        """
        for at in range(self._at(key), -1, -1):
            keys = _ascending(self._chunks[at])
            below = _bisect_right(keys, key, 0)
            if below:
                found: K = keys[below - 1]
                return found
        return None

    def since(self, key: K) -> Iterator[K]:
        """Keys that are not below ``key``, ascending.

        >>> list(PMap({"b": 1, "d": 2}).since("c"))
        ['d']
        """
        at = self._at(key)
        first = _ascending(self._chunks[at])
        yield from first[bisect.bisect_left(first, key) :]
        for chunk in self._chunks[at + 1 :]:
            yield from sorted(cast("Iterable[Any]", chunk))

    def items(self) -> ItemsView[K, V]:
        """Entries by ascending key."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Values by ascending key."""
        return _Values(self)

    def _at(self, key: K) -> int:
        return _bisect_right(self._lows, key, 1) - 1

    @classmethod
    def _built(cls, chunks: list[dict[K, V]], lows: list[Any], size: int) -> PMap[K, V]:
        built: PMap[K, V] = cls.__new__(cls)
        built._chunks = chunks
        built._lows = lows
        built._size = size
        return built

    def __getitem__(self, key: K) -> V:
        return self._chunks[_bisect_right(self._lows, key, 1) - 1][key]

    def __contains__(self, key: object) -> bool:
        return key in self._chunks[_bisect_right(self._lows, key, 1) - 1]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for chunk in self._chunks:
            yield from sorted(cast("Iterable[Any]", chunk))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PMap):
            return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())
        if self._size != other._size:
            return False
        # Two versions of one map share most of their chunks; only the rest is compared.
        mine, theirs = self.apart(other)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]  # as Python has it for what is compared and not hashed

    def apart(self, other: PMap[K, V]) -> tuple[dict[K, V], dict[K, V]]:
        """Entries of each that are not in parts which both share; other entries are equal.

        >>> one = PMap({number: 0 for number in range(1_000)})
        >>> mine, theirs = one.apart(one.set(7, 1))
        >>> len(mine) < 200, mine.keys() == theirs.keys(), theirs[7]
        (True, True, 1)
        """
        mine, theirs = self._by_id(), other._by_id()
        return _lacking(mine, theirs), _lacking(theirs, mine)

    def _by_id(self) -> dict[int, dict[K, V]]:
        return dict(zip(map(id, self._chunks), self._chunks, strict=True))

    def __repr__(self) -> str:
        return f"PMap({dict(self.items())!r})"


def _lacking(some: dict[int, dict[K, V]], others: dict[int, dict[K, V]]) -> dict[K, V]:
    """Entries of the parts that the others lack."""
    entries: dict[K, V] = {}
    for part in filterfalse(others.__contains__, some):
        entries.update(some[part])
    return entries


_ORDERS: Final[dict[int, tuple[dict[Any, Any], list[Any]]]] = {}
"""Chunks that were searched, by their identity, and their keys in order."""
_ORDERS_MAX: Final = 4_096


def _ascending(chunk: dict[Any, Any]) -> list[Any]:
    """The keys of a chunk in order. Authorizers search the same ones again and again."""
    known = _ORDERS.get(id(chunk))
    if known is None:
        if len(_ORDERS) >= _ORDERS_MAX:
            _ORDERS.clear()
        # A chunk is not changed once its map is made; kept here, it keeps its identity.
        known = _ORDERS[id(chunk)] = (chunk, sorted(chunk))
    return known[1]


class _Items(ItemsView[K, V]):
    _mapping: PMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        for chunk in self._mapping._chunks:  # noqa: SLF001 - views are a part of the mapping
            for key in sorted(cast("Iterable[Any]", chunk)):
                yield key, chunk[key]


class _Values(ValuesView[V]):
    _mapping: PMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        for chunk in self._mapping._chunks:  # noqa: SLF001 - views are a part of the mapping
            for key in sorted(chunk):
                yield chunk[key]
