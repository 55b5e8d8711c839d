"""Work that is done in slices: a generator that yields where others may be served in between.

A request with thousands of entries takes a tenth of a second. Cut into slices of a fixed number of
entries, it keeps nobody waiting for longer than one slice. Slices are counted, not timed, so that
equal events always give equal steps.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Yields between slices, and returns what was made."""

RECORDS_PER_SLICE: Final = 500
"""Records that one slice encodes, reads back or replays: one to four milliseconds."""

ENTRIES_PER_SLICE: Final = 250
"""Entries of a request that one slice checks: one to three milliseconds."""


def whole(slices: Slices[T]) -> T:
    """Do all slices at once; returns what was made.

    >>> def counted():
    ...     yield
    ...     return 3
    >>> whole(counted())
    3
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: T = end.value
            return made
