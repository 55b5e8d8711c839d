"""SaslAuthenticate (36): carry one SASL exchange.

KIP-152, KIP-368 (v1), KIP-482 (v2). Source: SaslAuthenticateRequest, SaslAuthenticateResponse,
Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int64, String, field, message


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: Bytes = b""


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field(0, versions="1+", ignorable=True)
