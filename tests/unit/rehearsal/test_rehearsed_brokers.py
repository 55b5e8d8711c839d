"""Emulated brokers as production's dump says, on a model of ZooKeeper."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from bench.rehearsal.brokers import BrokerRefusedError
from bench.rehearsal.made import CLUSTER_ID, document
from bench.rehearsal.plan import Around, BrokerMode, NodeFile, Plan, plan
from bench.rehearsal.stand_in import StandIn
from bench.rehearsal.znodes import loadable, write
from bench.verbs.rehearsed_brokers import RehearsedBrokers
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.unit.commands.socketed_zookeeper import on_a_socket
from wire.releases import RELEASES

TREE = document(topics=2, partitions=3, brokers=3)
OLD = NodeFile("old.properties", 3, {"broker.id": "3", "inter.broker.protocol.version": "3.3"})


def planned(*files: NodeFile) -> Plan:
    return plan(contents(TREE), files, RELEASES)


@pytest.fixture
def model() -> Iterator[str]:
    with on_a_socket(ZooKeeperMachine()) as hosts:
        with connected(hosts) as client:
            write(client, "", loadable(TREE).nodes)
        yield hosts


@pytest.fixture
def rehearsed() -> Iterator[RehearsedBrokers]:
    found = RehearsedBrokers(planned().brokers, CLUSTER_ID)
    yield found
    found.close()


def test_they_register_with_their_ids_racks_and_listeners_and_leave_again(
    model: str, rehearsed: RehearsedBrokers
) -> None:
    around = Around(model, "", "CONTROLLER", 0)
    assert rehearsed.ids == [1, 2, 3]
    for number in rehearsed.ids:
        rehearsed.begin(number, BrokerMode.ZOOKEEPER, around)
    wait_for("brokers", lambda: not any(rehearsed.absent(one) for one in rehearsed.ids))
    with connected(model) as client:
        for number in rehearsed.ids:
            shown = json.loads(client.get(f"/brokers/ids/{number}")[0])
            assert shown["rack"] == f"r{number % 3}"
            ends = [one.partition("://") for one in shown["endpoints"]]
            assert [name for name, _, _ in ends] == ["INTERNAL", "CLIENT"]
            for _, _, address in ends:
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), 5).close()
        assert rehearsed.bootstrap.split(",")[0] == ends_of(client, 1)[0]
        rehearsed.end(2, 60)
        assert client.exists("/brokers/ids/2") is None
        before = ends_of(client, 1)
        rehearsed.end(1, 60)
        rehearsed.begin(1, BrokerMode.ZOOKEEPER, around)
        wait_for("broker 1", lambda: not rehearsed.absent(1))
        assert ends_of(client, 1) == before, "a restarted broker has its ports"
    assert rehearsed.short() == 0, "nobody leads anything without a controller"


def ends_of(client: object, number: int) -> list[str]:
    shown = json.loads(client.get(f"/brokers/ids/{number}")[0])  # type: ignore[attr-defined]
    return [one.partition("://")[2] for one in shown["endpoints"]]


def test_a_broker_whose_file_cannot_migrate_is_refused_with_the_reason(model: str) -> None:
    found = RehearsedBrokers(planned(OLD).brokers, CLUSTER_ID)
    voters = "3000@127.0.0.1:1"
    try:
        with pytest.raises(BrokerRefusedError, match=r"broker 3 in .*: .*needs 3\.4 or higher"):
            found.begin(3, BrokerMode.MIGRATION, Around(model, voters, "CONTROLLER", 1))
    finally:
        found.close()


def test_a_stand_in_is_elected_whenever_nobody_holds_the_controllers_znode(model: str) -> None:
    with connected(model) as client, connected(model) as other:
        stand_in = StandIn(client, 1)
        stand_in.start()
        for epoch in (2, 3):
            wait_for("an election", lambda: other.exists("/controller") is not None)
            held = json.loads(other.get("/controller")[0])
            assert (held["brokerid"], held["kraftControllerEpoch"]) == (1, -1)
            assert other.get("/controller_epoch")[0] == str(epoch).encode()
            other.delete("/controller")
        stand_in.close()
