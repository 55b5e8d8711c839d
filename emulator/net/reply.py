"""A request, the ticket that identifies it until it is answered, and the reply."""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.net.error_codes import ENTRIES_PER_SLICE, finding
from emulator.net.principal import NOBODY, PeerPrincipal
from emulator.seam import Pace, Slices, Ticket
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, encode_response, encoding_response
from wire.schema import spec

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
