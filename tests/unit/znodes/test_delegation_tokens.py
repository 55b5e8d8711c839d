"""Delegation tokens as znodes: three versions read, one written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.metadata import MetadataVersion
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.znodes import delegation_tokens as tokens
from emulator.znodes.entity import RefusalKind
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.ops import SEQUENTIAL, Create
from tests.unit.znodes.test_acls import tree

PATH = "/delegation_token/tokens/abc"
TOKEN = DelegationToken(
    "abc", "User:CN=a b", "User:boss*", ("User:r1", "User:r~2"), 1_700_000_000_000, 9, 5
)
WRITTEN = {
    "version": 3,
    "owner": "User%3ACN%3Da%20b",
    "tokenRequester": "User%3Aboss%2A",
    "renewers": ["User%3Ar1", "User%3Ar%7E2"],
    "issueTimestamp": 1_700_000_000_000,
    "maxTimestamp": 9,
    "expiryTimestamp": 5,
    "tokenId": "abc",
}


def data(**changes: Any) -> bytes:
    """The token's znode with some members changed; None takes one away."""
    shown = {key: value for key, value in (WRITTEN | changes).items() if value is not None}
    return json.dumps(shown).encode()


def test_a_token_is_written_as_kafka_writes_it_and_comes_back() -> None:
    assert json.loads(tokens.token_data(TOKEN)) == WRITTEN
    assert tokens.parse(PATH, tokens.token_data(TOKEN)) == TOKEN


@pytest.mark.parametrize("version", [1, 2])
def test_before_version_3_the_owner_is_the_requester(version: int) -> None:
    found = tokens.parse(PATH, data(version=version, tokenRequester=None))
    assert found.requester == found.owner == TOKEN.owner
    assert found.renewers == TOKEN.renewers


def test_a_plus_is_a_blank_as_in_java() -> None:
    assert tokens.parse(PATH, data(owner="User%3Aa+b", renewers=[])).owner == "User:a b"


def test_renewers_are_a_set_and_unknown_members_mean_nothing() -> None:
    other = data(renewers=["User%3Ar~2", "User%3Ar1"], hmac="x")
    assert tokens.same(PATH, tokens.token_data(TOKEN), other)
    assert not tokens.same(PATH, tokens.token_data(TOKEN), data(expiryTimestamp=6))
    assert not tokens.same(PATH, tokens.token_data(TOKEN), data(renewers=["User%3Ar1"]))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (None, "no data"),
        (b"{", "truncated"),
        (data(version=0), "version 0"),
        (data(version=4), "version 4"),
        (data(tokenRequester=None), "tokenRequester"),
        (data(owner="alice"), "'alice' has no type"),
        (data(renewers=["r"]), "'r' has no type"),
        (data(tokenId="other"), "holds the token 'other'"),
        (data(maxTimestamp=2**63), "maxTimestamp"),
        (data(issueTimestamp=-(2**63) - 1), "issueTimestamp"),
        (data(owner="User:" + "a" * 32_768), "more than 32767 bytes"),
    ],
)
def test_what_is_no_token_is_refused_by_its_znode(bad: bytes | None, why: str) -> None:
    with pytest.raises(ZnodeError, match=r".") as refused:
        tokens.parse(PATH, bad)
    assert why in refused.value.why
    newest = MetadataVersion.from_level(21)
    found = list(tokens.DelegationTokens().refusals(tree({PATH: bad}), newest))
    assert [(one.kind, one.path) for one in found if one] == [(RefusalKind.MALFORMED, PATH)]


@pytest.mark.parametrize("time_ms", [-(2**63), -1, 0, 2**63 - 1])
def test_a_time_is_any_long(time_ms: int) -> None:
    found = tokens.parse(
        PATH, data(issueTimestamp=time_ms, maxTimestamp=time_ms, expiryTimestamp=time_ms)
    )
    assert found.issue_timestamp == found.max_timestamp == found.expiration_timestamp == time_ms


@pytest.mark.parametrize("level", [8, 13, 14, 21])
def test_below_their_first_level_tokens_are_refused_by_znode(level: int) -> None:
    version = MetadataVersion.from_level(level)
    found = tokens.DelegationTokens().refusals(tree({PATH: data()}), version)
    refusals = [one for one in found if one is not None]
    assert [(one.kind, one.path) for one in refusals] == [
        (RefusalKind.METADATA_VERSION, PATH) for _ in range(level < 14)
    ]
    assert all("14 (3.6-IV2)" in one.why and version.name in one.why for one in refusals)


def test_an_id_that_no_record_holds_is_refused() -> None:
    token_id = "a" * 32_768
    with pytest.raises(ZnodeError, match=r"more than 32767 bytes"):
        tokens.parse(tokens.token_path(token_id), data(tokenId=token_id))


def test_the_notification_is_the_id() -> None:
    path = "/delegation_token/token_changes/token_change_"
    assert tokens.notification(PATH) == Create(path, b"abc", flags=SEQUENTIAL)
