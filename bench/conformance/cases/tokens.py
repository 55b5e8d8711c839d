"""Delegation tokens (KIP-48): where they may be asked for, and their life where they may."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import eventually
from bench.conformance.case import (
    Ask,
    Level,
    NotOffered,
    Program,
    Stage,
    Where,
    case,
    code,
    holds,
    same,
)
from wire import messages as m

_SOURCES: Final = "KIP-48; DelegationTokenControlManager, KafkaApis.allowTokenRequests"
_NOT_ALLOWED: Final = (61, 64)
_ASKS: Final = (m.CreateDelegationTokenRequest, m.DescribeDelegationTokenRequest)


def creation(lifetime_ms: int = 3_600_000) -> Any:
    """A CreateDelegationToken request for the caller itself."""
    return m.CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=lifetime_ms
    )


@case(
    "without a login, or without a secret, tokens are refused by name",
    sources=_SOURCES,
    where=Where.BROKER,
    asks=_ASKS,
    disruptive=True,
)
def refused(stage: Stage) -> Program:
    answer = (yield Ask(creation(), lowest=3)).message
    if answer.error_code == 0:
        yield Ask(m.ExpireDelegationTokenRequest(hmac=answer.hmac, expiry_time_period_ms=-1))
        raise NotOffered("the server gives tokens on this listener")
    code("CreateDelegationToken", answer.error_code, *_NOT_ALLOWED)
    same("the token's hmac", answer.hmac, b"")
    expected = answer.error_code
    renewal = m.RenewDelegationTokenRequest(hmac=b"none", renew_period_ms=1)
    code("RenewDelegationToken", (yield Ask(renewal)).message.error_code, expected)
    expiry = m.ExpireDelegationTokenRequest(hmac=b"none", expiry_time_period_ms=-1)
    code("ExpireDelegationToken", (yield Ask(expiry)).message.error_code, expected)
    answer = (yield Ask(m.DescribeDelegationTokenRequest(owners=None))).message
    code("DescribeDelegationToken", answer.error_code, expected)
    same("tokens", answer.tokens, [])


@case(
    "without a login tokens are DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, on each listener",
    sources="KIP-48; KafkaApis, ControllerApis.allowTokenRequests",
    asks=(m.CreateDelegationTokenRequest,),
    disruptive=True,
)
def not_allowed(stage: Stage) -> Program:
    if stage.here not in stage.facts.plain:
        raise NotOffered("judged where there is neither TLS nor a login")
    answer = (yield Ask(creation(), lowest=3)).message
    code("CreateDelegationToken", answer.error_code, 64)
    for asked in _of_no_token():
        code(type(asked).__name__, (yield Ask(asked)).message.error_code, 64)


def _of_no_token() -> tuple[Any, Any]:
    """Requests for a token that is not there."""
    renewal = m.RenewDelegationTokenRequest(hmac=b"none", renew_period_ms=1)
    return renewal, m.ExpireDelegationTokenRequest(hmac=b"none", expiry_time_period_ms=-1)


@case(
    "a token that is refused has no times, and its owner is who asked for it",
    level=Level.HABIT,
    sources="CreateDelegationTokenResponse.prepareResponse",
    asks=(m.CreateDelegationTokenRequest,),
    disruptive=True,
)
def not_allowed_bare(stage: Stage) -> Program:
    answer = (yield Ask(creation(), lowest=3)).message
    if answer.error_code != 64:
        raise NotOffered("judged where tokens may not be asked for")
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    same("times of no token", times, (-1, -1, -1))
    owner = (answer.principal_type, answer.principal_name)
    requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
    same("the owner, where none is named", owner, requester)
    for asked in _of_no_token():
        same("the expiry of no token", (yield Ask(asked)).message.expiry_timestamp_ms, -1)


@case(
    "a token is created, shown, renewed and expired",
    sources=_SOURCES,
    where=Where.BROKER,
    asks=_ASKS,
    disruptive=True,
)
def life(stage: Stage) -> Program:
    answer = (yield Ask(creation(), lowest=3)).message
    if answer.error_code in _NOT_ALLOWED:
        raise NotOffered("tokens are refused on this listener")
    code("CreateDelegationToken", answer.error_code, 0)
    hmac, name = answer.hmac, answer.token_id
    holds(
        "its times",
        answer.issue_timestamp_ms < answer.expiry_timestamp_ms <= answer.max_timestamp_ms,
        "issue < expiry <= end",
        answer.token_id,
    )

    def there(message: Any) -> bool:
        code("DescribeDelegationToken", message.error_code, 0)
        return name in {one.token_id for one in message.tokens}

    asked = m.DescribeDelegationTokenRequest(owners=None)
    yield from eventually("the token, shown", asked, there)
    renewal = m.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=60_000)
    # The controller's cache of tokens follows what is decided.
    answer = yield from eventually(
        "RenewDelegationToken", renewal, lambda one: one.error_code != 62
    )
    code("RenewDelegationToken", answer.error_code, 0)
    other = m.RenewDelegationTokenRequest(hmac=bytes(64), renew_period_ms=60_000)
    code("RenewDelegationToken of none", (yield Ask(other)).message.error_code, 62)
    expiry = m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
    code("ExpireDelegationToken", (yield Ask(expiry)).message.error_code, 0)
    yield from eventually("the token, gone", asked, lambda one: not there(one))
    code("ExpireDelegationToken again", (yield Ask(expiry)).message.error_code, 62)
