"""Makes a failing list shorter: delta debugging (Zeller, Hildebrandt: ddmin)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrunk(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A shorter list that fails, from which no single item can be left out.

    >>> shrunk(range(100), lambda some: 7 in some and 60 in some)
    [7, 60]
    """
    kept = list(items)
    parts = 2
    while len(kept) > 1:
        size = max(1, len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            if fewer and fails(fewer):
                kept, parts = fewer, max(2, parts - 1)
                break
        else:
            if size == 1:
                return kept
            parts *= 2
    return kept
