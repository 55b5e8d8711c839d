"""SaslAuthenticate (36): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-152.

The login itself is part of the connection (``emulator.net.authentication``).
Kafka: KafkaApis.handleSaslAuthenticateRequest (3.9).
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from wire import messages as m
from wire.errors import ErrorCode

WHY: Final = "There is no SASL login on this connection, or it is done."


def refused(
    _request: m.SaslAuthenticateRequest, code: ErrorCode, text: str | None
) -> m.SaslAuthenticateResponse:
    """The response with the error and its text."""
    return m.SaslAuthenticateResponse(error_code=code, error_message=text)


@serves(m.SaslAuthenticateRequest, refused=refused)
def sasl_authenticate(
    _cluster: KnownCluster, request: m.SaslAuthenticateRequest, _asked: Asked
) -> m.SaslAuthenticateResponse:
    """Refuse."""
    return refused(request, ErrorCode.ILLEGAL_SASL_STATE, WHY)
