"""The inside of an Envelope (KIP-590): opening the request, closing the answer.

Pure functions over bytes; the controller machine processes the request in between.

Source: EnvelopeUtils and RequestContext.buildResponseEnvelopePayload, Kafka 3.9.
"""

from __future__ import annotations

from typing import NamedTuple

from emulator.controller.context import Call
from emulator.controller.registry import advertised, entries_max
from emulator.seam import Slices
from wire import messages as m
from wire.codec import decode
from wire.errors import DecodeError, ErrorCode, TooManyEntriesError
from wire.frame import decoding_body, split_request
from wire.releases import forwardable
from wire.schema import spec

PRINCIPAL_VERSION_BYTES = 2


class Principal(NamedTuple):
    """The client that sent a request: ``Type:name``, and whether it used a delegation token."""

    name: str
    token_authenticated: bool


def opening(call: Call, release: str) -> Slices[Call | ErrorCode]:
    """The request inside an Envelope, or the Envelope's error; read in slices.

    PRINCIPAL_DESERIALIZATION_FAILURE, then INVALID_REQUEST for the address, UNSUPPORTED_VERSION for
    a header or body that cannot be decoded or an unsupported API, INVALID_REQUEST for an API that
    may not be forwarded, and for more than ``registry.ENTRIES_MAX`` entries.

    Args:
        call: carries an EnvelopeRequest.
        release: Kafka line whose version ranges apply.
    """
    envelope = call.message
    assert isinstance(envelope, m.EnvelopeRequest)
    principal = decode_principal(envelope.request_principal)
    if principal is None:
        return ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    if len(envelope.client_host_address) not in {4, 16}:
        return ErrorCode.INVALID_REQUEST
    try:
        header, body = split_request(envelope.request_data)
    except DecodeError:
        return ErrorCode.UNSUPPORTED_VERSION
    if header.api_key not in forwardable(release):
        return ErrorCode.INVALID_REQUEST
    low, high = advertised(release).get(header.api_key, (0, -1))
    if not low <= header.api_version <= high:
        return ErrorCode.UNSUPPORTED_VERSION
    try:
        most = entries_max(release).get(header.api_key)
        message = yield from decoding_body(header, body, trailing=True, entries_max=most)
    except TooManyEntriesError:
        return ErrorCode.INVALID_REQUEST
    except DecodeError:
        return ErrorCode.UNSUPPORTED_VERSION
    return Call(
        ticket=call.ticket,
        header=header,
        message=message,
        principal=principal.name,
        client_address=envelope.client_host_address,
        listener=call.listener,
        received_ms=call.received_ms,
        deadline_ms=call.deadline_ms,
        forwarded=True,
        token_authenticated=principal.token_authenticated,
        outer=call,
    )


def decode_principal(data: bytes | None) -> Principal | None:
    """Decode a serialised principal; None if it cannot be decoded.

    The format of DefaultKafkaPrincipalBuilder: a version (16 bit), then DefaultPrincipalData. A
    type with a colon is none: as ``Type:name`` it would be somebody else's principal.

    >>> decode_principal(bytes.fromhex("0000 05 55736572 0a 414e4f4e594d4f5553 00 00"))
    Principal(name='User:ANONYMOUS', token_authenticated=False)
    """
    if data is None or len(data) < PRINCIPAL_VERSION_BYTES:
        return None
    version = int.from_bytes(data[:PRINCIPAL_VERSION_BYTES], "big", signed=True)
    if version not in spec(m.DefaultPrincipalData).versions:
        return None
    try:
        principal = decode(m.DefaultPrincipalData, version, data[PRINCIPAL_VERSION_BYTES:])
    except DecodeError:
        return None
    if ":" in principal.type:
        return None
    return Principal(f"{principal.type}:{principal.name}", principal.token_authenticated)
