"""RenewDelegationToken (39): forwarded for clients that are known by more than a token.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for others.
Kafka: KafkaApis.handleRenewTokenRequest, allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, PassOn, serves
from emulator.broker.serving.token_requests import may_ask_for_tokens
from emulator.controller.rules.delegation_tokens import NO_TIMESTAMP
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.RenewDelegationTokenRequest, code: ErrorCode, _text: str | None
) -> m.RenewDelegationTokenResponse:
    """The response with the error; it has no field for a text."""
    return m.RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)


@serves(m.RenewDelegationTokenRequest, refused=refused)
def renew_delegation_token(
    _cluster: KnownCluster, request: m.RenewDelegationTokenRequest, asked: Asked
) -> m.RenewDelegationTokenResponse | PassOn:
    """Forward it, or refuse."""
    if may_ask_for_tokens(asked):
        return PassOn(request)
    return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)
