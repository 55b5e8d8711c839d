"""Deadlines of machines that are made of others: asked several times in every step."""

from __future__ import annotations


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
