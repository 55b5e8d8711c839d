"""Delegation tokens: who may have one made, whose it is, how long it lives. KIP-48, KIP-373."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from emulator.config.limits import TokenSettings
from emulator.config.reading import PropertyReader
from emulator.controller.context import Call, ControllerEndpoint
from emulator.controller.registry import handlers
from emulator.controller.result import Result
from emulator.controller.rules.delegation_tokens import token_hmac
from emulator.metadata.image import Image
from tests.unit.controller import recorded
from tests.unit.controller.test_recorded import FULL, TOKEN_KEYS, holding, inner, of
from tests.unit.controller.world import (
    World,
    call,
    context,
    image_of,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

SECRET = "lab-token-secret"
ON = {"delegation.token.secret.key": SECRET}
HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS
NOW = 1_795_217_902_455
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


def token(number: int = 1, **fields: Any) -> r.DelegationTokenRecord:
    values: dict[str, Any] = {
        "token_id": f"token-{number}",
        "owner": ALICE,
        "requester": ALICE,
        "renewers": (BOB,),
        "issue_timestamp": NOW - HOUR_MS,
        "max_timestamp": NOW + DAY_MS,
        "expiration_timestamp": NOW + HOUR_MS,
        **fields,
    }
    return r.DelegationTokenRecord(**values)


def ask(
    image: Image,
    message: Any,
    version: int | None = None,
    *,
    properties: dict[str, str] = ON,
    listeners: tuple[ControllerEndpoint, ...] = (),
    authorizer: Any = None,
    znodes: Any = None,
    **caller: Any,
) -> Result[Any]:
    """What comes of a request, forwarded by a broker unless told otherwise."""
    caller.setdefault("forwarded", True)
    caller.setdefault("principal", ALICE)
    asked = call(message, version, **caller)
    around = context(image, message, version, now_ms=NOW, properties=properties)
    config = replace(around.config, listeners=listeners, authorizer=authorizer, znodes=znodes)
    surroundings = msgspec.structs.replace(around, config=config, call=asked)
    return handlers()[asked.header.api_key].result(image, message, surroundings)


def create(**fields: Any) -> m.CreateDelegationTokenRequest:
    return m.CreateDelegationTokenRequest(**fields)


def renewer(name: str, kind: str = "User") -> m.CreateDelegationTokenRequest.CreatableRenewers:
    return m.CreateDelegationTokenRequest.CreatableRenewers(
        principal_type=kind, principal_name=name
    )


def renew(number: int = 1, period_ms: int = -1) -> m.RenewDelegationTokenRequest:
    given = token_hmac(SECRET, f"token-{number}")
    return m.RenewDelegationTokenRequest(hmac=given, renew_period_ms=period_ms)


def expire(number: int = 1, period_ms: int = -1) -> m.ExpireDelegationTokenRequest:
    given = token_hmac(SECRET, f"token-{number}")
    return m.ExpireDelegationTokenRequest(hmac=given, expiry_time_period_ms=period_ms)


ALL = [create(), renew(), expire()]
IDS = ["create", "renew", "expire"]


class Denies:
    """An authorizer that says no to everything."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def is_super_user(self, principal: str) -> bool:
        return False

    def allows(self, image: Image, call: Call, operation: Any, kind: Any, name: str) -> bool:
        self.asked.append((operation.name, kind.name, name))
        return False


def test_a_recorded_token_is_made_and_ended_as_kafka_did() -> None:
    """Of Kafka 3.9.2's own answers: the HMAC, the times, the records."""
    seen = []
    for exchange in of(FULL, "Envelope"):
        if int.from_bytes(exchange.request.request_data[:2], "big") not in TOKEN_KEYS:
            continue
        asked, theirs = inner(exchange)
        seen.append(type(asked.message).__name__)
        image = recorded.image_at(FULL, exchange.sent_ms)
        if isinstance(theirs, m.CreateDelegationTokenResponse):
            assert token_hmac(SECRET, theirs.token_id) == theirs.hmac
            found = ask(image, asked.message, 3, principal=asked.principal)
            ours = found.response
            theirs.token_id, theirs.hmac = ours.token_id, ours.hmac
            (batch,) = (
                one
                for one in recorded.batches(FULL)
                if any(
                    isinstance(x, r.DelegationTokenRecord)
                    and x.issue_timestamp == theirs.issue_timestamp_ms
                    for x in one.records
                )
            )
            (record,) = batch.records
            record.token_id = ours.token_id
            assert list(found.records) == [record]
            assert ours == theirs
        else:
            found = ask(image, asked.message, 2, principal=asked.principal)
            assert found.response.error_code == theirs.error_code == 0
            removed = holding(FULL, r.RemoveDelegationTokenRecord).records
            assert list(found.records) == list(removed)
    assert seen == ["CreateDelegationTokenRequest", "ExpireDelegationTokenRequest"]


