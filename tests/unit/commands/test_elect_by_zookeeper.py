"""What a ZooKeeper may hold, or leave unanswered, when it is asked for an election."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emulator.commands.elect_leaders import by_zookeeper
from emulator.commands.exits import ExitCode
from emulator.servers.seeded import connected
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.unit.commands.socketed_zookeeper import on_a_socket
from tests.unit.commands.test_wrong_inputs import call

CONTROLLER = b'{"version": 1, "brokerid": 1, "timestamp": "1"}'
TOPIC = b'{"version": 1, "partitions": {"0": [1]}}'
STATE = b'{"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2]}'
DEEP = b'{"x": ' + b"[" * 100_000
Znodes = tuple[bytes, bytes, bytes]
GOOD: Znodes = (CONTROLLER, TOPIC, STATE)


@contextmanager
def cluster(holder: bytes, topic: bytes, state: bytes) -> Iterator[str]:
    """A ZooKeeper with one topic of one partition; nobody acts on an election."""
    with on_a_socket(ZooKeeperMachine()) as hosts:
        with connected(hosts) as client:
            client.create("/admin")
            client.create("/controller", holder)
            client.create("/brokers/topics/t/partitions/0/state", state, makepath=True)
            client.set("/brokers/topics/t", topic)
        yield hosts


def elect(hosts: str) -> tuple[int, str, str]:
    return call("elect-leaders", "--zookeeper", hosts, "--timeout", "0.1")


@pytest.mark.parametrize(
    ("znodes", "said"),
    [
        ((b"[]", TOPIC, STATE), "/controller: Expected `object`"),
        ((b"3", TOPIC, STATE), "/controller: Expected `object`"),
        ((b"", TOPIC, STATE), "/controller: no data"),
        ((b"[" * 100_000, TOPIC, STATE), "/controller: Expected `object`"),
        ((DEEP, TOPIC, STATE), "/controller: nested too deeply"),
        ((CONTROLLER, b"{}", STATE), "/brokers/topics/t: "),
        ((CONTROLLER, b'{"partitions": []}', STATE), "/brokers/topics/t: "),
        ((CONTROLLER, b'{"partitions": {"x": [1]}}', STATE), "/brokers/topics/t: "),
        ((CONTROLLER, b'{"partitions": {"0": []}}', STATE), "partition 0 has no replicas"),
        ((CONTROLLER, TOPIC, b"{}"), "/brokers/topics/t/partitions/0/state: "),
        ((CONTROLLER, TOPIC, b"{"), "/brokers/topics/t/partitions/0/state: "),
    ],
)
def test_a_znode_of_another_form_is_a_sentence(znodes: Znodes, said: str) -> None:
    with cluster(*znodes) as hosts:
        code, out, err = elect(hosts)
    assert (code, out) == (ExitCode.FOUND, ""), err
    assert "Traceback" not in err
    assert f"{hosts}: " in err
    assert said in err


@pytest.mark.parametrize("kind", [KeyError, IndexError, TypeError, AttributeError, ValueError])
@pytest.mark.parametrize("place", ["_need_zookeeper_mode", "_leader", "_ask", "_wait"])
def test_a_fault_of_ours_is_not_put_down_to_a_znode(
    monkeypatch: pytest.MonkeyPatch, place: str, kind: type[Exception]
) -> None:
    """Only what a znode holds is judged: a bug, or a wrong argument, stays what it is."""

    def fail(*_: object) -> None:
        raise kind("planted")

    monkeypatch.setattr(by_zookeeper, place, fail)
    with cluster(*GOOD) as hosts, pytest.raises(kind, match="planted"):
        by_zookeeper.elect_by_zookeeper(hosts, None, 0.1)


def test_a_fault_of_ours_is_no_wrong_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ValueError`` of the work is not told as one of ``--zookeeper``."""

    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(by_zookeeper, "_ask", fail)
    with cluster(*GOOD) as hosts, pytest.raises(ValueError, match="planted"):
        elect(hosts)


@pytest.mark.parametrize("address", ["", "h:x", "h:70000"])
def test_what_is_no_connect_string_is_a_wrong_argument(address: str) -> None:
    code, out, err = elect(address)
    assert (code, out) == (ExitCode.WRONG, ""), err
    assert "--zookeeper" in err


def test_who_is_no_zookeeper_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and says nothing: nothing is known of any election."""
    monkeypatch.setattr(by_zookeeper, "CONNECT_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        code, out, err = call("elect-leaders", "--zookeeper", where)
    assert (code, out) == (ExitCode.UNREACHABLE, ""), err
    assert f"{where}: " in err
