"""Deadlines of machines that are made of others: asked several times in every step."""

from __future__ import annotations

from collections.abc import Iterable


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier one; None is never.

    >>> earlier(3, 2), earlier(None, 2), earlier(3, None), earlier(None, None)
    (2, 2, 3, None)
    """
    if one is None:
        return other
    if other is None or one <= other:
        return one
    return other


def earliest(times: Iterable[int | None]) -> int | None:
    """The earliest one; None is never, and so is nothing at all.

    >>> earliest((3, None, 2)), earliest((None, None)), earliest(())
    (2, None, None)
    """
    # Without a generator inside ``min``: that takes three times as long.
    found = None
    for one in times:
        if one is not None and (found is None or one < found):
            found = one
    return found
