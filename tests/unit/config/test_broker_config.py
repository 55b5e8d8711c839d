"""A broker's ``server.properties``: what is taken, and what is refused by name."""

from __future__ import annotations

import pytest

from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.load import ConfigError

RAW = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "3000@c1:9093,3001@c2:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092",
    "log.dirs": "a,b",
}

TO_SSL = {"listener_security_protocol_map": "CONTROLLER:SSL"}


def read(**more: str) -> BrokerConfig:
    return load_broker(RAW | {key.replace("_", "."): value for key, value in more.items()}, "me")[0]


def problems(**more: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read(**more)
    return "\n".join(refused.value.problems)


def test_a_kafka_file_is_read() -> None:
    found = read(broker_rack="r1", listener_security_protocol_map="PLAINTEXT:PLAINTEXT")
    assert found.node_id == 1
    assert [(x.name, x.host, x.port) for x in found.advertised] == [("PLAINTEXT", "me", 9092)]
    assert found.log_dirs == ("a", "b")
    assert found.metadata_log_dir == "a"
    assert [str(node) for node in found.bootstrap] == ["c1:9093", "c2:9093"]
    assert found.rack == "r1"
    assert found.session_timeout_ms == 9_000


def test_bootstrap_servers_take_the_place_of_voters() -> None:
    raw = {key: value for key, value in RAW.items() if key != "controller.quorum.voters"}
    found, _ = load_broker(raw | {"controller.quorum.bootstrap.servers": "c1:9093"}, "me")
    assert [str(node) for node in found.bootstrap] == ["c1:9093"]
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters or"):
        load_broker(raw, "me")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"process_roles": "controller"}, "process.roles=controller"),
        ({"node_id": "1_0"}, "node.id=1_0: not a whole number"),
        ({"log_dirs": "a,b,a/"}, "log.dirs: a is listed twice"),
        ({"process_roles": "broker,controller"}, "combined"),
        ({"broker_id": "2"}, "broker.id=2 differs"),
        ({"node_id": "3000"}, "must not be in controller.quorum.voters"),
        ({"listeners": "CONTROLLER://:1,PLAINTEXT://:2"}, "CONTROLLER is in controller.listener"),
        ({"listeners": "X://:1"}, "X is no security protocol"),
        (
            {"listeners": "SSL://:1", "inter_broker_listener_name": "SSL"},
            "required for listener SSL",
        ),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no address that clients reach"),
        ({"advertised_listeners": "OTHER://h:1"}, "OTHER is not in listeners"),
        ({"inter_broker_listener_name": "INTERNAL"}, "INTERNAL is not in advertised.listeners"),
        ({"ssl_keystore_key": "x", **TO_SSL}, "ssl.keystore.key: not supported"),
        ({"ssl_truststore_location": "a.jks", **TO_SSL}, "ssl.truststore.type: JKS"),
        ({"authorizer_class_name": "x.Y"}, "authorizer.class.name=x.Y"),
        ({"principal_builder_class": "x.Y"}, "principal.builder.class=x.Y"),
        ({"control_plane_listener_name": "C"}, "control.plane.listener.name=C"),
        ({"kraftbridge_relaese": "3.9"}, "kraftbridge.relaese: unknown"),
        ({"kraftbridge_release": "4.0"}, "kraftbridge.release=4.0"),
        ({"log_dirs": ""}, "log.dirs is required"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(more: dict[str, str], why: str) -> None:
    assert why in problems(**more)


def test_an_unknown_key_is_a_warning() -> None:
    _, warnings = load_broker(RAW | {"foo.bar": "1", "ssl.keystore.location": "x"}, "me")
    assert warnings == ("unknown configuration key foo.bar",)
