"""No secret of a dump comes into a rehearsal, and what must be there is made up."""

from __future__ import annotations

import json

import pytest

from bench.rehearsal.secrets import without_secrets
from emulator.servers.zk_dump import redact

SCRAM = "salt=c2VjcmV0,stored_key=U0VDUkVU,server_key=U0VDUkVU,iterations=8192"
SECRET = (
    ("/config/users/alice", {"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "7"}),
    ("/config/users/alice", {"SCRAM-SHA-512": SCRAM}),
    (
        "/config/brokers/1",
        {"listener.name.x.ssl.keystore.password": "U0VDUkVU", "num.io.threads": "9"},
    ),
)


def held(config: dict[str, str]) -> bytes:
    return json.dumps({"version": 1, "config": config}).encode()


@pytest.mark.parametrize(("path", "config"), SECRET)
@pytest.mark.parametrize("dumped_without", [False, True])
def test_a_secret_is_replaced_whether_the_dump_has_it_or_not(
    path: str, config: dict[str, str], dumped_without: bool
) -> None:
    data = redact(path, held(config)) if dumped_without else held(config)
    found = without_secrets(path, data)
    assert found is not None
    assert b"U0VDUkVU" not in found
    assert b"c2VjcmV0" not in found
    now = json.loads(found)["config"]
    for key, value in config.items():
        if "SCRAM" in key:
            assert now[key].startswith("salt=")
            assert now[key] != value
        elif "password" in key:
            assert key not in now
        else:
            assert now[key] == value


def test_the_hmac_of_a_token_is_replaced() -> None:
    path = "/delegation_token/tokens/x"
    found = without_secrets(path, b'{"tokenId":"x","hmac":"U0VDUkVU"}')
    assert found is not None
    assert b"U0VDUkVU" not in found
    assert json.loads(found)["tokenId"] == "x"


@pytest.mark.parametrize("data", [None, b"", b'{"version":1,"config":{"a":"b"}}'])
def test_what_has_no_secret_stays_byte_by_byte(data: bytes | None) -> None:
    assert without_secrets("/config/users/alice", data) == data
    assert without_secrets("/brokers/topics/a", b"\xff secret") == b"\xff secret"


def test_what_is_malformed_stays_malformed_and_shows_nothing() -> None:
    found = without_secrets("/config/users/alice", b'{"config": U0VDUkVU')
    assert found == b"<redacted>"
