"""RenewDelegationToken (39): extend a token, up to its maximum lifetime. KIP-48, KIP-900.

Kafka: ControllerApis.handleRenewDelegationTokenRequest, DelegationTokenControlManager (3.9).

In order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
UNSUPPORTED_VERSION, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
DELEGATION_TOKEN_OWNER_MISMATCH for a caller that is neither owner nor renewer.
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
from wire.errors import ErrorCode

Request = m.RenewDelegationTokenRequest
Response = m.RenewDelegationTokenResponse


@handles(Request, refused=one_error(Response))
def renew_delegation_token(image: Image, request: Request, ctx: Context) -> Result[Response]:
    """Set the expiry of a token to now plus the requested period."""
    token = token_of(image, ctx, request.hmac)
    if isinstance(token, TokenRefusal):
        return Result(Response(error_code=token.code, expiry_timestamp_ms=token.expiry_ms))
    if expired(token, ctx.now_ms):
        return Result(Response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not may_renew(token, ctx.call.principal):
        return Result(Response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = ctx.config.tokens.expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry = min(token.max_timestamp, ctx.now_ms + period_ms)
    renewed = msgspec.structs.replace(token, expiration_timestamp=expiry)
    return Result(Response(expiry_timestamp_ms=expiry), (record_of(renewed),))
