"""DescribeQuorum: the voter, the observers, and when those are forgotten."""

from __future__ import annotations

import pytest

from emulator.raft import Raft
from tests.unit.raft.world import NOW, Random, World, config, fetch, no_op
from wire import messages as m
from wire.frame import encode_response


def describe(raft: Raft, now: int, version: int = 2, name: str = "__cluster_metadata"):
    partitions = [m.DescribeQuorumRequest.PartitionData()]
    topics = [m.DescribeQuorumRequest.TopicData(topic_name=name, partitions=partitions)]
    raft.request(m.DescribeQuorumRequest(topics=topics), version, now, "t")
    response = raft.take_replies()[-1].message
    assert encode_response(55, version, 1, response)
    return response


def rows(raft: Raft, now: int, version: int = 2) -> list[tuple[int, int, int, int]]:
    (partition,) = describe(raft, now, version).topics[0].partitions
    return [
        (o.replica_id, o.log_end_offset, o.last_fetch_timestamp, o.last_caught_up_timestamp)
        for o in partition.observers
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_leader_is_its_only_voter(version):
    world = World().start()
    response = describe(world.raft, NOW + 7, version)
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (3000, 1, 1)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (3000, 1)
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (NOW + 7, NOW + 7)
    assert voter.replica_directory_id == bytes(16), "a static quorum names no directories"
    nodes = [(n.node_id, n.listeners[0].name, n.listeners[0].port) for n in response.nodes]
    assert nodes == ([(3000, "CONTROLLER", 23000)] if version == 2 else [])


def observe(world: World, replica_id: int, offset: int, at: int) -> None:
    state = m.FetchRequest.ReplicaState(replica_id=replica_id)
    request = fetch(
        offset, 1, last=min(offset, 1), replica_state=state, max_wait_ms=0,
        replica_directory_id=bytes([max(replica_id, 0)]) * 16,
    )  # fmt: skip
    world.raft.request(request, 17, at, "f")
    world.raft.take_replies()


def test_an_observer_is_caught_up_when_it_had_what_was_the_end():
    world = World().start()
    world.append(no_op())
    observe(world, 1, 0, NOW + 1)
    assert rows(world.raft, NOW + 1) == [(1, 0, NOW + 1, -1)]
    world.append(no_op())
    observe(world, 1, 2, NOW + 2)
    assert rows(world.raft, NOW + 2) == [(1, 2, NOW + 2, NOW + 1)]
    observe(world, 1, 3, NOW + 3)
    assert rows(world.raft, NOW + 3) == [(1, 3, NOW + 3, NOW + 3)]
    (partition,) = describe(world.raft, NOW + 3).topics[0].partitions
    assert partition.observers[0].replica_directory_id == b"\1" * 16


def test_observers_are_listed_by_id_and_forgotten_after_five_minutes():
    world = World().start()
    observe(world, 2, 1, NOW)
    observe(world, 1, 1, NOW + 1)
    assert [row[0] for row in rows(world.raft, NOW + 300_000)] == [1, 2]
    assert [row[0] for row in rows(world.raft, NOW + 300_001)] == [1]
    assert rows(world.raft, NOW + 300_002) == []
    assert [row[0] for row in rows(world.raft, NOW, 0)] == []


def test_a_refused_or_anonymous_fetch_makes_no_observer():
    world = World().start()
    observe(world, -1, 1, NOW)
    observe(world, 1, 9, NOW)
    assert rows(world.raft, NOW) == []


def test_another_topic_is_unknown_and_a_node_before_its_start_does_not_lead():
    (partition,) = describe(World().start().raft, NOW, name="x").topics[0].partitions
    assert partition.error_code == 3
    waiting = Raft(config(), {}, Random(1), NOW)
    (partition,) = describe(waiting, NOW).topics[0].partitions
    assert partition.error_code == 6
    waiting.request(fetch(0, 0, 0), 17, NOW, "f")
    found = waiting.take_replies()[0].message.responses[0].partitions[0]
    assert (found.error_code, found.current_leader.leader_id) == (6, -1)
