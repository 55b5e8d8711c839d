"""Logins by PLAIN and by certificate, as two files show them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.reaching import refusals
from emulator.operations.preflight.report import run
from tests.unit.operations.preflight.access_changes import OF_CONTROLLERS, by_plain
from tests.unit.operations.preflight.clean import PLAIN_LOGIN, clean

KEY = "listener.name.c.plain.sasl.jaas.config"
HANDLER = "listener.name.c.plain.sasl.server.callback.handler.class"


def told(one: Mapping[str, str], other: Mapping[str, str], protocol: str) -> list[str]:
    a, b = (
        Properties("a", one),
        Properties("b", {**other, "listener.security.protocol.map": f"C:{protocol}"}),
    )
    return [x.fact for x in refusals(a, "C", b, "C", "PLAIN")]


def module(options: str) -> dict[str, str]:
    return {KEY: f"{PLAIN_LOGIN} required {options};"}


@pytest.mark.parametrize(
    ("own", "theirs", "fact"),
    [
        ('username="b" password="p"', 'user_b="p"', ""),
        ("username=b password='p'", "user_a=x user_b=p", ""),
        ('username = "b"  password="p"', 'user_b = "p"', ""),
        ('username="b" password="a=b; user_b=x"', 'user_b="a=b; user_b=x"', ""),
        ('username="b" password="p"', 'user_b="q"', "logs in as b with another password"),
        ('username="b" password="p"', 'username="x"', "logs in as b, and C of b knows no such"),
        ('username="b" password="p"', 'user_B="p"', "logs in as b, and C of b knows no such"),
        (r'username="b" password="\101b"', 'user_b="Ab"', ""),
        (r'username="b" password="\101b"', 'user_b="x"', "logs in as b with another password"),
    ],
)
def test_users_of_plain(own: str, theirs: str, fact: str) -> None:
    found = told(module(own), module(theirs), "SASL_SSL")
    assert [one.startswith(fact) for one in found] == [True] * bool(fact)


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ({}, module('user_a="x"')),
        (module('username="b"'), {}),
        (module('username="b"'), {**module('user_a="x"'), HANDLER: "com.me.Handler"}),
        (module('username="b"'), {KEY: 'com.me.LoginModule required user_a="x";'}),
        (module('username="b"'), {**module('user_a="${env:A}"'), "config.providers": "env"}),
        (module('username="b" password="a\\"b"'), module('user_b="a\\"b"')),
    ],
)
def test_what_the_files_do_not_say_is_not_judged(
    own: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    assert not told(own, theirs, "SASL_PLAINTEXT")


def test_no_password_is_in_a_finding() -> None:
    spoilt = by_plain('username="b" password="Qz7vOne"', OF_CONTROLLERS.replace("b-", "Qz7v"))
    report = run(spoilt(clean("plain")))
    assert "B22" in {one.code for one in report.findings}
    assert "Qz7v" not in repr(report)


def test_a_user_that_the_controllers_know_is_let_in() -> None:
    right = by_plain('username="b" password="b-secret"', OF_CONTROLLERS)
    assert "B22" not in {one.code for one in run(right(clean("plain"))).findings}


@pytest.mark.parametrize(
    ("own", "theirs", "protocol", "refused"),
    [
        ({}, {"ssl.client.auth": "required"}, "SSL", True),
        ({}, {"ssl.client.auth": "required"}, "SASL_SSL", False),
        ({}, {"ssl.client.auth": "requested"}, "SSL", False),
        ({}, {"listener.name.c.ssl.client.auth": "required"}, "SSL", True),
        (
            {},
            {"ssl.client.auth": "required", "listener.name.c.ssl.client.auth": "none"},
            "SSL",
            False,
        ),
        ({"ssl.keystore.location": "/k"}, {"ssl.client.auth": "required"}, "SSL", False),
        ({"listener.name.c.ssl.keystore.key": "k"}, {"ssl.client.auth": "required"}, "SSL", False),
        ({"ssl.engine.factory.class": "com.me.F"}, {"ssl.client.auth": "required"}, "SSL", False),
    ],
)
def test_certificates(
    own: Mapping[str, str], theirs: Mapping[str, str], protocol: str, refused: bool
) -> None:
    assert bool(told(own, theirs, protocol)) is refused
