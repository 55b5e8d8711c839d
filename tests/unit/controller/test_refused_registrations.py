"""Why a broker cannot register: said once for each broker and cause, until it registers."""

from __future__ import annotations

import pytest

from emulator.controller import surroundings
from emulator.controller.result import ApiError, Registering
from emulator.controller.rules import refused_broker
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.controller.surroundings import Registrations
from tests.unit.controller.world import World, registration
from wire import messages as m
from wire.errors import ErrorCode

OTHER = [m.BrokerRegistrationRequest.Listener(name="OTHER", host="h", port=1)]


def world() -> World:
    return World(migration_enabled=True, inter_broker_listener_name="INTERNAL")


def lines(known: Registrations) -> list[tuple[str, object, object, str]]:
    return [
        (one.level, one.fields["broker_id"], one.fields["code"], str(one.fields["text"]))
        for one in known.take()
    ]


def test_each_cause_is_logged_once_for_each_broker() -> None:
    here = world()
    known = here.controller.surroundings.registrations
    for broker_id in (1, 1, 2):
        answer = here.ask(registration(broker_id, is_migrating_zk_broker=True, listeners=OTHER))
        assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    said = lines(known)
    assert [one[:3] for one in said] == [
        ("warning", 1, "INVALID_REGISTRATION"),
        ("warning", 2, "INVALID_REGISTRATION"),
    ]
    assert "inter.broker.listener.name INTERNAL" in said[0][3]
    here.ask(registration(1, cluster_id="another"))
    assert [one[:3] for one in lines(known)] == [("warning", 1, "INCONSISTENT_CLUSTER_ID")]
    assert str(known.why_not(1)).startswith("INCONSISTENT_CLUSTER_ID: Expected cluster ID")
    assert "INTERNAL" in str(known.why_not(2))


def test_a_broker_that_registers_is_forgotten() -> None:
    here = world()
    known = here.controller.surroundings.registrations
    wrong = registration(1, is_migrating_zk_broker=True, listeners=OTHER)
    here.ask(wrong)
    assert len(lines(known)) == 1
    assert here.register(1, is_migrating_zk_broker=True).error_code == ErrorCode.NONE
    assert known.why_not(1) is None
    here.ask(wrong)
    assert len(lines(known)) == 1, "a fault of its next life is a new one"


def test_any_number_of_causes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "CAUSES_MAX", 3)
    known = Registrations()
    for broker_id in range(10):
        known.tried(Registering(broker_id, ApiError(ErrorCode.INVALID_REGISTRATION, "why")))
    assert [one[0] for one in lines(known)] == ["warning"] * 3 + ["debug"] * 7
    assert [known.why_not(broker_id) is None for broker_id in (0, 2, 3, 9)] == [
        False,
        False,
        True,
        True,
    ]
    known.tried(Registering(1, None))
    known.tried(Registering(9, ApiError(ErrorCode.INVALID_REGISTRATION, "why")))
    assert str(known.why_not(9)) == "INVALID_REGISTRATION: why"


def test_what_a_caller_writes_is_short_and_printable() -> None:
    here = world()
    here.ask(registration(1, cluster_id="\x1b[2J\r\n" + "x" * 30_000))
    ((_, _, _, text),) = lines(here.controller.surroundings.registrations)
    assert text.isprintable()
    assert "cluster ID ?[2J??xxx" in text
    assert len(text) <= refused_broker.TEXT_MAX


LEVELS = m.BrokerRegistrationRequest.Feature
REFUSED = {
    "INCONSISTENT_CLUSTER_ID": (lambda: {"cluster_id": "another"}, "meta.properties"),
    "INVALID_REGISTRATION": (lambda: {"listeners": OTHER}, "Correct what the error names"),
    "UNSUPPORTED_VERSION": (
        lambda: {
            "features": [
                LEVELS(min_supported_version=1, max_supported_version=8, name="metadata.version")
            ]
        },
        "inter.broker.protocol.version=3.",
    ),
    "BROKER_ID_NOT_REGISTERED": (
        lambda: {"is_migrating_zk_broker": False},
        "until the phase is dual write",
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refusal_says_what_was_offered_what_is_needed_and_what_to_do(code: str) -> None:
    here, (changes, remedy) = world(), REFUSED[code]
    known = here.controller.surroundings.registrations
    wrong = {"is_migrating_zk_broker": True} | changes()
    for times in (1, 2):
        assert here.ask(registration(1, **wrong)).error_code == ErrorCode[code]
        (found,) = known.refusals()
        assert (found.cause.code, found.times) == (code, times)
    told = found.attempt
    assert told.at_ms == here.now_ms
    assert told.peer == "127.0.0.1 as User:ANONYMOUS"
    assert remedy in told.remedy
    assert "metadata.version" in told.offered
    assert f"cluster id {wrong.get('cluster_id', here.config.cluster_id)}" in told.offered
    assert f"cluster id {here.config.cluster_id}" in told.needed
    assert here.register(1, is_migrating_zk_broker=True).error_code == ErrorCode.NONE
    assert known.refusals() == []


@pytest.mark.parametrize("migrating", [True, False])
def test_a_broker_of_confluent_server_is_refused_for_what_it_is(migrating: bool) -> None:
    """It was said to offer 3.0-IV1, and to need another release."""
    here = world() if migrating else World()
    name = "confluent.metadata.version"
    features = [LEVELS(min_supported_version=1, max_supported_version=125, name=name)]
    answer = here.ask(registration(1, is_migrating_zk_broker=migrating, features=features))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    (found,) = here.controller.surroundings.registrations.refusals()
    said = "no metadata.version, but confluent.metadata.version 1 to 125: a broker of Confluent"
    assert said in found.attempt.offered
    assert "3.0-IV1" not in found.attempt.offered
    assert "the same release of Apache Kafka" in found.attempt.remedy


def test_a_broker_that_may_not_register_is_a_refusal_too() -> None:
    """A broker whose principal lacks ClusterAction only logs that it was refused, for ever."""
    here = World(migration_enabled=True, authorizer=StandardAuthorizer(frozenset({"User:admin"})))
    answer = here.ask(registration(7, is_migrating_zk_broker=True))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (found,) = here.controller.surroundings.registrations.refusals()
    assert (found.cause.broker_id, found.cause.code) == (7, "CLUSTER_AUTHORIZATION_FAILED")
    assert found.attempt.remedy.startswith("Add User:ANONYMOUS to super.users")


def test_what_a_broker_says_commands_no_terminal_and_fills_no_page() -> None:
    here = world()
    here.ask(registration(1, cluster_id="\x1b[2J" + "x" * 30_000))
    (found,) = here.controller.surroundings.registrations.refusals()
    shown = repr(found)
    assert "\\x1b" not in shown
    assert len(shown) < 2_000
