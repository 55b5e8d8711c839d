"""Envelope (58): a broker forwards a client's request, with the client's principal and address.

KIP-590. Source: EnvelopeRequest, EnvelopeResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, message


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    request_data: Bytes = b""
    request_principal: Bytes | None = b""
    client_host_address: Bytes = b""


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    response_data: Bytes | None = None
    error_code: Int16 = 0
