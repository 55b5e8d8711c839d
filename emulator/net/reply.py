"""A request, the ticket that identifies it until it is answered, and the reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from emulator.seam import Pace, Slices, Ticket, whole
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, encode_response, encoding_response
from wire.schema import spec

# Error codes in an answer: the first one, or whether it has a certain one.
#
# An answer may have 100,000 entries, so it is looked through in slices.

ENTRIES_PER_SLICE: Final = 2_000
"""Entries that one slice looks at: about a millisecond."""
_LISTS: Final[dict[type, tuple[str, ...]]] = {}


def first_error(message: object, code: int | None = None) -> int:
    """The first error code in an answer that is not 0, outer levels first; 0: there is none.

    Args:
        message: any message.
        code: look for this one only.
    """
    return whole(finding(message, code, Pace(ENTRIES_PER_SLICE)))


def says(message: object, code: ErrorCode) -> bool:
    """Whether any ``error_code`` in a response has this value.

    >>> from wire import messages as m
    >>> says(m.DeleteTopicsResponse(), ErrorCode.NOT_CONTROLLER)
    False
    """
    return bool(first_error(message, code))


def finding(message: Any, code: int | None, pace: Pace) -> Slices[int]:
    """As :func:`first_error`, in slices."""
    own = getattr(message, "error_code", 0)
    if own and code in {None, own}:
        return int(own)
    for name in _lists_with_errors(type(message)):
        for element in getattr(message, name) or ():
            if pace.over():
                yield
            if _lists_with_errors(type(element)):
                own = yield from finding(element, code, pace)
            else:
                own = getattr(element, "error_code", 0)
            if own and code in {None, own}:
                return int(own)
    return 0


def _lists_with_errors(kind: type) -> tuple[str, ...]:
    found = _LISTS.get(kind)
    if found is None:
        fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
        found = tuple(field.name for field in fields if _holds_structs(field.type))
        _LISTS[kind] = found
    return found


def _holds_structs(hint: object) -> bool:
    """Whether values of a field hold structs with an error code, at any depth.

    What holds none, such as the configs of a created topic, is not looked through.
    """
    return any(
        isinstance(part, type)
        and issubclass(part, msgspec.Struct)
        and part is not hint
        and ("error_code" in part.__struct_fields__ or bool(_lists_with_errors(part)))
        for part in _parts(hint)
    )


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for part in getattr(hint, "__args__", ()):
        yield from _parts(part)


# Who the peer of an accepted connection is.


class PeerPrincipal(msgspec.Struct, frozen=True, gc=False):
    """Kafka's ``Type:name``, and whether the peer logged in with a delegation token."""

    name: str = "User:ANONYMOUS"
    token_authenticated: bool = False


NOBODY: Final = PeerPrincipal()
"""Of a peer that says nothing about itself."""


_DESCRIBE_QUORUM = spec(m.DescribeQuorumRequest).key

API_VERSIONS: Final = 18


class Request(msgspec.Struct, frozen=True, gc=False):
    """A decoded request; a default ApiVersionsRequest if its version is unknown.

    ``frame``: header and body as received, without the length.
    """

    ticket: Ticket
    message: object
    listener: str
    peer_address: bytes
    frame: bytes = b""
    principal: PeerPrincipal = NOBODY


def encoded(header: RequestHeader, message: object, api_versions_max: int) -> bytes:
    """A response encoded with its header, without length, in the request's version.

    ApiVersions in a version that is not spoken here is answered in version 0.

    Args:
        header: of the request.
        message: the response.
        api_versions_max: newest version of ApiVersions that is spoken here.

    Raises:
        EncodeError: the version cannot carry the message.
    """
    version = header.api_version
    if header.api_key == API_VERSIONS and not 0 <= version <= api_versions_max:
        version = 0
    return encode_response(header.api_key, version, header.correlation_id, message)


def encoding(header: RequestHeader, message: object) -> Slices[bytes]:
    """As :func:`encoded`, in slices, of an API other than ApiVersions.

    Raises:
        EncodeError: the version cannot carry the message.
    """
    version = header.api_version
    return (yield from encoding_response(header.api_key, version, header.correlation_id, message))


def sealing(header: RequestHeader, message: object, payload: bytes) -> Slices[m.EnvelopeResponse]:
    """The Envelope around the answer to the request inside; it is looked through in slices.

    A response with NOT_CONTROLLER in any field (NOT_LEADER_OR_FOLLOWER for DescribeQuorum) is not
    passed on: the EnvelopeResponse carries that error instead, and the broker looks for the
    controller.

    Args:
        header: of the request inside.
        message: its answer.
        payload: the same, encoded with its header.
    """
    moved = ErrorCode.NOT_CONTROLLER
    if header.api_key == _DESCRIBE_QUORUM:
        moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if (yield from finding(message, moved, Pace(ENTRIES_PER_SLICE))):
        return m.EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    return m.EnvelopeResponse(response_data=payload, error_code=ErrorCode.NONE)
