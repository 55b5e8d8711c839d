"""ExpireDelegationToken (40): forwarded for clients that are known by more than a token.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for others.
Kafka: KafkaApis.handleExpireTokenRequest, allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, PassOn, serves
from emulator.broker.serving.token_requests import may_ask_for_tokens
from emulator.controller.rules.delegation_tokens import NO_TIMESTAMP
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.ExpireDelegationTokenRequest, code: ErrorCode, _text: str | None
) -> m.ExpireDelegationTokenResponse:
    """The response with the error; it has no field for a text."""
    return m.ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)


@serves(m.ExpireDelegationTokenRequest, refused=refused)
def expire_delegation_token(
    _cluster: KnownCluster, request: m.ExpireDelegationTokenRequest, asked: Asked
) -> m.ExpireDelegationTokenResponse | PassOn:
    """Forward it, or refuse."""
    if may_ask_for_tokens(asked):
        return PassOn(request)
    return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)
