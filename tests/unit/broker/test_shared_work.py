"""What brokers of one process do for each new topic: once where all are told the same."""

from __future__ import annotations

from collections import deque
from typing import Any

from emulator.broker.zookeeper.mirror import TOPICS_PER_READ, ZooKeeperMirror
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.broker.zookeeper.watched_znode import Then
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    Stat,
    ZkFailed,
    ZkLost,
    ZkResult,
)
from tests.kit.requests import create_topics
from tests.unit.broker.joined_brokers import CONTROLLER
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from wire import messages as m

LEADER_AND_ISR, UPDATE_METADATA = 4, 6
STAT = Stat(*(0,) * 11)
IDS = (1, 2, 3)


def creation(*names: str) -> m.CreateTopicsRequest:
    return create_topics(*names, assigned=[IDS], timeout_ms=60_000)


def test_three_brokers_under_one_controller_decode_each_control_request_once() -> None:
    shared = SharedControl()
    stage = ZooKeeperStage(shared=shared).had_a_cluster()
    brokers = stage.running(*IDS, raw=MIGRATING)
    stage.controller()
    sides: list[Any] = [broker.side for broker in brokers]
    stage.joined.until(lambda: all(s.registration.life.state.name == "RUNNING" for s in sides))
    client = stage.joined.ask(CONTROLLER)
    client.ask(creation("first"), 7)
    stage.joined.wait(1_000)

    def requests(key: int) -> int:
        return sum(broker.connections.requests_total.get(key, 0) for broker in brokers)

    before = {key: requests(key) for key in (LEADER_AND_ISR, UPDATE_METADATA)}
    decoded, made = dict(shared.decoded_total), shared.made_total
    for number in range(5):
        client.ask(creation(f"a-{number}", f"b-{number}"), 7)
        stage.joined.wait(1_000)
    for key, count in before.items():
        assert requests(key) - count == 15
        assert shared.decoded_total[key] - decoded[key] == 5
    assert shared.made_total - made == 10
    for name in ("a-0", "b-4"):
        held = [broker.side.cluster.topic(name) for broker in brokers]
        assert held[0] is held[1] is held[2] is not None
        assert all(side.replicas.get((name, 0)) is not None for side in sides)


class Asked:
    """A mirror that has read everything, and what it asks for then."""

    def __init__(self) -> None:
        self.requests: deque[tuple[Then, Any]] = deque()
        self.mirror = ZooKeeperMirror(lambda then, request: self.requests.append((then, request)))
        self.mirror.look()
        while self.requests:
            then, request = self.requests.popleft()
            value = [()] * len(request.reads) if isinstance(request, MultiRead) else ()
            then(ZkResult(then, value), 0)
        assert self.mirror.loaded


def names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def test_the_configs_of_many_new_topics_are_read_in_one_request() -> None:
    asked = Asked()
    asked.mirror.topics_changed([], names(TOPICS_PER_READ + 2))
    assert [len(request.reads) for _, request in asked.requests] == [TOPICS_PER_READ, 2]
    paths = [read.path for _, request in asked.requests for read in request.reads]
    assert paths == [f"/config/topics/{name}" for name in names(TOPICS_PER_READ + 2)]
    for then, request in asked.requests:
        then(ZkResult(then, [NodeData(read.path.encode(), STAT) for read in request.reads]), 0)
    assert asked.mirror.topic_configs == {
        name: f"/config/topics/{name}".encode() for name in names(TOPICS_PER_READ + 2)
    }
    asked.requests.clear()
    asked.mirror.topics_changed([], ["t0", "one-more"])
    assert [request for _, request in asked.requests] == [GetData("/config/topics/one-more")]


def test_a_new_topic_without_configs_does_not_hide_those_of_the_others() -> None:
    asked = Asked()
    asked.mirror.topics_changed([], names(3))
    then, _ = asked.requests.popleft()
    found = [NodeData(b"0", STAT), ReadFailed(ZkCode.NO_NODE), NodeData(b"2", STAT)]
    then(ZkResult(then, found), 0)
    assert asked.mirror.topic_configs == {"t0": b"0", "t2": b"2"}


def test_configs_that_could_not_be_read_are_none() -> None:
    for outcome in (ZkFailed(None, ZkCode.NO_AUTH, 0), ZkLost(None)):
        asked = Asked()
        asked.mirror.topics_changed([], names(2))
        then, _ = asked.requests.popleft()
        then(outcome, 0)
        assert asked.mirror.topic_configs == {}
        asked.mirror.topics_changed(["t0"], ["t0"])
        assert [request for _, request in asked.requests] == [GetData("/config/topics/t0")]
