"""SaslHandshake (17): choose a SASL mechanism.

KIP-43, KIP-152 (v1). Source: SaslHandshakeRequest, SaslHandshakeResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, String, message


@message(key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    mechanism: String = ""


@message(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()
