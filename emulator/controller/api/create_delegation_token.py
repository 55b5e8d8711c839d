"""CreateDelegationToken (38): make a token. KIP-48, KIP-373 (v3, for another owner), KIP-900.

Kafka: ControllerApis.handleCreateDelegationTokenRequest, DelegationTokenControlManager (3.9).

In order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED for another
owner without CREATE_TOKENS on that user, DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
INVALID_PRINCIPAL_TYPE for a renewer that is no User (and for an owner without type);
INVALID_REQUEST for a principal too long for a record; POLICY_VIOLATION if the token would not fit
into its znode (``storable``).
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result
from emulator.controller.rules.delegation_tokens import (
    ANONYMOUS,
    NO_TIMESTAMP,
    caller_error,
    feature_error,
    token_hmac,
)
from emulator.controller.rules.storable import Room
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.delegation_tokens import DelegationToken, record_of
from emulator.metadata.image import Image
from emulator.seam import Slices, listed
from wire import messages as m
from wire.errors import ErrorCode
from wire.text import uuid_text

Request = m.CreateDelegationTokenRequest
Response = m.CreateDelegationTokenResponse
USER: Final = "User"
REQUESTER_SINCE: Final = 3
"""First version whose response names the requester besides the owner."""
TIMESTAMP_MAX: Final = 2**63 - 1
PRINCIPAL_BYTES_MAX: Final = 32_767
"""Maximum bytes of a string in a record."""


def refused(_request: Request, code: ErrorCode, _message: str | None) -> Response:
    """The response with the error and the anonymous principal."""
    return _response(code, ANONYMOUS, timestamp_ms=NO_TIMESTAMP)


@handles(Request, refused=refused)
def create_delegation_token(
    image: Image, request: Request, ctx: Context
) -> Slices[Result[Response]]:
    """Make a token for the caller, or for the owner that the caller names."""
    requester = ctx.call.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    code = caller_error(ctx)
    if code is ErrorCode.NONE and owner != requester:
        allowed = ctx.allowed(image, Operation.CREATE_TOKENS, ResourceType.USER, owner)
        code = ErrorCode.NONE if allowed else ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if code is not ErrorCode.NONE:
        return Result(_response(code, owner, ctx, timestamp_ms=NO_TIMESTAMP))
    settings = ctx.config.tokens
    code = feature_error(image, settings)
    renewers = tuple((yield from listed(_principal, request.renewers)))
    if code is ErrorCode.NONE:
        code = yield from _principals_error(request, owner, requester, *renewers)
    if settings.secret is None or code is not ErrorCode.NONE:
        return Result(_response(code, owner, ctx))
    lifetime_ms = settings.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp = min(ctx.now_ms + lifetime_ms, TIMESTAMP_MAX)
    token = DelegationToken(
        id=uuid_text(ctx.random_uuid()),
        owner=owner,
        requester=requester,
        renewers=renewers,
        issue_timestamp=ctx.now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, ctx.now_ms + settings.expiry_ms),
    )
    record = record_of(token)
    if Room(image, ctx).take([record]) is not None:
        return Result(_response(ErrorCode.POLICY_VIOLATION, owner, ctx))
    response = _response(ErrorCode.NONE, owner, ctx)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.id
    response.hmac = token_hmac(settings.secret, token.id)
    return Result(response, (record,))


def _principal(renewer: Request.CreatableRenewers) -> str:
    return f"{renewer.principal_type}:{renewer.principal_name}"


def _principals_error(request: Request, *principals: str) -> Slices[ErrorCode]:
    untyped = request.owner_principal_name and not request.owner_principal_type
    if untyped or not {one.principal_type for one in request.renewers} <= {USER}:
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    sizes = yield from listed(lambda one: len(one.encode()), principals)
    return ErrorCode.INVALID_REQUEST if max(sizes) > PRINCIPAL_BYTES_MAX else ErrorCode.NONE


def _response(
    code: ErrorCode, owner: str, ctx: Context | None = None, *, timestamp_ms: int = 0
) -> Response:
    owner_type, _, owner_name = owner.partition(":")
    response = Response(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=timestamp_ms,
        expiry_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
    )
    if ctx is not None and ctx.api_version >= REQUESTER_SINCE:
        requester_type, _, requester_name = ctx.call.principal.partition(":")
        response.token_requester_principal_type = requester_type
        response.token_requester_principal_name = requester_name
    return response
