"""Answers that many clients get alike, made and encoded once for all brokers of a process.

Every client asks for all topics now and then, and between two changes of the metadata the answer is
the same but for the controller that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from emulator.slices import Slices
from wire.frame import RequestHeader, encoding_response

T = TypeVar("T")
KEPT_MAX: Final = 8
"""Answers of this kind that are kept, in a process."""


class Same:
    """A value that is compared as the object that it is, not by its content."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class Kept:
    """What was made last, by what it is made of."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def made(self, key: Any, make: Callable[[], Slices[T]]) -> Slices[T]:
        """The value of a key, made in slices if it is not kept."""
        found: T | None = self._kept.pop(key, None)
        if found is None:
            found = yield from make()
        self._kept.pop(key, None)
        self._kept[key] = found
        # Those that were asked for least recently come first.
        for old in [*self._kept][:-KEPT_MAX]:
            del self._kept[old]
        return found


_ENCODED: Final = Kept()


def sharing(header: RequestHeader, response: Any) -> Slices[bytes]:
    """Header and body of a response that is kept, in slices; it must not be changed any more.

    Args:
        header: of the request.
        response: the same object for every request that it answers.

    Raises:
        EncodeError: the version cannot carry it.
    """
    key, version = header.api_key, header.api_version
    encoded: bytes = yield from _ENCODED.made(
        (Same(response), key, version), lambda: encoding_response(key, version, 0, response)
    )
    return header.correlation_id.to_bytes(4, "big", signed=True) + encoded[4:]
