"""Kafka's property files: what is accepted, what is refused, and with which words."""

from __future__ import annotations

import pytest

from emulator.config import load as config
from emulator.config import properties
from emulator.config.authorizer import STANDARD, AuthorizerSettings
from emulator.config.listeners import HostPort

GOOD = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@localhost:9093",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "data",
}


@pytest.mark.requirement("C01")
def test_migration_is_off_unless_asked_for() -> None:
    found, warnings = config.load(GOOD)
    assert not found.migration_enabled
    assert warnings == ()


def test_a_controllers_listener_without_a_map_is_plaintext_as_in_kafka() -> None:
    """Source: KafkaConfig.effectiveListenerSecurityProtocolMap."""
    bare = {key: text for key, text in GOOD.items() if key != "listener.security.protocol.map"}
    found, _ = config.load(bare)
    assert [one.security_protocol for one in found.listeners] == ["PLAINTEXT"]
    more = {"listeners": "CONTROLLER://127.0.0.1:9093,SASL_SSL://127.0.0.1:9094"}
    with pytest.raises(config.ConfigError, match="listener CONTROLLER: CONTROLLER is no security"):
        config.load(bare | more)
    with pytest.raises(config.ConfigError, match="listener CONTROLLER: CONTROLLER is no security"):
        config.load(bare | {"listener.security.protocol.map": "OTHER:PLAINTEXT"})


