"""Answers that many clients get alike, made and encoded once for all brokers of a process.

Every client asks for all topics now and then, and between two changes of the metadata the answer is
the same but for the controller that it names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from wire.frame import RequestHeader, encode_response

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


def payload_of(header: RequestHeader, response: Any) -> bytes:
    """Header and body of a response that is kept; it must not be changed any more.

    Args:
        header: of the request.
        response: the same object for every request that it answers.

    Raises:
        EncodeError: the version cannot carry it.
    """
    encoded = _encoded(Same(response), header.api_key, header.api_version)
    return header.correlation_id.to_bytes(4, "big", signed=True) + encoded


@lru_cache(maxsize=KEPT_MAX)
def _encoded(response: Same, api_key: int, api_version: int) -> bytes:
    """What follows the correlation id."""
    return encode_response(api_key, api_version, 0, response.of)[4:]
