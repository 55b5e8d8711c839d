"""DescribeDelegationToken (41): the tokens that a client may see, with their passwords. KIP-48.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to clients that are unknown or logged in with a token,
DELEGATION_TOKEN_AUTH_DISABLED without a secret key. Owners null: all tokens that the client owns,
may renew, or has DESCRIBE for, by the token or (KIP-373) by its owner; an empty list: none.
Kafka: KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken (3.9).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.broker.serving.token_requests import may_ask_for_tokens
from emulator.controller.api.create_delegation_token import REQUESTER_SINCE
from emulator.controller.result import one_error
from emulator.controller.rules.delegation_tokens import may_renew, token_hmac
from emulator.controller.tables.token_index import TokensByPrincipal
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Request = m.DescribeDelegationTokenRequest
Response = m.DescribeDelegationTokenResponse
refused = one_error(Response)


@serves(m.DescribeDelegationTokenRequest, refused=refused)
def describe_delegation_token(
    cluster: KnownCluster, request: Request, asked: Asked
) -> Slices[Response]:
    """List them, or refuse."""
    if not may_ask_for_tokens(asked):
        return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)
    secret = asked.config.tokens.secret
    if secret is None:
        return refused(request, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, None)
    owners = request.owners
    wanted = (
        None
        if owners is None
        # No token belongs to a type with a colon: as text it would be another principal.
        else {
            f"{o.principal_type}:{o.principal_name}" for o in owners if ":" not in o.principal_type
        }
    )
    caller = reading(cluster, request, asked)
    response, pace = Response(), Pace()
    tokens = cluster.image.delegation_tokens
    asked_for: Iterable[str] = tokens
    if wanted is not None:
        index = yield from TokensByPrincipal.of(tokens)
        # Each ascending; a token is found by its owner, and by those who may renew it.
        asked_for = merge(*map(index.of_principal, wanted))
    last = None
    for token_id in asked_for:
        if pace.over():
            yield
        token = tokens[token_id]
        if token_id == last or not _may_see(caller, token):
            continue
        last = token_id
        shown = _described(token, secret)
        response.tokens.append(shown)
        if asked.api_version >= REQUESTER_SINCE:
            kind, _, name = token.requester.partition(":")
            shown.token_requester_principal_type = kind
            shown.token_requester_principal_name = name
    return response


def _may_see(caller: BrokerReading, token: DelegationToken) -> bool:
    return (
        may_renew(token, caller.call.principal)
        or caller.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or caller.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, secret: str) -> Response.DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    kind = Response.DescribedDelegationTokenRenewer
    renewers = [one.partition(":") for one in token.renewers]
    return Response.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
        renewers=[kind(principal_type=one, principal_name=name) for one, _, name in renewers],
    )