@pytest.mark.requirement("C09")
def test_zookeeper_settings_are_optional_and_have_kafkas_defaults() -> None:
    on = {"zookeeper.metadata.migration.enable": "true", "zookeeper.connect": "a:1,b:2/c/d"}
    found, _ = config.load(GOOD | on)
    assert found.zookeeper_session_timeout_ms == 18_000
    assert found.zookeeper_connection_timeout_ms == 18_000
    assert found.zookeeper_max_in_flight_requests == 10
    assert found.zookeeper_servers == (HostPort("a", 1), HostPort("b", 2))
    assert found.zookeeper_chroot == "/c/d"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"zookeeper.metadata.migration.enable": "true"},
            "zookeeper.connect is required",
            marks=pytest.mark.requirement("C08"),
        ),
        pytest.param(
            {"process.roles": "broker,controller"},
            "combined broker,controller node",
            marks=pytest.mark.requirement("P03", "X07"),
        ),
        ({"node.id": "x"}, "node.id=x: not a whole number"),
        ({"node.id": "300_0"}, "node.id=300_0: not a whole number"),
        ({"node.id": "\u0663\u0660"}, "node.id=30 is not in controller.quorum.voters"),
        ({"node.id": "1" * 5_000}, ": not a whole number"),
        ({"controller.quorum.voters": "3_000@a:1"}, "'3_000@a:1' is not id@host:port"),
        ({"controller.quorum.voters": "3000@a:\u0663"}, "is not host:port"),
        ({"controller.quorum.voters": "3000@a:\xb2"}, "is not host:port"),
        ({"node.id": "7"}, "node.id=7 is not in controller.quorum.voters"),
        ({"controller.quorum.voters": "3000@a"}, "'a' is not host:port"),
        ({"controller.listener.names": "OTHER"}, "OTHER is not in listeners"),
        ({"listener.security.protocol.map": "CONTROLLER:SSL"}, "ssl.keystore.location is required"),
        ({"listener.security.protocol.map": "CONTROLLER:X"}, "known protocol"),
        ({"log.dirs": ""}, "metadata.log.dir or log.dirs is required"),
        ({"zookeeper.connect": "a:1,b:x"}, "'b:x' is not host:port"),
        ({"zookeeper.connect": "/chroot"}, "no server named"),
        ({"process.roles": ""}, "process.roles is required"),
        ({"controller.listener.names": " "}, "controller.listener.names is required"),
        ({"listeners": ""}, "listeners is required"),
        ({"controller.quorum.voters": ""}, "controller.quorum.voters is required"),
        ({"log.dirs": " , "}, "metadata.log.dir or log.dirs is required"),
        (
            {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
            "needs org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        (
            {
                "authorizer.class.name": STANDARD,
                "kraftbridge.release": "3.4",
                "zookeeper.metadata.migration.enable": "true",
            },
            "Kafka 3.4 does not migrate ACLs",
        ),
        ({"super.users": "User:a;b"}, "super.users=User:a;b: not Type:name: b"),
        ({"allow.everyone.if.no.acl.found": "yes"}, "must be true or false"),
        ({"kraftbridge.release": "3.3"}, "must be one of 3.4"),
        ({"broker.session.timeout.ms": "0"}, "must be between 1"),
        ({"delete.topic.enable": "yes"}, "must be true or false"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(config.ConfigError) as error:
        config.load(GOOD | changes)
    assert problem in str(error.value)


def test_an_authorizer_is_configured_by_its_class() -> None:
    raw = GOOD | {"super.users": " User:a,O=b ; User:c;", "allow.everyone.if.no.acl.found": "TRUE"}
    for given in (raw, raw | {"authorizer.class.name": ""}):
        found, warnings = config.load(given)
        assert found.authorizer is None
        assert warnings == ()
    found, _ = config.load(raw | {"authorizer.class.name": STANDARD})
    users = frozenset({"User:a,O=b", "User:c"})
    assert found.authorizer == AuthorizerSettings(users, allow_everyone_if_no_acl_found=True)


def test_all_wrong_values_are_reported_at_once() -> None:
    with pytest.raises(config.ConfigError) as error:
        config.load({"node.id": "x", "process.roles": "broker"})
    named = {problem.split("=")[0].split(" ")[0] for problem in error.value.problems}
    assert named >= {"node.id", "process.roles", "listeners", "controller.quorum.voters"}


def test_a_misspelt_key_is_named_beside_what_is_wrong() -> None:
    raw = {key: value for key, value in GOOD.items() if key != "listeners"} | {"listener": "x"}
    with pytest.raises(config.ConfigError, match="listeners is required") as error:
        config.load(raw)
    hint = "did you mean listeners?"
    assert error.value.warnings == (f"unknown configuration key listener; {hint}",)


def test_a_zookeeper_without_a_port_is_at_2181() -> None:
    found, _ = config.load(GOOD | {"zookeeper.connect": "a,[::1],b:1/c"})
    servers = [(server.host, server.port) for server in found.zookeeper_servers]
    assert servers == [("a", 2181), ("::1", 2181), ("b", 1)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "127.0.0.1:9093"),
        ({"listeners": "CONTROLLER://:9093"}, "localhost:9093"),
        ({"listeners": "CONTROLLER://0.0.0.0:9093"}, "localhost:9093"),
        ({"advertised.listeners": "CONTROLLER://h:1"}, "h:1"),
        ({"advertised.listeners": "OTHER://h:1"}, "127.0.0.1:9093"),
    ],
)
def test_what_others_are_told_of_the_controllers_listener(
    changes: dict[str, str], told: str
) -> None:
    listener = config.load(GOOD | changes)[0].advertised_controller_listener
    assert f"{listener.host}:{listener.port}" == told


def test_an_unknown_key_warns_by_name_and_a_kafka_key_does_not() -> None:
    _, warnings = config.load(GOOD | {"no.such.key": "1", "log.retention.ms": "1"})
    assert warnings == ("unknown configuration key no.such.key",)


def test_a_misspelt_key_of_ours_is_refused_since_its_default_would_be_in_force() -> None:
    wrong = "kraftbridge.zk.write.behind.max.recrods"
    with pytest.raises(config.ConfigError) as error:
        config.load(GOOD | {wrong: "8", "no.such.key": "1"})
    (problem,) = error.value.problems
    assert problem == (f"{wrong}: unknown; did you mean kraftbridge.zk.write.behind.max.records?")
    assert error.value.warnings == ("unknown configuration key no.such.key",)


