"""The node's client of ZooKeeper keeps to the timeouts and the limit that are configured."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from emulator.config import load as config
from emulator.node.assembly import zk_client
from emulator.node.machine import Node
from emulator.seam import Close, Connect, Connected, Effect, Received, Send
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import Create
from tests.unit.node.test_machine import RAW, World

TIMEOUT_AT = 4 + 4 + 8
"""Behind the frame's length, the protocol's version and the last zxid."""


def client(**changes: str) -> ZkClient:
    named = {key.replace("_", "."): value for key, value in changes.items()}
    found, _ = config.load(RAW | named)
    return zk_client(found, count(1).__next__, Random(1))


def dialled(effects: list[Effect]) -> int:
    (conn,) = [effect.conn for effect in effects if isinstance(effect, Connect)]
    return conn


@pytest.mark.requirement("C09")
@pytest.mark.parametrize(("given", "asked"), [({}, 18_000), ({"timeout": "7000"}, 7_000)])
def test_the_session_timeout_is_asked_for(given: dict[str, str], asked: int) -> None:
    made = client(**{f"zookeeper_session_{key}_ms": value for key, value in given.items()})
    conn = dialled(made.start(0))
    (hello,) = [each for each in made.handle(Connected(conn), 0) if isinstance(each, Send)]
    assert int.from_bytes(hello.data[TIMEOUT_AT : TIMEOUT_AT + 4], "big") == asked


@pytest.mark.requirement("C09")
@pytest.mark.parametrize(
    ("given", "after_ms"),
    [
        ({"zookeeper_connection_timeout_ms": "1500"}, 1_500),
        # By default it is the session's.
        ({"zookeeper_session_timeout_ms": "2000"}, 2_000),
    ],
)
def test_a_connection_may_take_as_long_as_is_configured(
    given: dict[str, str], after_ms: int
) -> None:
    made = client(**given)
    conn = dialled(made.start(0))
    assert made.deadline_ms == after_ms
    assert made.tick(after_ms - 1) == []
    assert Close(conn) in made.tick(after_ms)


@pytest.mark.requirement("C09")
@pytest.mark.parametrize(
    ("given", "most"), [({}, 10), ({"zookeeper_max_in_flight_requests": "4"}, 4)]
)
def test_no_more_requests_than_the_limit_are_outstanding(given: dict[str, str], most: int) -> None:
    made, model = client(**given), ZooKeeperModel(Random(1))
    conn = dialled(made.start(0))
    model.accepted(conn)
    outstanding = greatest = 0
    sent = [each for each in made.handle(Connected(conn), 0) if isinstance(each, Send)]
    while not made.connected:
        sent += answered(made, model, sent.pop(0))
    for number in range(30):
        sent += sends(made.submit(number, Create(f"/{number}", b""), 0))
    for _ in range(30):
        outstanding = len(sent)
        greatest = max(greatest, outstanding)
        sent += answered(made, model, sent.pop(0))
    assert greatest == most
    assert [result.tag for result in made.take_results()] == list(range(30))


def sends(effects: list[Effect]) -> list[Send]:
    return [each for each in effects if isinstance(each, Send)]


def answered(made: ZkClient, model: ZooKeeperModel, one: Send) -> list[Send]:
    """ZooKeeper takes one packet and answers it; what the client sends then."""
    model.received(one.conn, one.data, 0)
    found = []
    for effect in model.run(0):
        if isinstance(effect, Send):
            found += sends(made.handle(Received(effect.conn, effect.data), 0))
    return found


@pytest.mark.requirement("C01")
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_zookeeper_is_connected_to_only_for_a_migration(
    enabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``zookeeper.connect`` alone opens no connection."""
    dialled: list[Connect] = []
    for name in ("start", "step"):
        real = getattr(Node, name)

        def watched(self: Node, *args: object, real: Any = real) -> list[Effect]:
            effects: list[Effect] = real(self, *args)
            dialled.extend(each for each in effects if isinstance(each, Connect))
            return effects

        monkeypatch.setattr(Node, name, watched)
    world = World(zookeeper_metadata_migration_enable=enabled)
    world.advance(60_000)
    assert bool(dialled) is (enabled == "true")
    assert {each.host for each in dialled} <= {"zk"}
