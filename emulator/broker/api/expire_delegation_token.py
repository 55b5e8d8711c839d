"""ExpireDelegationToken (40): not on a PLAINTEXT listener, and a broker here has no other one.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; it is not forwarded.
Kafka: KafkaApis.handleExpireTokenRequest, allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.controller.delegation_tokens import NO_TIMESTAMP
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.ExpireDelegationTokenRequest, code: ErrorCode, _text: str | None
) -> m.ExpireDelegationTokenResponse:
    """The response with the error; it has no field for a text."""
    return m.ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)


@serves(m.ExpireDelegationTokenRequest, refused=refused)
def expire_delegation_token(
    _cluster: KnownCluster, request: m.ExpireDelegationTokenRequest, _asked: Asked
) -> m.ExpireDelegationTokenResponse:
    """Refuse, as the listener says nothing about who is asking."""
    return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)
