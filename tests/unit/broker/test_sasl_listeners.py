"""Nodes with SASL listeners, joined in memory: who a client is decides what it may."""

from __future__ import annotations

import base64
import hmac
import json

import pytest

from emulator.controller.rules.delegation_tokens import token_hmac
from emulator.net import scram
from emulator.net.login import LoginError
from emulator.zookeeper.ops import SEQUENTIAL, Create, SetData
from tests.kit.joined import Asker
from tests.kit.requests import allow, create_topics, delete_scram, upsert_scram
from tests.kit.sasl_properties import ACLS, log_in, sasl
from tests.unit.broker import zookeeper_stage
from tests.unit.broker.joined_brokers import Stage
from tests.unit.broker.zookeeper_stage import MIGRATING, OF_THE_CONTROLLER, ZooKeeperStage
from wire import messages as m
from wire.errors import ErrorCode

BOTH = sasl("CONTROLLER", "PLAINTEXT", mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
SECRET = {"delegation.token.secret.key": "of-tokens"}


def create(client: Asker, name: str) -> int:
    return int(client.ask(create_topics(name), 5).topics[0].error_code)


@pytest.fixture(scope="module")
def stage() -> Stage:
    """The controller and a broker, each with one listener, and alice's ACL."""
    made = Stage(**BOTH, **ACLS, **SECRET)
    made.running(1, **BOTH, **ACLS, **SECRET)
    admin = log_in(made.client(), "admin")
    acl = allow(5, "alices-", "User:alice", pattern=4)
    assert admin.ask(acl, 3).results[0].error_code == 0
    return made


@pytest.mark.requirement("I10", "I11")
def test_the_principal_of_the_client_decides_at_the_controller(stage: Stage) -> None:
    alice = log_in(stage.client(), "alice")
    assert create(alice, "alices-own") == 0
    assert create(alice, "others") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert create(log_in(stage.client(), "admin"), "others") == 0


def test_nobody_asks_anything_without_a_login(stage: Stage) -> None:
    client = stage.client()
    assert client.ask(m.ApiVersionsRequest("a", "1"), 3).error_code == 0
    client.send(m.MetadataRequest(topics=None), 12)
    stage.joined.wait(200)
    assert (client.open, client.frames) == (False, [])
    with pytest.raises(LoginError, match="Invalid username or password"):
        log_in(stage.client(), "alice", password="of-admin")


def test_a_second_login_on_the_connection_is_an_illegal_state(stage: Stage) -> None:
    for address in (("broker-1", 9092), ("controller", 9093)):
        client = log_in(stage.joined.ask(address), "admin")
        handshake = client.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE
        token = client.ask(m.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)
        assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_a_scram_credential_logs_in_to_broker_and_controller(
    stage: Stage, mechanism: str
) -> None:
    user, number = f"scram-{mechanism[-3:]}", 1 if mechanism.endswith("256") else 2
    before = stage.client()
    with pytest.raises(LoginError, match="invalid credentials"):
        log_in(before, user, mechanism, "of-a-user")
    keys = scram.derived(mechanism, "of-a-user")
    wanted = upsert_scram(
        user,
        mechanism=number,
        iterations=keys.iterations,
        salt=keys.salt,
        salted_password=salted_password(mechanism, keys.salt),
    )
    admin = log_in(stage.client(), "admin")
    told = admin.ask(wanted, 0)
    assert told.results[0].error_code == 0
    stage.joined.wait(1_000)
    assert create(log_in(stage.client(), user, mechanism, "of-a-user"), f"{user}-x") == 29
    log_in(stage.joined.ask(("controller", 9093)), user, mechanism, "of-a-user")


def alter(stage: Stage, *, up: bool) -> None:
    keys = b"salt-of-eve"
    salted = salted_password("SCRAM-SHA-256", keys)
    made = upsert_scram("eve", salt=keys, salted_password=salted)
    told = log_in(stage.client(), "admin").ask(made if up else delete_scram("eve"), 0)
    assert told.results[0].error_code == 0


@pytest.mark.parametrize("made_anew", [True, False])
def test_the_connections_of_a_deleted_user_end_at_the_broker_too(
    stage: Stage, *, made_anew: bool
) -> None:
    alter(stage, up=True)
    stage.joined.wait(1_000)
    eve = log_in(stage.client(), "eve", "SCRAM-SHA-256", "of-a-user")
    admin = log_in(stage.client(), "admin")
    alter(stage, up=False)
    if made_anew:
        alter(stage, up=True)
    stage.joined.wait(10_000)
    assert (eve.open, admin.open) == (False, True)


@pytest.mark.parametrize("period_ms", [-1, 2_000])
def test_the_connections_of_a_token_that_is_removed_or_expires_end_at_the_broker_too(
    stage: Stage, period_ms: int
) -> None:
    admin = log_in(stage.client(), "admin")
    made = admin.ask(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    stage.joined.wait(1_000)
    by_token = token_login(stage.client(), made.token_id, base64.b64encode(made.hmac).decode())
    expire = m.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=period_ms)
    assert admin.ask(expire, 2).error_code == 0
    stage.joined.wait(10_000)
    assert (by_token.open, admin.open) == (False, True)


def salted_password(mechanism: str, salt: bytes) -> bytes:
    return scram.salted(scram.DIGESTS[mechanism], "of-a-user", salt, 4_096)


def test_a_delegation_token_is_made_seen_and_used(stage: Stage) -> None:
    alice = log_in(stage.client(), "alice")
    made = alice.ask(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    assert (made.error_code, made.principal_name) == (0, "alice")
    assert made.hmac == token_hmac("of-tokens", made.token_id)
    stage.joined.wait(1_000)
    (shown,) = alice.ask(m.DescribeDelegationTokenRequest(owners=None), 3).tokens
    assert (shown.token_id, shown.principal_name, shown.hmac) == (
        made.token_id,
        "alice",
        made.hmac,
    )
    assert alice.ask(m.DescribeDelegationTokenRequest(owners=[]), 1).tokens == []
    password = base64.b64encode(made.hmac).decode()
    with pytest.raises(LoginError, match="invalid credentials"):
        log_in(stage.client(), made.token_id, "SCRAM-SHA-256", password)
    by_token = token_login(stage.client(), made.token_id, password)
    assert create(by_token, "alices-by-token") == 0
    refused = by_token.ask(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def token_login(client: Asker, token_id: str, password: str) -> Asker:
    """SCRAM with the extension that our own client does not send."""
    assert client.ask(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    first = f"n={token_id},r=abc,tokenauth=true"
    told = client.ask(m.SaslAuthenticateRequest(auth_bytes=f"n,,{first}".encode()), 2)
    challenge = told.auth_bytes.decode()
    values = dict(part.split("=", 1) for part in challenge.split(","))
    key = scram.client_key(
        "sha256", scram.salted("sha256", password, base64.b64decode(values["s"]), 4_096)
    )
    unproven = f"c=biws,r={values['r']}"
    message = f"{first},{challenge},{unproven}".encode()
    signature = hmac.digest(scram.hashed("sha256", key), message, "sha256")
    proof = base64.b64encode(scram.xored(key, signature)).decode()
    final = f"{unproven},p={proof}".encode()
    assert client.ask(m.SaslAuthenticateRequest(auth_bytes=final), 2).error_code == 0
    return client


def test_a_broker_with_a_wrong_password_is_not_registered() -> None:
    made = Stage(**BOTH)
    wrong = {key: value.replace("of-the-nodes", "of-others") for key, value in BOTH.items()}
    broker = made.broker(1, **wrong)
    made.joined.wait(5_000)
    assert not broker.side.running
    shown = [log for log in made.parties[1].logs if "Invalid username" in str(log.fields)]
    assert shown, "the broker's log says that its login was refused"
    assert "of-others" not in str([log.fields for log in made.parties[1].logs])
    assert "of-others" not in str([log.fields for log in made.controller.logs])


def test_the_connections_of_a_user_that_is_deleted_in_zookeeper_end() -> None:
    made = ZooKeeperStage()
    made.had_a_cluster(orders={0: [1]})
    keys = scram.derived("SCRAM-SHA-256", "of-a-user")
    salt, stored, server = (base64.b64encode(one).decode() for one in keys[:3])
    value = f"salt={salt},stored_key={stored},server_key={server},iterations={keys.iterations}"
    data = json.dumps({"version": 1, "config": {"SCRAM-SHA-256": value}}).encode()
    folders = [Create("/config/changes", None), Create("/config/users", None)]
    made.zookeeper.write(*folders, Create("/config/users/eve", data))
    raw = zookeeper_stage.PLAIN | BOTH
    made.running(1, raw=raw)
    eve = log_in(made.client(), "eve", "SCRAM-SHA-256", "of-a-user")
    alice = log_in(made.client(), "alice")
    made.joined.wait(5_000)
    assert eve.open
    change = b'{"version":2,"entity_path":"users/eve"}'
    notification = Create("/config/changes/config_change_", change, flags=SEQUENTIAL)
    empty = SetData("/config/users/eve", b'{"version":1,"config":{}}')
    made.zookeeper.write(empty, notification)
    made.joined.wait(10_000)
    assert (eve.open, alice.open) == (False, True)


def test_brokers_in_zookeeper_mode_and_the_controller_log_in_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zookeeper_stage, "OF_THE_CONTROLLER", OF_THE_CONTROLLER | BOTH)
    made = ZooKeeperStage()
    made.had_a_cluster(orders={0: [1, 2]})
    brokers = made.running(1, 2, raw=MIGRATING | BOTH)
    controller = made.controller()
    made.joined.until(lambda: all(one.side.cluster.topic("orders") for one in brokers))
    assert controller.driver is not None
    made.joined.until(lambda: create(log_in(made.client(2), "alice"), "new") in {0, 36})
    made.joined.until(lambda: brokers[0].side.cluster.topic("new") is not None)
