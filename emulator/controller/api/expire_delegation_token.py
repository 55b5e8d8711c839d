"""ExpireDelegationToken (40): expire a token now, or at a given time. KIP-48, KIP-900.

Kafka: ControllerApis.handleExpireDelegationTokenRequest, DelegationTokenControlManager (3.9).

In order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH for a caller that is neither owner nor
renewer; DELEGATION_TOKEN_EXPIRED unless the token is to expire now.
"""

from __future__ import annotations

import msgspec

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.controller.rules.delegation_tokens import TokenRefusal, expired, may_renew, token_of
from emulator.metadata.delegation_tokens import record_of
from emulator.metadata.image import Image
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Request = m.ExpireDelegationTokenRequest
Response = m.ExpireDelegationTokenResponse


@handles(Request, refused=one_error(Response))
def expire_delegation_token(image: Image, request: Request, ctx: Context) -> Result[Response]:
    """Remove a token if the period is negative, else set its expiry to now plus the period."""
    token = token_of(image, ctx, request.hmac)
    if isinstance(token, TokenRefusal):
        return Result(Response(error_code=token.code, expiry_timestamp_ms=token.expiry_ms))
    if not may_renew(token, ctx.call.principal):
        return Result(Response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if request.expiry_time_period_ms < 0:
        removed = r.RemoveDelegationTokenRecord(token_id=token.id)
        return Result(Response(expiry_timestamp_ms=ctx.now_ms), (removed,))
    if expired(token, ctx.now_ms):
        return Result(Response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry = min(token.max_timestamp, ctx.now_ms + request.expiry_time_period_ms)
    moved = msgspec.structs.replace(token, expiration_timestamp=expiry)
    return Result(Response(expiry_timestamp_ms=expiry), (record_of(moved),))