@pytest.mark.parametrize(
    ("caller", "protocol", "allowed"),
    [
        ({"forwarded": True}, 0, True),
        ({"forwarded": True, "principal": "User:ANONYMOUS"}, 1, True),
        ({"forwarded": True, "token_authenticated": True}, 3, False),
        ({"forwarded": False}, 0, False),
        ({"forwarded": False, "principal": "User:ANONYMOUS"}, 1, False),
        ({"forwarded": False}, 1, True),
        ({"forwarded": False}, 2, True),
        ({"forwarded": False}, 3, True),
        ({"forwarded": False, "token_authenticated": True}, 3, False),
        ({"forwarded": False, "listener": "UNKNOWN"}, 3, False),
    ],
)
def test_only_who_proved_itself_otherwise_may_ask(
    caller: dict[str, Any], protocol: int, allowed: bool
) -> None:
    listeners = (ControllerEndpoint("CONTROLLER", "127.0.0.1", 1, protocol),)
    for request in ALL:
        answer = ask(image_of(token()), request, listeners=listeners, **caller).response
        refused = answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert refused is not allowed
        assert refused == (answer.expiry_timestamp_ms == -1)


@pytest.mark.parametrize("request_", ALL, ids=IDS)
@pytest.mark.parametrize(
    ("properties", "level", "code"),
    [
        ({}, 21, 61),
        ({}, 13, 61),
        ({"delegation.token.secret.key": ""}, 21, 61),
        (ON, 13, 35),
        (ON, 14, 0),
        ({"delegation.token.master.key": SECRET}, 21, 0),
    ],
)
def test_a_secret_and_the_level_are_needed(
    request_: Any, properties: dict[str, str], level: int, code: int
) -> None:
    image = image_of(token(), mv=21 if level == 14 else level)
    result = ask(image, request_, properties=properties)
    assert result.response.error_code == code
    assert bool(result.records) == (code == 0)
    assert result.response.expiry_timestamp_ms >= 0


@pytest.mark.parametrize(
    ("properties", "asked_ms", "max_ms", "expiry_ms"),
    [
        ({}, -1, 7 * DAY_MS, DAY_MS),
        ({}, 0, 7 * DAY_MS, DAY_MS),
        ({}, HOUR_MS, HOUR_MS, HOUR_MS),
        ({}, 2**63 - 1, 7 * DAY_MS, DAY_MS),
        ({"delegation.token.max.lifetime.ms": "5"}, -1, 5, 5),
        ({"delegation.token.expiry.time.ms": "6"}, DAY_MS, DAY_MS, 6),
    ],
)
def test_how_long_a_new_token_lives(
    properties: dict[str, str], asked_ms: int, max_ms: int, expiry_ms: int
) -> None:
    request = create(max_lifetime_ms=asked_ms, renewers=[renewer("bob"), renewer("carol")])
    result = ask(image_of(), request, properties={**ON, **properties})
    answer = result.response
    assert answer.issue_timestamp_ms == NOW
    assert answer.max_timestamp_ms == NOW + max_ms
    assert answer.expiry_timestamp_ms == NOW + expiry_ms
    (record,) = result.records
    assert isinstance(record, r.DelegationTokenRecord)
    assert (record.owner, record.requester, record.renewers) == (ALICE, ALICE, (BOB, CAROL))
    assert record.expiration_timestamp == answer.expiry_timestamp_ms
    assert answer.hmac == token_hmac(SECRET, record.token_id)


@pytest.mark.parametrize(
    ("fields", "code", "owner"),
    [
        ({"owner_principal_name": "bob", "owner_principal_type": "User"}, 0, BOB),
        ({"owner_principal_name": "", "owner_principal_type": "User"}, 0, ALICE),
        ({"owner_principal_name": None, "owner_principal_type": None}, 0, ALICE),
        ({"owner_principal_name": "bob", "owner_principal_type": None}, 67, ":bob"),
        ({"renewers": [renewer("g", "Group")]}, 67, ALICE),
        ({"renewers": [renewer("g" * 32_763)]}, 42, ALICE),
    ],
)
def test_owner_and_renewers(fields: dict[str, Any], code: int, owner: str) -> None:
    result = ask(image_of(), create(**fields))
    answer = result.response
    assert answer.error_code == code
    assert f"{answer.principal_type}:{answer.principal_name}" == owner
    assert answer.token_requester_principal_name == "alice"
    assert [one.owner for one in result.records if isinstance(one, r.DelegationTokenRecord)] == [
        owner for _ in range(code == 0)
    ]


