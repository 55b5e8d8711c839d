"""Which partitions a broker hosts, and leaders whose ISRs a real controller decides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.broker.kraft.replicas import HostedReplicas
from tests.unit.broker.hosting import Cluster
from wire import messages as m


def test_a_broker_hosts_the_partitions_that_name_it():
    cluster = Cluster(1, 2, 3)
    cluster.create("t", (1, 2), (2, 3), (3, 1))
    assert cluster.keys(1) == [("t", 0), ("t", 2)]
    assert [one.key for one in cluster.hosted(1).led] == [("t", 0)]
    assert len(cluster.hosted(2)) == 2


def test_a_deleted_topic_is_hosted_no_longer():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    cluster.create("u", (2, 1))
    cluster.world.ask(m.DeleteTopicsRequest(topics=[], topic_names=["t"]), 5)
    cluster.settle()
    assert cluster.keys(1) == cluster.keys(2) == [("u", 0)]
    assert cluster.hosted(1)._led_with == {}, "nothing is kept of it"


def test_a_topic_deleted_and_made_again_is_the_new_one():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    before = cluster.hosted(1).get(("t", 0))
    cluster.world.ask(m.DeleteTopicsRequest(topics=[], topic_names=["t"]), 5)
    cluster.create("t", (2, 1))
    after = cluster.hosted(1).get(("t", 0))
    assert after.topic_id != before.topic_id
    assert not [*cluster.hosted(1).led]


@pytest.mark.parametrize("mv", [8, 21])
def test_a_follower_that_was_fenced_is_taken_back(mv: int):
    cluster = Cluster(1, 2, 3, metadata_version=mv)
    cluster.create("t", (1, 2, 3))
    cluster.fence(3)
    assert cluster.partition("t").isr == (1, 2)
    cluster.unfence(3)
    assert cluster.partition("t").isr == (1, 2, 3)
    hosted = cluster.hosted(1).get(("t", 0))
    assert hosted.partition == cluster.partition("t")


@pytest.mark.parametrize("mv", [8, 21])
def test_a_held_back_follower_leaves_the_isr_and_returns(mv: int):
    cluster = Cluster(1, 2, 3, metadata_version=mv)
    cluster.create("t", (1, 2, 3))
    leader = cluster.brokers[1]
    assert cluster.hosted(1).hold_back(("t", 0), 2, leader.now_ms)
    leader.run()
    cluster.settle()
    assert cluster.partition("t").isr == (1, 3)
    cluster.hosted(1).let_go(("t", 0), 2, leader.now_ms)
    leader.run()
    cluster.settle()
    assert cluster.partition("t").isr == (1, 3, 2)


def test_a_reassignment_completes():
    cluster = Cluster(1, 2, 3, 4)
    cluster.create("t", (1, 2))
    cluster.reassign("t", 3, 4)
    moved = cluster.partition("t")
    assert (moved.replicas, moved.adding_replicas, moved.removing_replicas) == ((3, 4), (), ())
    assert set(moved.isr) == {3, 4}
    assert moved.leader in {3, 4}
    assert cluster.keys(1) == cluster.keys(2) == []
    assert cluster.keys(3) == cluster.keys(4) == [("t", 0)]


def test_a_reassignment_waits_for_a_replica_that_is_not_there():
    cluster = Cluster(1, 2, 3)
    cluster.create("t", (1, 2))
    cluster.fence(3)
    cluster.reassign("t", 1, 3)
    cluster.wait(60_000)
    assert cluster.partition("t").adding_replicas == (3,)
    cluster.unfence(3)
    assert cluster.partition("t").replicas == (1, 3)
    assert cluster.partition("t").isr == (1, 3)


def test_leaders_that_come_back_grow_their_isrs_again():
    cluster = Cluster(1, 2, 3)
    cluster.create("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    for broker_id in (1, 2, 3):
        cluster.fence(broker_id)
        cluster.unfence(broker_id)
    topic = cluster.world.tip.topic("t")
    assert topic is not None
    assert [sorted(one.isr) for one in topic.partitions.values()] == [[1, 2, 3]] * 3


def test_a_whole_image_replaces_what_was_hosted():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    cluster.create("u", (2, 1))
    replicas = HostedReplicas(1)
    replicas.assign(("gone", 0), b"g" * 16, cluster.partition("t"), 0)
    replicas.take_image(cluster.history.stable, 0)
    assert sorted(one.key for one in replicas) == [("t", 0), ("u", 0)]
    assert replicas.judge(0) == []


@pytest.mark.parametrize("manual", [False, True])
def test_a_leader_whose_isrs_are_changed_by_hand_asks_for_nothing(*, manual: bool):
    cluster = Cluster(1, 2, 3)
    cluster.hosted(1).manual = manual
    cluster.create("t", (1, 2, 3))
    cluster.fence(3)
    cluster.unfence(3)
    cluster.settle()
    assert cluster.partition("t").isr == ((1, 2) if manual else (1, 2, 3))
    if manual:
        assert cluster.hosted(1).deadline_ms is None


def test_a_follower_that_is_there_hides_no_other_that_is_gone():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    replicas = HostedReplicas(1, lag_ms=1_000)
    replicas.take_image(cluster.history.stable, 0)
    wide = replace(cluster.partition("t"), replicas=(1, 2, 3), isr=(1, 2, 3))
    replicas.assign(("t", 0), cluster.hosted(1).get(("t", 0)).topic_id, wide, 0)
    assert replicas.judge(999) == []
    (proposal,) = replicas.judge(1_000)
    assert proposal.isr == (1, 2)
