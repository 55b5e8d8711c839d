"""Which partitions a broker hosts, and leaders whose ISRs a real controller decides."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.replicas import HostedReplicas
from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from tests.unit.broker.controller_end import ControllerEnd, channel
from tests.unit.controller.world import World, create
from wire import messages as m
from wire.frame import RequestHeader
from wire.record_serde import decode_record


class Hosting(ControllerEnd):
    """What one broker hosts, and its channel to a controller that answers at once."""

    def __init__(self, replicas: HostedReplicas, sender: Any, at_once: Any) -> None:
        super().__init__(sender, at_once)
        self.replicas = replicas


class Cluster:
    """A controller and brokers that know only what its log and its answers say."""

    def __init__(self, *broker_ids: int, **fields: Any) -> None:
        self.world = World(**fields)
        self.history = History()
        self.batches = 0
        self.brokers = {one: self._broker(one) for one in broker_ids}
        self.world.join(*broker_ids)
        self.settle()

    def _broker(self, broker_id: int) -> Hosting:
        replicas = HostedReplicas(broker_id)
        sender = AlterPartitionSender(
            replicas, channel(), lambda: self.world.tip.brokers[broker_id].epoch, with_epochs=True
        )
        return Hosting(replicas, sender, self._asked)

    def _asked(self, header: RequestHeader, request: Any) -> Any:
        return self.world.ask(request, header.api_version)

    def deltas(self) -> list[Delta]:
        """What the log says that the brokers have not read."""
        found: list[Delta] = []
        new = self.world.log.batches[self.batches :]
        self.batches += len(new)
        for base, values in new:
            self.history.append([decode_record(value)[0] for value in values], base, 1)
            found += self.history.advance(base + len(values))
        return found

    def settle(self) -> None:
        """Let every broker read the log, and act on it, until nothing is new."""
        while deltas := self.deltas():
            for end in self.brokers.values():
                for delta in deltas:
                    end.replicas.take_delta(delta, end.now_ms)
                end.run()

    def wait(self, ms: int) -> None:
        for end in self.brokers.values():
            end.wait(ms)
        self.settle()

    def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        kind = m.CreateTopicsRequest.CreatableReplicaAssignment
        assignments = [
            kind(partition_index=index, broker_ids=one) for index, one in enumerate(replicas)
        ]
        answer = self.world.ask(create(name, -1, -1, assignments=assignments))
        assert answer.topics[0].error_code == 0, answer
        self.settle()

    def fence(self, broker_id: int) -> None:
        self.world.heartbeat(broker_id, want_fence=True)
        self.settle()

    def unfence(self, broker_id: int) -> None:
        self.world.heartbeat(broker_id)
        self.settle()

    def reassign(self, name: str, *replicas: int) -> None:
        kind = m.AlterPartitionReassignmentsRequest
        partition = kind.ReassignablePartition(partition_index=0, replicas=replicas)
        answer = self.world.ask(
            kind(topics=[kind.ReassignableTopic(name=name, partitions=[partition])])
        )
        assert answer.responses[0].partitions[0].error_code == 0, answer
        self.settle()

    def hosted(self, broker_id: int) -> HostedReplicas:
        return self.brokers[broker_id].replicas

    def keys(self, broker_id: int) -> list[tuple[str, int]]:
        return [one.key for one in self.hosted(broker_id)]

    def partition(self, name: str, index: int = 0) -> Any:
        topic = self.world.tip.topic(name)
        assert topic is not None
        return topic.partitions[index]


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


def test_a_topic_deleted_and_made_again_is_the_new_one():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    before = cluster.hosted(1).get(("t", 0))
    cluster.world.ask(m.DeleteTopicsRequest(topics=[], topic_names=["t"]), 5)
    cluster.create("t", (2, 1))
    after = cluster.hosted(1).get(("t", 0))
    assert before is not None
    assert after is not None
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
    assert hosted is not None
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