def test_a_token_for_somebody_else_needs_create_tokens_on_that_user() -> None:
    denies = Denies()
    other = create(owner_principal_name="bob", owner_principal_type="User")
    answer = ask(image_of(), other, authorizer=denies, properties={}).response
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert answer.expiry_timestamp_ms == -1
    assert denies.asked == [("CREATE_TOKENS", "USER", BOB)]
    own = create(owner_principal_name="alice", owner_principal_type="User")
    assert ask(image_of(), own, authorizer=denies).response.error_code == 0


def test_before_v3_the_answer_does_not_name_who_asked() -> None:
    answer = ask(image_of(), create(), 2).response
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "")


@pytest.mark.parametrize("request_", [renew(9), expire(9)], ids=IDS[1:])
def test_an_unknown_hmac(request_: Any) -> None:
    answer = ask(image_of(token()), request_).response
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


OLD = {"expiration_timestamp": NOW - 1}
DEAD = {"max_timestamp": NOW - 1, "expiration_timestamp": NOW - 1}


@pytest.mark.parametrize(
    ("request_", "fields", "principal", "code", "expiry"),
    [
        (renew(), {}, ALICE, 0, NOW + DAY_MS),
        (renew(period_ms=7), {}, BOB, 0, NOW + 7),
        (renew(period_ms=9 * DAY_MS), {}, ALICE, 0, NOW + DAY_MS),
        (renew(), {}, CAROL, 63, 0),
        (renew(), OLD, CAROL, 66, 0),  # told that before it is asked who it is
        (renew(), DEAD, ALICE, 66, 0),
        (renew(), {"expiration_timestamp": NOW}, ALICE, 0, NOW + DAY_MS),
        (renew(), {"max_timestamp": NOW}, ALICE, 0, NOW),
        (expire(period_ms=7), {}, BOB, 0, NOW + 7),
        (expire(period_ms=0), {}, ALICE, 0, NOW),
        (expire(period_ms=2**63 - 1), {}, ALICE, 0, NOW + DAY_MS),
        (expire(), {}, BOB, 0, NOW),
        (expire(), OLD, ALICE, 0, NOW),
        (expire(period_ms=7), OLD, ALICE, 66, 0),
        (expire(), OLD, CAROL, 63, 0),
        (expire(), {}, "Group:alice", 63, 0),
    ],
)
def test_renewing_and_ending(
    request_: Any, fields: dict[str, Any], principal: str, code: int, expiry: int
) -> None:
    image = image_of(token(2), token(**fields), token(3))
    result = ask(image, request_, principal=principal)
    assert (result.response.error_code, result.response.expiry_timestamp_ms) == (code, expiry)
    if code:
        assert result.records == ()
    elif getattr(request_, "expiry_time_period_ms", 0) < 0:
        assert result.records == (r.RemoveDelegationTokenRecord(token_id="token-1"),)
    else:
        moved = token(**{**fields, "expiration_timestamp": expiry})
        assert list(result.records) == [moved]


def test_expired_tokens_are_swept() -> None:
    """Every check interval, and only those past their expiry."""
    world = World(
        properties={**ON, "delegation.token.expiry.check.interval.ms": "1000"},
        metadata_max_idle_interval_ms=0,
    )
    for life_ms in (500, 2_500, 60_000):
        answer = world.ask(create(max_lifetime_ms=life_ms), forwarded=True, principal=ALICE)
        assert answer.error_code == 0
    counts = []
    for _ in range(5):
        world.later(1_001)
        counts.append(len(world.tip.delegation_tokens))
    assert counts == [2, 2, 1, 1, 1]


def test_settings_have_kafkas_defaults() -> None:
    assert TokenSettings.read(PropertyReader({})) == TokenSettings(
        None, 7 * DAY_MS, DAY_MS, HOUR_MS
    )


def test_a_life_without_end_ends_with_the_largest_timestamp() -> None:
    """Kafka's sum overflows, and the token is expired before it is used."""
    names = ("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms")
    endless = dict.fromkeys(names, str(2**63 - 1))
    world = World(
        properties=ON | endless,
        listeners=(ControllerEndpoint("CONTROLLER", "127.0.0.1", 23000, 3),),
    )
    made = world.ask(create(max_lifetime_ms=-1), principal=ALICE)
    assert (made.error_code, made.max_timestamp_ms) == (0, 2**63 - 1)
    assert made.expiry_timestamp_ms == 2**63 - 1
    renewed = world.ask(
        m.RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=2**63 - 1), principal=ALICE
    )
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, 2**63 - 1)
