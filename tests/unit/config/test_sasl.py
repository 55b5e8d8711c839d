"""SASL in ``server.properties``: Kafka's names, and that no password is in any text."""

from __future__ import annotations

import pytest

from emulator.config.broker import load_broker
from emulator.config.load import Config, ConfigError, load
from emulator.config.sasl import OPEN_ACCESS, PeerAccess, SaslListener, SaslLogin
from emulator.config.zookeeper import owner_missing

SECURITY = "org.apache.kafka.common.security"
PLAIN = f"{SECURITY}.plain.PlainLoginModule required"
SCRAM = f"{SECURITY}.scram.ScramLoginModule required"
PASSWORD = "of-node's\\\\own"
OWN = f'username="node" password="{PASSWORD}"'
USERS = 'user_node="x" user_alice="y z"'
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@localhost:9093",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
    "log.dirs": "data",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} {OWN} {USERS};",
}
BROKER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "3000@c1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "listeners": "CLIENT://:9092",
    "log.dirs": "a",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN",
    "listener.name.client.plain.sasl.jaas.config": f"{PLAIN} {USERS};",
    "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "listener.name.controller.scram-sha-256.sasl.jaas.config": f"{SCRAM} {OWN};",
}
MIGRATION = {"zookeeper.metadata.migration.enable": "true", "zookeeper.connect": "zk:2181"}
LOGIN = SaslLogin("SCRAM-SHA-256", "node", "of-node's\\own")


def controller(**more: str) -> Config:
    return load(CONTROLLER | {key.replace("_", "."): value for key, value in more.items()})[0]


def test_a_listener_of_a_controller() -> None:
    found = controller(connection_failed_authentication_delay_ms="7")
    assert found.sasl.listeners == {
        "CONTROLLER": SaslListener(("PLAIN",), {"node": "x", "alice": "y z"})
    }
    assert found.sasl.failure_delay_ms == 7
    assert (found.quorum_access, found.inter_broker_access) == (OPEN_ACCESS, OPEN_ACCESS)
    assert controller().sasl.receive_bytes_max == 524_288


def test_voters_log_in_to_each_other() -> None:
    voters = {"controller.quorum.voters": "3000@a:1,3001@b:1"}
    told = CONTROLLER | voters | {"sasl.mechanism.controller.protocol": "PLAIN"}
    login = SaslLogin("PLAIN", "node", LOGIN.password)
    assert load(told)[0].quorum_access.login == login
    with pytest.raises(ConfigError, match=r"sasl\.mechanism\.controller\.protocol=GSSAPI"):
        load(CONTROLLER | voters)


@pytest.mark.parametrize("by", ["listener", "protocol"])
def test_a_migrating_controller_logs_in_to_brokers(by: str) -> None:
    name = "INTERNAL" if by == "listener" else "SASL_PLAINTEXT"
    told = {
        "inter.broker.listener.name": name,
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        f"listener.name.{name.lower()}.scram-sha-256.sasl.jaas.config": f"{SCRAM} {OWN};",
    }
    if by == "protocol":
        told["security.inter.broker.protocol"] = told.pop("inter.broker.listener.name")
    found, _ = load(CONTROLLER | MIGRATION | told)
    assert found.inter_broker_access.login == LOGIN
    assert found.inter_broker_listener_name == name
    assert owner_missing(found.zookeeper_security) == []
    del told[f"listener.name.{name.lower()}.scram-sha-256.sasl.jaas.config"]
    with pytest.raises(ConfigError, match=rf"listener\.name\.{name.lower()}\.scram-sha-256\."):
        load(CONTROLLER | MIGRATION | told)


def test_the_listener_between_brokers_is_looked_for_in_upper_case() -> None:
    """As brokers register theirs; the map may be in lower case, too."""
    told = {
        "inter.broker.listener.name": "internal",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,Internal:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.internal.scram-sha-256.sasl.jaas.config": f"{SCRAM} {OWN};",
    }
    found, _ = load(CONTROLLER | MIGRATION | told)
    assert (found.inter_broker_listener_name, found.inter_broker_access.login) == (
        "INTERNAL",
        LOGIN,
    )


