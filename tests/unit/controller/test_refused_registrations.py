"""Why a broker cannot register: said once for each broker and cause, until it registers."""

from __future__ import annotations

import pytest

from emulator.controller import registrations
from emulator.controller.registrations import Registrations
from emulator.controller.result import ApiError, Registering
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
    monkeypatch.setattr(registrations, "CAUSES_MAX", 3)
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
    assert len(text) <= registrations.TEXT_MAX
