"""Fetch and FetchSnapshot of a node that may not speak.

What a broker does on the answer was read off real ones: with its own epoch and no leader in it,
BROKER_NOT_AVAILABLE changes nothing, and it asks again after a back-off.
"""

from __future__ import annotations

import pytest

from emulator.raft.replica import Serving
from tests.unit.raft.test_fetch_snapshot import request
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import NOW, World, fetch, no_op, topic
from wire.errors import ErrorCode
from wire.frame import encode_response

FOLLOWERS = {
    "new": {"offset": 0, "epoch": 0, "last": 0},
    "in step": {"offset": 3, "epoch": 2, "last": 2},
    "behind": {"offset": 1, "epoch": 2, "last": 1},
    "ahead": {"offset": 900, "epoch": 2, "last": 2},
    "of a later epoch": {"offset": 3, "epoch": 7, "last": 7},
    "of an older epoch": {"offset": 2, "epoch": 1, "last": 1},
    "of an epoch that is not ours": {"offset": 40, "epoch": 2, "last": 1},
}


def world(serving: Serving) -> World:
    """Epoch 1 from offset 0, a topic at 1, epoch 2 from 2."""
    first = World().start()
    first.append(topic("a"))
    made = first.restarted().start()
    made.raft.serve(serving, NOW)
    assert made.replies() == []
    return made


@pytest.mark.parametrize("version", [12, 13, 17])
@pytest.mark.parametrize("follower", FOLLOWERS)
def test_who_may_be_told_nothing_keeps_epoch_and_records(follower, version):
    made, asked = world(Serving.NOTHING), FOLLOWERS[follower]
    made.raft.request(fetch(**asked), version, made.now, "t")
    assert made.replies() == [], "it waits, as for new records"
    made.tick(500)
    (response,) = made.replies()
    assert encode_response(1, version, 0, response)
    assert (response.error_code, response.node_endpoints) == (ErrorCode.NONE, [])
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert (partition.high_watermark, partition.log_start_offset) == (-1, -1)
    assert partition.records == b""
    leader = partition.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (-1, asked["epoch"])
    assert (partition.diverging_epoch.epoch, partition.snapshot_id.epoch) == (-1, -1)
    assert list(made.raft.replica.observers.alive(made.now)) == []


def test_it_is_served_at_once_when_it_may_be():
    made = world(Serving.NOTHING)
    made.raft.request(fetch(1, 2, 1), 17, made.now, "t")
    made.raft.serve(Serving.ALL, made.now)
    partition = made.partition()
    assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert partition.records


def test_one_that_waits_for_records_gets_none_once_nothing_may_be_told():
    made = world(Serving.ALL)
    made.fetch(3, last=2)
    assert made.replies() == []
    made.raft.serve(Serving.NOTHING, made.now)
    assert made.partition().error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_no_snapshot_is_read_from_who_may_tell_nothing():
    made = world(Serving.ALL)
    made.append(no_op())
    made.snapshot(4, [topic("a")])
    made.raft.serve(Serving.NOTHING, made.now)
    for version in (0, 1):
        made.raft.request(request(4, 2, leader_epoch=5), version, NOW, "t")
        (response,) = made.replies()
        assert encode_response(59, version, 0, response)
        (partition,) = response.topics[0].partitions
        assert partition.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        leader = partition.current_leader
        assert (leader.leader_id, leader.leader_epoch) == (-1, 5)
        assert (partition.size, partition.unaligned_records, response.node_endpoints) == (
            0,
            b"",
            [],
        )


def test_a_stop_does_not_wait_for_those_who_may_be_told_nothing():
    made = world(Serving.NOTHING)
    made.fetch(3, last=2)
    made.disk.apply(made.raft.shutdown(made.now))
    assert made.partition().error_code == ErrorCode.BROKER_NOT_AVAILABLE
    made.fetch(3, last=2)
    assert made.partition().error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_the_other_voters_are_told_everything_all_the_same():
    """Without them nothing could be committed, not even what ZooKeeper is to confirm."""
    trio = Trio().start()
    trio.run(5_000)
    leader = trio.leader
    leader.raft.serve(Serving.NOTHING, trio.now)
    end = trio.append(leader, topic("a")) + 1
    trio.run(100)
    assert leader.raft.high_watermark == end
    for each in trio.up():
        assert each.raft.log_end_offset == end
    observer = fetch(0, leader.raft.leader_epoch, 0)
    leader.raft.request(observer, 17, trio.now, "t")
    assert leader.raft.take_replies() == []


def test_a_voter_loads_a_snapshot_from_a_leader_who_may_tell_observers_nothing():
    trio = Trio().start()
    trio.run(5_000)
    leader = trio.leader
    assert leader.raft is not None
    trio.append(leader, topic("a"))
    trio.run(100)
    other = next(each.id for each in trio.up() if each is not leader)
    trio.crash(other)
    end, epoch = leader.raft.high_watermark, leader.raft.leader_epoch
    leader.raft.serve(Serving.NOTHING, trio.now)
    trio.snapshot(leader, end, epoch, [topic("a")])
    trio.empty(other)
    trio.start(other)
    trio.run(3_000)
    loaded = trio.nodes[other].raft
    assert loaded.latest_snapshot is not None
    assert loaded.log_end_offset >= end
