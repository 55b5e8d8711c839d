"""What a ZooKeeper may hold, or leave unanswered, when it is asked for an election."""

from __future__ import annotations

import socket

import pytest
from kazoo.client import KazooClient

from emulator.commands.elect_leaders import by_zookeeper
from emulator.commands.exits import ExitCode
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.unit.commands.socketed_zookeeper import on_a_socket
from tests.unit.commands.test_wrong_inputs import call

CONTROLLER = b'{"version": 1, "brokerid": 1, "timestamp": "1"}'
TOPIC = b'{"version": 1, "partitions": {"0": [1]}}'
STATE = b'{"leader": 2}'
Damage = tuple[bytes, bytes, bytes]


@pytest.mark.parametrize(
    ("znodes", "said"),
    [
        ((b"[]", TOPIC, STATE), "has not the form"),
        ((b"3", TOPIC, STATE), "has not the form"),
        ((b"", TOPIC, STATE), "/controller is not JSON"),
        ((b"[" * 100_000, TOPIC, STATE), "/controller is not JSON"),
        ((CONTROLLER, b"{}", STATE), "has not the form"),
        ((CONTROLLER, b'{"partitions": []}', STATE), "has not the form"),
        ((CONTROLLER, b'{"partitions": {"x": [1]}}', STATE), "has not the form"),
        ((CONTROLLER, b'{"partitions": {"0": []}}', STATE), "has not the form"),
        ((CONTROLLER, TOPIC, b"{}"), "has not the form"),
        ((CONTROLLER, TOPIC, b"{"), "partitions/0/state is not JSON"),
    ],
)
def test_a_znode_of_another_form_is_a_sentence(znodes: Damage, said: str) -> None:
    holder, topic, state = znodes
    with on_a_socket(ZooKeeperMachine()) as hosts:
        client = KazooClient(hosts)
        client.start()
        client.create("/admin")
        client.create("/controller", holder)
        client.create("/brokers/topics/t/partitions/0/state", state, makepath=True)
        client.set("/brokers/topics/t", topic)
        client.stop()
        client.close()
        code, out, err = call("elect-leaders", "--zookeeper", hosts, "--timeout", "0.1")
    assert (code, out) == (ExitCode.FOUND, ""), err
    assert "Traceback" not in err
    assert said in err


def test_who_is_no_zookeeper_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and says nothing: nothing is known of any election."""
    monkeypatch.setattr(by_zookeeper, "CONNECT_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        code, out, err = call("elect-leaders", "--zookeeper", where)
    assert (code, out) == (ExitCode.UNREACHABLE, ""), err
    assert f"{where}: " in err
