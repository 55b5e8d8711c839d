"""SaslHandshake (17): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-43.

The login itself is part of the connection (``emulator.net.authentication``).
Kafka: KafkaApis.handleSaslHandshakeRequest (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.SaslHandshakeRequest, code: ErrorCode, _text: str | None
) -> m.SaslHandshakeResponse:
    """The response with the error; it has no field for a text."""
    return m.SaslHandshakeResponse(error_code=code)


@serves(m.SaslHandshakeRequest, refused=refused)
def sasl_handshake(
    _cluster: KnownCluster, request: m.SaslHandshakeRequest, _asked: Asked
) -> m.SaslHandshakeResponse:
    """Refuse."""
    return refused(request, ErrorCode.ILLEGAL_SASL_STATE, None)
