"""The properties of a broker in ZooKeeper mode."""

from __future__ import annotations

import pytest

from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.listeners import HostPort
from emulator.config.load import ConfigError
from emulator.config.zookeeper_mode import ZooKeeperMode

PLAIN = {
    "broker.id": "1",
    "zookeeper.connect": "zk1:2181,zk2/kafka",
    "listeners": "PLAINTEXT://b1:9092",
    "log.dirs": "a",
}
MIGRATING = PLAIN | {
    "zookeeper.metadata.migration.enable": "true",
    "controller.quorum.voters": "3000@controller:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


def load(raw: dict[str, str], **more: str) -> BrokerConfig:
    return load_broker(raw | {key.replace("_", "."): text for key, text in more.items()}, "here")[0]


def mode(raw: dict[str, str], **more: str) -> ZooKeeperMode:
    found = load(raw, **more).zookeeper
    assert found is not None
    return found


def problems(raw: dict[str, str], **more: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(raw, **more)
    return list(refused.value.problems)


def test_a_file_of_a_broker_without_process_roles_is_zookeeper_mode() -> None:
    found = load(PLAIN)
    assert found.node_id == 1
    plain = mode(PLAIN)
    assert plain.servers == (HostPort("zk1", 2181), HostPort("zk2", 2181))
    assert plain.chroot == "/kafka"
    assert (plain.session_timeout_ms, plain.connection_timeout_ms) == (18_000, 18_000)
    assert not plain.migration
    assert not plain.forwards


def test_the_connection_timeout_is_the_sessions_unless_given() -> None:
    assert mode(PLAIN, zookeeper_session_timeout_ms="6000").connection_timeout_ms == 6_000
    assert mode(PLAIN, zookeeper_connection_timeout_ms="5").connection_timeout_ms == 5


def test_a_file_with_process_roles_is_kraft_mode_even_with_zookeeper() -> None:
    raw = MIGRATING | {"process.roles": "broker"}
    assert load(raw).zookeeper is None


def test_neither_mode_is_named() -> None:
    raw = {key: text for key, text in PLAIN.items() if key != "zookeeper.connect"}
    (one, *_) = problems(raw)
    assert one.startswith("process.roles=broker (KRaft mode) or zookeeper.connect")


@pytest.mark.requirement("I23")
@pytest.mark.parametrize("release", ["3.4", "3.9"])
def test_a_migrating_broker_forwards(release: str) -> None:
    found = mode(MIGRATING, kraftbridge_release=release)
    assert found.migration
    assert found.forwards
    assert found.inter_broker_protocol.text == release


@pytest.mark.requirement("I23")
def test_below_3_4_nothing_is_forwarded_and_nothing_migrates() -> None:
    ibp = {"inter.broker.protocol.version": "3.3"}
    assert not mode(PLAIN | ibp).forwards
    (one,) = problems(MIGRATING | ibp)
    assert one.endswith("3.3: zookeeper.metadata.migration.enable=true needs 3.4 or higher")


@pytest.mark.parametrize("text", ["2.6", "2.6-IV0", "0.11.0", "1.0", "2.4.1"])
def test_a_protocol_below_2_7_is_refused_by_name(text: str) -> None:
    assert problems(PLAIN, inter_broker_protocol_version=text) == [
        f"inter.broker.protocol.version={text}: below 2.7, which is not emulated"
    ]


@pytest.mark.parametrize("text", ["", "nine", "3", "3.x", "3.4-IVx", "3.4\n", "-3.4"])
def test_what_is_no_protocol_is_refused(text: str) -> None:
    assert len(problems(PLAIN | {"inter.broker.protocol.version": text + "!"})) == 1


def test_a_protocol_newer_than_the_release_is_refused() -> None:
    (one,) = problems(PLAIN, inter_broker_protocol_version="3.9", kraftbridge_release="3.7")
    assert one.endswith("=3.9: a broker of release 3.7 does not know it (kraftbridge.release)")


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("controller.quorum.voters", "controller.quorum.voters or"),
        ("controller.listener.names",) * 2,
    ],
)
def test_a_migration_needs_the_quorum(missing: str, named: str) -> None:
    raw = {key: text for key, text in MIGRATING.items() if key != missing}
    (one,) = problems(raw)
    assert one.startswith(named)


def test_without_migration_there_are_no_listeners_of_controllers() -> None:
    (one,) = problems(PLAIN | {"controller.listener.names": "CONTROLLER"})
    assert one.startswith("controller.listener.names must be empty")


@pytest.mark.parametrize(
    ("release", "ibp", "allowed"),
    [
        ("3.4", "3.4", True),
        ("3.5", "3.5", False),
        ("3.6", "3.6", False),
        ("3.7", "3.7-IV1", False),
        ("3.7", "3.7-IV2", True),
        ("3.9", "3.9", True),
        ("3.9", "3.6", False),
    ],
)
def test_several_log_dirs_of_a_migrating_broker(release: str, ibp: str, allowed: bool) -> None:
    raw = MIGRATING | {
        "log.dirs": "a,b",
        "kraftbridge.release": release,
        "inter.broker.protocol.version": ibp,
    }
    if allowed:
        assert load(raw).log_dirs == ("a", "b")
    else:
        assert "log.dirs" in problems(raw)[0]


def test_ids_are_not_generated() -> None:
    raw = {key: text for key, text in PLAIN.items() if key != "broker.id"}
    assert problems(raw) == ["node.id is required; ids are not generated"]
    assert len(problems(PLAIN, broker_id="-1")) == 1


def test_an_authorizer_is_refused_and_not_left_out() -> None:
    name = "kafka.security.authorizer.AclAuthorizer"
    (one,) = problems(PLAIN, authorizer_class_name=name)
    assert one == f"authorizer.class.name={name}: not supported in ZooKeeper mode"


def test_acls_in_zookeeper_need_an_identity() -> None:
    (one,) = problems(PLAIN | {"zookeeper.set.acl": "true"})
    assert one.startswith("zookeeper.set.acl is true")


def test_a_listener_for_controllers_alone_is_allowed() -> None:
    raw = PLAIN | {
        "listeners": "PLAINTEXT://b1:9092,CP://b1:9094",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
        "control.plane.listener.name": "CP",
    }
    assert [one.name for one in load(raw).advertised] == ["PLAINTEXT", "CP"]
