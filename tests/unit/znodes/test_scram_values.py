"""SCRAM credentials as text: what is read, and that a refused one is not quoted."""

from __future__ import annotations

import pytest

from emulator.metadata.scram import Credential
from emulator.znodes.client_entities import NAMES, parse_scram, render_scram

TEXT = "salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=4096"
CREDENTIAL = Credential(b"a", b"b", b"c", 4_096)


def _with(**changes: str) -> str:
    fields = dict(part.split("=", 1) for part in TEXT.split(","))
    return ",".join(f"{name}={value}" for name, value in (fields | changes).items())


def test_the_two_mechanisms_have_a_key_each() -> None:
    assert set(NAMES) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"{TEXT},",
        "iterations=4096,server_key=Yw==,stored_key=Yg==,salt=YQ==",
        _with(salt="YQ", iterations="+4096"),
    ],
)
def test_a_credential_is_read_and_written(text: str) -> None:
    assert parse_scram(text) == CREDENTIAL
    assert render_scram(CREDENTIAL) == TEXT


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("2147483647", 2**31 - 1)])
def test_the_bounds_of_the_iterations(text: str, number: int) -> None:
    assert parse_scram(_with(iterations=text)).iterations == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "consists of name=value"),
        ("salt", "consists of name=value"),
        (f"=x,{TEXT}", "consists of name=value"),
        (f"{TEXT},x=1", "has the fields salt, stored_key, server_key, iterations"),
        ("salt=YQ==", "has the fields"),
        (_with(salt="Y"), "salt is not base64"),
        (_with(stored_key="Y*=="), "stored_key is not base64"),
        (_with(server_key="Y=="), "server_key is not base64"),
        *[
            (_with(iterations=bad), f"iterations '{bad}' is no number")
            for bad in ("0", "-1", "2147483648", "99999999999", "x")
        ],
    ],
)
def test_what_is_no_credential(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_scram(text)
    assert why in str(refused.value)
    assert "YQ==" not in str(refused.value)
