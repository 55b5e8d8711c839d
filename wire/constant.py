"""Arrays that many messages share, and that are encoded once for each version of their message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class Constant(list[T]):
    """An array of structs for many messages of one class; equal to a list of the same structs.

    Neither the array nor its structs may be changed: what was encoded first is written again.

    >>> Constant([1, 2]) == [1, 2]
    True
    """

    __slots__ = ("encoded",)

    def __init__(self, elements: Iterable[T]) -> None:
        super().__init__(elements)
        self.encoded: dict[int, bytes] = {}
        """The length and the structs, by version of the message."""
