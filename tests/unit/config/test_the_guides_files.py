"""The sample files of the migration guide of Apache Kafka 3.9, as an operator copies them."""

from __future__ import annotations

import pytest

from emulator.config import properties
from emulator.config.broker import load_broker
from emulator.config.listeners import HostPort
from emulator.config.load import ConfigError, load
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import Survey

CONTROLLER = """
process.roles=controller
node.id=3000
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://:9093
zookeeper.metadata.migration.enable=true
zookeeper.connect=localhost:2181
inter.broker.listener.name=PLAINTEXT
log.dirs=/data/kraft
"""
BROKER = """
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://localhost:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/data/broker
"""
MIGRATING = """
broker.id=0
inter.broker.protocol.version=3.9
zookeeper.metadata.migration.enable=true
zookeeper.connect=localhost:2181
"""
IN_KRAFT = """
process.roles=broker
node.id=0
"""


def test_a_controller_says_in_one_sentence_which_two_lines_to_change() -> None:
    with pytest.raises(ConfigError) as refused:
        load(properties.parse(CONTROLLER))
    (said,) = refused.value.problems
    assert said == (
        "dynamic quorums are not supported yet: write controller.quorum.voters=3000@localhost:9093 "
        "instead of controller.quorum.bootstrap.servers=localhost:9093, and add "
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    )


def test_with_these_two_lines_it_is_accepted() -> None:
    changed = CONTROLLER.replace(
        "controller.quorum.bootstrap.servers=localhost:9093",
        "controller.quorum.voters=3000@localhost:9093\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    config, warnings = load(properties.parse(changed))
    assert config.voters == {3000: HostPort("localhost", 9093)}
    assert not warnings
    file = Properties("c", properties.parse(changed))
    found = run(Survey({}, (file,))).findings
    assert not [one for one in found if one.znode.startswith("c: ")], "Kafka's takes it as well"


@pytest.mark.parametrize("between", ["", "inter.broker.listener.name=BROKERS"])
def test_a_listener_of_brokers_whose_protocol_is_not_known_is_left_out(between: str) -> None:
    text = CONTROLLER.replace("inter.broker.listener.name=PLAINTEXT", between)
    with pytest.raises(ConfigError) as refused:
        load(properties.parse(text))
    assert any(x.endswith("map=CONTROLLER:PLAINTEXT") for x in refused.value.problems)


def test_of_several_servers_the_ids_are_left_to_the_operator() -> None:
    three = CONTROLLER.replace("servers=localhost:9093", "servers=a:1,b:2")
    with pytest.raises(
        ConfigError, match=r"voters=ID@a:1,ID@b:2 \(ID: the node.id of each\) instead"
    ):
        load(properties.parse(three))


@pytest.mark.parametrize("mode", [MIGRATING, IN_KRAFT])
def test_a_broker_takes_them_as_they_are(mode: str) -> None:
    config, warnings = load_broker(properties.parse(BROKER + mode), "localhost")
    assert config.bootstrap == (HostPort("localhost", 9093),)
    assert (config.node_id, config.controller_listener_names) == (0, ("CONTROLLER",))
    assert not warnings


def test_a_kraft_broker_needs_no_map_for_the_controllers_listener() -> None:
    text = "\n".join(line for line in BROKER.splitlines() if "protocol.map" not in line)
    config, _ = load_broker(properties.parse(text + IN_KRAFT), "localhost")
    assert [one.security_protocol for one in config.listeners] == ["PLAINTEXT"]