def test_a_broker_in_both_modes() -> None:
    found, warnings = load_broker(BROKER, "me")
    assert warnings == ()
    (listener,) = found.sasl.listeners.values()
    assert listener.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert listener.users == {"node": "x", "alice": "y z"}
    assert (found.controller_access, found.inter_broker_access) == (PeerAccess(LOGIN), OPEN_ACCESS)
    zookeeper = {key: value for key, value in BROKER.items() if key != "process.roles"} | MIGRATION
    with pytest.raises(ConfigError, match=r"sasl\.mechanism\.inter\.broker\.protocol=GSSAPI"):
        load_broker(zookeeper, "me")
    zookeeper["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
    key = "listener.name.client.plain.sasl.jaas.config"
    with pytest.raises(ConfigError, match="needs username and password"):
        load_broker(zookeeper, "me")
    zookeeper[key] = f"{PLAIN} {OWN} {USERS};"
    assert load_broker(zookeeper, "me")[0].inter_broker_access.login == SaslLogin(
        "PLAIN", "node", LOGIN.password
    )


def test_a_plaintext_node_reads_nothing_of_it() -> None:
    plain = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}
    useless = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "connections.max.reauth.ms": "1000",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
    }
    found, warnings = load(CONTROLLER | MIGRATION | plain | useless)
    assert (found.sasl.listeners, found.quorum_access, warnings) == ({}, OPEN_ACCESS, ())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI,PLAIN"}, "sasl.enabled.mechanisms=GSSAPI,PLAIN"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms="),
        (
            {"listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER"},
            "listener.name.controller.sasl.enabled.mechanisms=OAUTHBEARER",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "controller.scram-sha-256.sasl.jaas.config"),
        ({"connections.max.reauth.ms": "x"}, "connections.max.reauth.ms=x"),
        (
            {"listener.name.controller.plain.connections.max.reauth.ms": str(1 << 63)},
            "connections.max.reauth.ms=9223372036854775808: must be between",
        ),
        (
            {"listener.name.controller.plain.sasl.server.callback.handler.class": "a.B"},
            "handler.class=a.B",
        ),
        ({"sasl.server.max.receive.size": "0"}, "sasl.server.max.receive.size=0"),
        (
            {"connection.failed.authentication.delay.ms": "10", "connections.max.idle.ms": "10"},
            "must be less than connections.max.idle.ms=10",
        ),
        (
            {"listener.security.protocol.map": "CONTROLLER:SASL_SSL"},
            "ssl.keystore.location is required for listener CONTROLLER",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(change: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(CONTROLLER | change)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("told", "session_ms"),
    [
        ({}, {}),
        ({"": "-1"}, {}),
        ({"": "5"}, {"PLAIN": 5, "SCRAM-SHA-256": 5}),
        ({"": "5", "listener.name.controller.": "0"}, {}),
        ({"listener.name.controller.plain.": "7", "": "0"}, {"PLAIN": 7}),
        (
            {"listener.name.controller.scram-sha-256.": "7", "listener.name.controller.": "6"},
            {"PLAIN": 6, "SCRAM-SHA-256": 7},
        ),
        ({"listener.name.other.": "7"}, {}),
    ],
)
def test_how_long_a_session_lasts(told: dict[str, str], session_ms: dict[str, int]) -> None:
    both = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.controller.scram-sha-256.sasl.jaas.config": f"{SCRAM} {OWN};",
    }
    keys = {f"{prefix}connections.max.reauth.ms": value for prefix, value in told.items()}
    found, _ = load(CONTROLLER | both | keys)
    assert found.sasl.listeners["CONTROLLER"].session_ms == session_ms


BY_SCRAM = {
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.controller.scram-sha-256.sasl.jaas.config": f"{SCRAM} {OWN};",
}
THREE = {"controller.quorum.voters": ",".join(f"{3000 + n}@host-{n}:9093" for n in range(3))}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_voters_do_not_log_in_to_each_other_by_scram(mechanism: str) -> None:
    change = {key: value.replace("SCRAM-SHA-256", mechanism) for key, value in BY_SCRAM.items()}
    change["listener.name.controller.scram-sha-512.sasl.jaas.config"] = f"{SCRAM} {OWN};"
    with pytest.raises(ConfigError) as refused:
        load(CONTROLLER | THREE | change)
    (why,) = refused.value.problems
    assert why.startswith(f"sasl.mechanism.controller.protocol={mechanism}: several voters cannot")
    assert PASSWORD not in why


def test_brokers_and_a_voter_alone_may_log_in_by_scram() -> None:
    load(CONTROLLER | BY_SCRAM)
    load_broker(BROKER | BY_SCRAM | {"controller.quorum.voters": THREE[next(iter(THREE))]}, "me")
    plain = {"sasl.mechanism.controller.protocol": "PLAIN"}
    load(CONTROLLER | THREE | BY_SCRAM | {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"} | plain)


@pytest.mark.parametrize(
    "jaas",
    [
        "",
        PASSWORD,
        f"{PLAIN} user_node={PASSWORD} and more;",
        f'{PLAIN} user_node="{PASSWORD}"',
        f'{PLAIN} user_node="{PASSWORD}\ud800";',
        f'{PLAIN} user_node="{PASSWORD};',
        f'{PLAIN} user_node="{PASSWORD}"; {PLAIN} user_x="{PASSWORD}";',
        f'{SCRAM} user_node="{PASSWORD}";',
        f'own.Module required user_node="{PASSWORD}";',
        f'{PLAIN} user_="{PASSWORD}";',
        f'{PLAIN} user_node="";',
        f'KafkaServer {{ {PLAIN} user_node="{PASSWORD}"; }};',
    ],
)
def test_a_wrong_login_module_is_named_without_its_options(jaas: str) -> None:
    key = "listener.name.controller.plain.sasl.jaas.config"
    with pytest.raises(ConfigError) as refused:
        load(CONTROLLER | {key: jaas})
    assert key in str(refused.value)
    assert "of-node" not in str(refused.value)


def test_no_password_is_shown() -> None:
    voters = {"controller.quorum.voters": "3000@a:1,3001@b:1"}
    told, _ = load(CONTROLLER | voters | {"sasl.mechanism.controller.protocol": "PLAIN"})
    broker, _ = load_broker(BROKER, "me")
    shown = f"{told.sasl} {told.quorum_access} {broker.sasl} {broker.controller_access}"
    assert "node" in shown
    assert not [word for word in ("of-node", "y z", "alice") if word in shown]