def test_an_unknown_key_of_ours_that_is_like_none_is_answered_with_all() -> None:
    with pytest.raises(config.ConfigError) as error:
        config.load(GOOD | {"kraftbridge.nothing.alike": "8"})
    (problem,) = error.value.problems
    assert problem.startswith("kraftbridge.nothing.alike: unknown; a controller has ")
    assert "kraftbridge.zookeeper.digest" in problem


def test_how_leaders_come_back_is_configured_as_in_kafka_but_for_a_setting_nobody_reads() -> None:
    found, warnings = config.load(GOOD)
    assert found.auto_leader_rebalance_enable
    assert found.leader_imbalance_check_interval_seconds == 300
    assert warnings == ()
    changes = {
        "auto.leader.rebalance.enable": "false",
        "leader.imbalance.check.interval.seconds": "7",
        "leader.imbalance.per.broker.percentage": "10",
    }
    found, (warning,) = config.load(GOOD | changes)
    assert not found.auto_leader_rebalance_enable
    assert found.leader_imbalance_check_interval_seconds == 7
    assert warning.startswith("leader.imbalance.per.broker.percentage=10 has no effect")


def test_classes_that_only_a_java_controller_runs_are_named() -> None:
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    _, warnings = config.load(GOOD | {"principal.builder.class": default})
    assert warnings == ()
    keys = (
        "alter.config.policy.class.name",
        "client.quota.callback.class",
        "create.topic.policy.class.name",
        "principal.builder.class",
    )
    _, warnings = config.load(GOOD | dict.fromkeys(keys, "com.me.Mine"))
    assert [one.partition(" ")[0] for one in warnings] == [f"{key}=com.me.Mine" for key in keys]


def test_properties_and_overrides() -> None:
    text = "# comment\na=1\nb : two \\\n  lines\n"
    assert properties.parse(text, ["a=2", "c = 3"]) == {"a": "2", "b": "two lines", "c": "3"}
    with pytest.raises(ValueError, match="not key=value"):
        properties.parse("", ["nonsense"])


def test_our_own_keys_are_known() -> None:
    ours = {"dir": "trace", "run.id": "run-7", "max.bytes": "9"}
    keys = {f"kraftbridge.trace.{name}": value for name, value in ours.items()}
    found, warnings = config.load(GOOD | keys)
    assert warnings == ()
    assert (found.trace_dir, found.trace_run_id, found.trace_max_bytes) == ("trace", "run-7", 9)


def test_an_own_port_that_nobody_reaches_is_warned_of() -> None:
    for listeners, warned in (
        ("CONTROLLER://127.0.0.1:9093", False),
        ("CONTROLLER://127.0.0.1:0", False),
        ("CONTROLLER://127.0.0.1:9094", True),
    ):
        voters = {"controller.quorum.voters": "3000@127.0.0.1:9093", "node.id": "3000"}
        _, warnings = config.load(GOOD | voters | {"listeners": listeners})
        told = [one for one in warnings if "no other node reaches it there" in one]
        assert bool(told) == warned
        if told:
            assert "3000@127.0.0.1:9093, and this controller listens on port 9094" in told[0]


def test_a_chroot_after_each_server_is_refused() -> None:
    for connect in ("zk1:2181/kafka,zk2:2181/kafka", "zk1/kafka,zk2"):
        with pytest.raises(config.ConfigError) as error:
            config.load(GOOD | {"zookeeper.connect": connect})
        (problem,) = error.value.problems
        assert problem.endswith("the chroot is written once, after the last server")


def test_where_metrics_and_status_are() -> None:
    def port(text: str) -> int | None:
        return config.load(GOOD | {"kraftbridge.metrics.port": text})[0].metrics_port

    assert config.load(GOOD)[0].metrics_port is None
    assert [port(text) for text in ("9404", "0", "-1", "")] == [9404, 0, -1, -1]
    hosts = config.load(GOOD | {"kraftbridge.metrics.hosts": "kafka1.example.com, ::1,"})[0]
    assert hosts.metrics_hosts == ("kafka1.example.com", "::1")
