"""Which brokers are started, as what, and with which properties in each mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bench.rehearsal.plan import Around, BrokerMode, NodeFile, PlanError, plan, properties
from emulator.config.broker import load_broker
from wire.releases import RELEASES

AROUND = Around("127.0.0.1:2181", "3000@127.0.0.1:1,3001@127.0.0.1:2", "CONTROLLER", 1)
FILE = {
    "broker.id": "2",
    "listeners": "REPLICATION://:9091,client://0.0.0.0:9092",
    "advertised.listeners": "REPLICATION://b2:9091,CLIENT://b2:9092",
    "listener.security.protocol.map": "REPLICATION:SASL_SSL,CLIENT:SSL",
    "inter.broker.listener.name": "REPLICATION",
    "inter.broker.protocol.version": "3.6-IV2",
    "broker.rack": "r2",
    "log.dirs": "/data/1,/data/2",
    "zookeeper.connect": "zk1:2181/kafka",
    "zookeeper.session.timeout.ms": "20000",
    "num.partitions": "12",
    "ssl.keystore.password": "Secret1",
    "listener.name.replication.plain.sasl.jaas.config": "Secret2",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
}


def registered(*ids: int, **more: Any) -> dict[str, bytes | None]:
    body = {"endpoints": ["INTERNAL://h:1", "CLIENT://h:2"], "rack": "r1", "version": 5, **more}
    return {"/brokers/ids": None} | {
        f"/brokers/ids/{one}": json.dumps(body).encode() for one in ids
    }


def of_file(values: Mapping[str, str] = FILE) -> NodeFile:
    return NodeFile("broker-2.properties", 2, values)


def test_a_registration_gives_listeners_and_rack_and_what_it_lacks_is_said() -> None:
    found = plan(registered(1, 7), [], RELEASES)
    one, other = found.brokers
    assert (one.id, other.id) == (1, 7)
    assert (one.listeners, one.between, one.rack) == (("INTERNAL", "CLIENT"), "INTERNAL", "r1")
    assert (one.release, one.source) == ("3.9", "assumed")
    assert [line.partition(" of ")[0] for line in found.assumed] == [
        "release 3.9",
        "listener between brokers 1, 7: INTERNAL, the first",
        "every other property",
    ]
    assert found.controller_listener == "CONTROLLER"


def test_a_file_is_believed_and_a_broker_that_is_down_is_started_too() -> None:
    found = plan(registered(1), [of_file()], RELEASES, "3.8")
    one, other = found.brokers
    assert (one.release, one.source) == ("3.8", "--release")
    assert (other.id, other.listeners, other.between) == (
        2,
        ("REPLICATION", "CLIENT"),
        "REPLICATION",
    )
    assert (other.release, other.rack) == ("3.6", "r2")
    assert "broker-2.properties" in other.source
    assert found.release == "3.6"


def test_of_two_files_of_one_broker_the_first_counts_and_both_are_named() -> None:
    other = NodeFile("old.properties", 2, {"broker.id": "2"})
    found = plan(registered(1), [of_file(), other], RELEASES)
    assert [one.id for one in found.brokers] == [1, 2]
    named = "broker 2 has broker-2.properties: old.properties is of the same broker"
    assert named in found.assumed


@pytest.mark.parametrize("mode", BrokerMode)
def test_an_emulated_broker_takes_the_properties_of_every_mode(mode: BrokerMode) -> None:
    broker = plan({}, [of_file()], RELEASES).brokers[0]
    found = properties(broker, (11, 12), mode, AROUND)
    assert "Secret" not in json.dumps(found)
    config, _ = load_broker(found, "host")
    assert config.node_id == 2
    assert [(one.name, one.host, one.port) for one in config.listeners] == [
        ("REPLICATION", "127.0.0.1", 11),
        ("CLIENT", "127.0.0.1", 12),
    ]
    assert (config.rack, config.num_partitions, config.release) == ("r2", 12, "3.6")
    assert (config.zookeeper is None) is (mode is BrokerMode.KRAFT)
    assert bool(config.voters) is (mode is not BrokerMode.ZOOKEEPER)


def test_the_controllers_listener_has_a_name_that_no_broker_has() -> None:
    more = registered(1, endpoints=["CONTROLLER://h:1", "CONTROLLER2://h:2"])
    assert plan(more, [], RELEASES).controller_listener == "CONTROLLER3"


@pytest.mark.parametrize(
    ("ids", "first"), [((1, 2), 3000), ((3002, 3003), 4000), ((3000, 4001), 5000)]
)
def test_the_controllers_have_ids_that_no_broker_has(ids: tuple[int, ...], first: int) -> None:
    found = plan(registered(*ids), [], RELEASES)
    assert found.controllers == (first, first + 1, first + 2)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({"/brokers/ids": None}, "no broker is registered in it"),
        ({"/brokers/ids/1": b"{"}, "/brokers/ids/1 is not the registration"),
        ({"/brokers/ids/1": b"[]"}, "/brokers/ids/1 is not the registration"),
        ({"/brokers/ids/1": b'{"endpoints":["A\\nB://h:1"]}'}, "is no name of a listener"),
        ({"/brokers/ids/1": b'{"endpoints":["://h:1"]}'}, "is no name of a listener"),
        ({"/brokers/ids/1": b'{"endpoints":5}'}, "/brokers/ids/1 is not the registration"),
        ({"/brokers/ids/1": b'{"endpoints":[5]}'}, "/brokers/ids/1 is not the registration"),
        ({"/brokers/ids/1": b'{"rack":{}}'}, "/brokers/ids/1 is not the registration"),
        ({"/brokers/ids/\u00b2": b"{}"}, "no broker is registered in it"),
    ],
)
def test_no_brokers_are_a_sentence(nodes: dict[str, bytes | None], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan(nodes, [], RELEASES)
