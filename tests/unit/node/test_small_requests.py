"""What small requests have in common is done once for all of them: counted, not timed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from emulator.controller.queue.writes import Turns
from emulator.controller.rules import topics
from tests.unit.controller.world import create
from tests.unit.node.test_no_request_ends_the_node import Peers
from wire import messages as m


@pytest.fixture
def peers() -> Peers:
    return Peers()


def test_what_new_partitions_of_equal_replicas_get_is_found_once(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all creations, until a broker or a level changes."""
    found: list[tuple[int, ...]] = []
    real = topics.replica_list_error

    def error(brokers: Any, replicas: Any) -> Any:
        found.append(tuple(replicas))
        return real(brokers, replicas)

    monkeypatch.setattr(topics, "replica_list_error", error)

    def leaders(name: str, *lists: tuple[int, ...]) -> list[int]:
        kind = m.CreateTopicsRequest.CreatableReplicaAssignment
        assigned = [
            kind(partition_index=index, broker_ids=replicas) for index, replicas in enumerate(lists)
        ]
        answer = peers.ask(create(name, -1, -1, assignments=assigned), 19, 7).topics[0]
        assert answer.error_code == 0
        made = peers.image.topic(name)
        assert made is not None
        return [one.leader for one in made.partitions.values()]

    assert leaders("one", (0, 1), (0, 1), (1, 0), (0, 1)) == [0, 0, 1, 0]
    assert leaders("two", (1, 0)) == [1]
    assert found == [(0, 1), (1, 0)]
    beat = m.BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=peers.image.brokers[1].epoch, want_fence=True
    )
    assert peers.ask(beat, 63, 1).is_fenced
    assert leaders("three", (1, 0)) == [0], "broker 1 cannot lead now"
    assert found == [(0, 1), (1, 0), (1, 0)]


def test_small_calls_and_what_appends_nothing_are_done_without_slices(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    real = Turns.begin

    def begin(self: Turns, call: Any, slices: Any, **more: Any) -> None:
        begun.append(call.message)
        real(self, call, slices, **more)

    monkeypatch.setattr(Turns, "begin", begin)
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=peers.image.brokers[0].epoch)
    assert peers.ask(beat, 63, 1).error_code == 0
    assert peers.ask(create("small", 1, 1), 19, 7).topics[0].error_code == 0
    shrink(peers, "small")
    assert not begun
    assert peers.ask(create("sliced", 1_000, 1), 19, 7).topics[0].error_code == 0
    assert len(begun) == 1


def test_a_change_takes_as_many_calls_in_a_large_cluster() -> None:
    """All functions of the whole node are counted, of Python and of C."""
    found = []
    for topics_present in (5, 600):
        peers = Peers(topics=False)
        wanted = [create(f"n{number}", 1, 2).topics[0] for number in range(topics_present)]
        answers = peers.ask(m.CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 19, 7).topics
        assert {one.error_code for one in answers} == {0}
        counts = []
        for number in (0, 1, 2):
            with calls() as counted:
                shrink(peers, f"n{number}")
            counts.append(counted[0])
        # The first one may be the first of its kind: encoders are made then.
        found.append(counts[-1])
    assert found[0] == found[1]


def shrink(peers: Peers, name: str) -> None:
    """The leader is alone in the ISR of the first partition."""
    topic = peers.image.topic(name)
    leader, kinds = topic.partitions[0].leader, m.AlterPartitionRequest
    member = kinds.BrokerState(broker_id=leader, broker_epoch=peers.image.brokers[leader].epoch)
    wanted = kinds.PartitionData(new_isr_with_epochs=[member])
    request = kinds(
        broker_id=leader,
        broker_epoch=member.broker_epoch,
        topics=[kinds.TopicData(topic_id=topic.id, partitions=[wanted])],
    )
    assert peers.ask(request, 56, 3).topics[0].partitions[0].isr == (leader,)


@contextlib.contextmanager
def calls() -> Iterator[list[int]]:
    """Counts the calls of functions meanwhile."""
    counted, before = [0], sys.getprofile()

    def count(_frame: object, event: str, _what: object) -> None:
        counted[0] += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)
