"""CreateDelegationToken (38): forwarded for clients that are known by more than a token.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for others, with the owner that was asked for: the controller
believes that the broker has checked it.
Kafka: KafkaApis.handleCreateTokenRequest, allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, PassOn, serves
from emulator.broker.serving.token_requests import may_ask_for_tokens
from emulator.controller.api.create_delegation_token import REQUESTER_SINCE, refused
from emulator.controller.rules.delegation_tokens import NO_TIMESTAMP
from wire import messages as m
from wire.errors import ErrorCode


@serves(m.CreateDelegationTokenRequest, refused=refused)
def create_delegation_token(
    _cluster: KnownCluster, request: m.CreateDelegationTokenRequest, asked: Asked
) -> m.CreateDelegationTokenResponse | PassOn:
    """Forward it, or refuse."""
    if may_ask_for_tokens(asked):
        return PassOn(request)
    own_type, _, own_name = asked.principal.partition(":")
    owner_type, owner_name = own_type, own_name
    if request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type or "", request.owner_principal_name
    response = m.CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    if asked.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type = own_type
        response.token_requester_principal_name = own_name
    return response
