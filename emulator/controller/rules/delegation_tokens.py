"""What the three delegation token APIs share: who may call, look-up by HMAC, expiry.

Source: ControllerApis.allowTokenRequests, DelegationTokenControlManager, Kafka 3.9; KIP-48,
KIP-373, KIP-900.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from emulator.config.limits import TokenSettings
from emulator.controller.context import Context, ControllerConfig
from emulator.controller.queue.periodic import Sweep
from emulator.controller.queue.urgency import Urgency
from emulator.controller.tables.token_index import TokenIndex, hmac_of
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from wire import records as r
from wire.errors import ErrorCode

PLAINTEXT, SSL = 0, 1
ANONYMOUS: Final = "User:ANONYMOUS"
NO_TIMESTAMP: Final = -1
"""The time in a response that carries an error (ErrorTimestamp)."""
_HMACS_KEPT: Final = 1 << 16


token_hmac = lru_cache(maxsize=_HMACS_KEPT)(hmac_of)
"""Descriptions show that of each token."""


def caller_error(ctx: Context) -> ErrorCode:
    """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, or NONE.

    Refused are callers that authenticated with a delegation token, and anonymous callers. For a
    forwarded request the broker has made this check on the client's connection.
    """
    call = ctx.call
    if call.token_authenticated:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if call.forwarded:
        return ErrorCode.NONE
    protocol = next(
        (one.security_protocol for one in ctx.config.listeners if one.name == call.listener),
        PLAINTEXT,
    )
    if protocol == PLAINTEXT or (protocol == SSL and call.principal == ANONYMOUS):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.NONE


def feature_error(image: Image, settings: TokenSettings) -> ErrorCode:
    """DELEGATION_TOKEN_AUTH_DISABLED without secret key, UNSUPPORTED_VERSION below 3.6-IV2."""
    if settings.secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if not image.metadata_version.supports(Feature.DELEGATION_TOKENS):
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


class TokenRefusal(NamedTuple):
    """The error for a token that is not renewed or expired, and the time in the response."""

    code: ErrorCode
    expiry_ms: int = 0


def token_of(image: Image, ctx: Context, given: bytes) -> DelegationToken | TokenRefusal:
    """The token with this HMAC.

    Returns:
        Or, in order: ``caller_error``, ``feature_error``, DELEGATION_TOKEN_NOT_FOUND.
    """
    code = caller_error(ctx)
    if code is not ErrorCode.NONE:
        return TokenRefusal(code, NO_TIMESTAMP)
    settings = ctx.config.tokens
    code = feature_error(image, settings)
    if settings.secret is None or code is not ErrorCode.NONE:
        return TokenRefusal(code)
    token = (ctx.tokens or TokenIndex(settings.secret)).find(image.delegation_tokens, given)
    return TokenRefusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) if token is None else token


def may_renew(token: DelegationToken, principal: str) -> bool:
    """Whether a principal is the owner of a token or one of its renewers."""
    return principal == token.owner or principal in token.renewers


def expired(token: DelegationToken, now_ms: int) -> bool:
    """Whether a token has expired."""
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_interval_ms(config: ControllerConfig) -> int | None:
    settings = config.tokens
    return None if settings.secret is None else settings.check_interval_ms


def _remove_expired(
    image: Image, _config: ControllerConfig, token_id: str, now_ms: int
) -> list[r.RemoveDelegationTokenRecord]:
    token = image.delegation_tokens.get(token_id)
    if token is None or not expired(token, now_ms):
        return []
    return [r.RemoveDelegationTokenRecord(token_id=token_id)]


EXPIRED_TOKENS: Final = Sweep(
    name="expired-delegation-tokens",
    interval_ms=_check_interval_ms,
    candidates=lambda image, _index: image.delegation_tokens.keys(),
    visit=_remove_expired,
    urgency=Urgency.URGENT,
)
"""delegation.token.expiry.check.interval.ms; not where tokens are turned off."""
