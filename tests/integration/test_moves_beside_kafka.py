"""Elections, reassignments and folders: the same requests to Kafka's own controller and to ours.

Four brokers that are nothing but registrations ask both; what both answer is one table. Where they
differ on purpose the test shows both outcomes.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pytest

from emulator.io.kafka_client import Connection
from emulator.servers.kafka import KraftController
from emulator.servers.waiting import wait_for
from tests.kit.requests import create_topics, reassign
from tests.unit.controller.world import CLUSTER, World, registration, uuid
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
IDS = (0, 1, 2, 3)
FAR = 1 << 40
PREFERRED, UNCLEAN = 0, 1
PARTITIONS = [(0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 1, 2), (0, 1, 2), (0, 1, 2)]


class Side:
    """One controller as its brokers see it: ``ask`` sends a request and returns the answer."""

    def __init__(self, ask):
        self.ask = ask
        self.epochs = {}
        self.topic_id = b""
        self.told = []

    def begin(self):
        for id_ in IDS:
            answer = self.ask(registration(id_, log_dirs=(uuid(5000 + id_), uuid(6000 + id_))))
            assert answer.error_code == 0
            self.epochs[id_] = answer.broker_epoch
            self.beat(id_)
        (created,) = self.ask(create_topics("t", assigned=PARTITIONS)).topics
        assert created.error_code == 0
        self.topic_id = created.topic_id

    def beat(self, broker, *, fence=False):
        request = m.BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.epochs[broker],
            current_metadata_offset=FAR,
            want_fence=fence,
        )
        answer = self.ask(request)
        assert (answer.error_code, answer.is_fenced) == (0, fence)

    def tell(self, what, answer):
        self.told.append((what, answer))
        return answer

    def elect(self, *indexes, kind=PREFERRED, name="t", everything=False):
        group = m.ElectLeadersRequest.TopicPartitions(topic=name, partitions=indexes)
        request = m.ElectLeadersRequest(
            election_type=kind, topic_partitions=None if everything else [group]
        )
        answer = self.ask(request)
        found = {
            one.topic: sorted(
                (each.partition_id, each.error_code, each.error_message)
                for each in one.partition_result
            )
            for one in answer.replica_election_results
        }
        return self.tell(f"elect {name} {indexes} {kind}", (answer.error_code, found))

    def move(self, index, target, name="t"):
        answer = self.ask(reassign(name, target, index))
        ((told,),) = [one.partitions for one in answer.responses]
        found = (answer.error_code, told.error_code, told.error_message)
        return self.tell(f"move {name}-{index} to {target}", found)

    def moving(self):
        kinds = m.ListPartitionReassignmentsRequest
        wanted = kinds.ListPartitionReassignmentsTopics(
            name="t", partition_indexes=range(len(PARTITIONS) + 1)
        )
        for topics in ([], [wanted]):
            self.tell(f"moving {topics}", self._moving(kinds(topics=topics)))
        return self.tell("moving, all", self._moving(kinds(topics=None)))

    def _moving(self, request):
        answer = self.ask(request)
        assert answer.error_code == 0
        return {
            (topic.name, one.partition_index): (
                tuple(one.replicas),
                tuple(one.adding_replicas),
                tuple(one.removing_replicas),
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    def alter(self, index, leader, isr, leader_epoch, partition_epoch):
        kinds = m.AlterPartitionRequest
        members = [kinds.BrokerState(broker_id=one, broker_epoch=-1) for one in isr]
        part = kinds.PartitionData(
            partition_index=index,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            new_isr_with_epochs=members,
        )
        topic = kinds.TopicData(topic_id=self.topic_id, partitions=[part])
        answer = self.ask(kinds(broker_id=leader, broker_epoch=self.epochs[leader], topics=[topic]))
        ((told,),) = [one.partitions for one in answer.topics]
        found = (
            told.error_code,
            told.leader_id,
            told.leader_epoch,
            tuple(told.isr),
            told.partition_epoch,
        )
        return self.tell(f"alter {index} {isr}", found)

    def assign(self, broker, directory, index, *, topic_id=None, epoch=None):
        kinds = m.AssignReplicasToDirsRequest
        part = kinds.PartitionData(partition_index=index)
        topic = kinds.TopicData(topic_id=topic_id or self.topic_id, partitions=[part])
        answer = self.ask(
            kinds(
                broker_id=broker,
                broker_epoch=self.epochs[broker] if epoch is None else epoch,
                directories=[kinds.DirectoryData(id=directory, topics=[topic])],
            )
        )
        found = [
            one.error_code
            for each in answer.directories
            for topic_ in each.topics
            for one in topic_.partitions
        ]
        return self.tell(f"assign {broker} {index}", (answer.error_code, found))


def script(side):
    """What both are asked; the answers are compared in order."""
    elections(side)
    reassignments(side)
    folders(side)


def elections(side):
    side.move(2, (1, 0))
    side.move(3, (2,))
    side.elect(0, 1, 2, 3)
    side.elect(0, kind=UNCLEAN)
    side.elect(0, 99, -1)
    side.elect(0, name="no")
    side.elect(0, 1, kind=7)
    side.elect()
    side.alter(0, 0, (0, 1), 0, 0)
    side.beat(0, fence=True)
    side.elect(0, 1, 2)
    side.elect(everything=True)
    side.beat(2, fence=True)
    side.elect(3)
    side.elect(3, kind=UNCLEAN)
    side.elect(everything=True, kind=UNCLEAN)
    side.beat(0)
    side.beat(2)
    side.elect(0, 1, 3)
    for index in (0, 1, 4, 5, 6):
        side.alter(index, 1, (1, 2, 0), *side_epochs(side, index))
    side.elect(everything=True)
    side.elect(everything=True)


def side_epochs(side, index):
    """Leader and partition epoch of a partition, by asking with epochs that are too old."""
    for leader_epoch in range(12):
        for partition_epoch in range(12):
            code = side.alter(index, 1, (9,), leader_epoch, partition_epoch)[0]
            if code == ErrorCode.INVALID_REQUEST:
                return leader_epoch, partition_epoch
            if code in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_CONTROLLER}:
                break
    raise AssertionError("no epochs")


def reassignments(side):
    for target in ((0, 9), (), (0, 0), None, (0, -1)):
        side.move(0, target)
    side.move(99, (0,))
    side.move(0, (0,), name="no")
    side.moving()
    side.move(1, (2, 1, 0))
    side.move(4, (0, 1))
    side.move(5, (1, 2))
    side.move(0, (3, 1))
    side.move(6, (0, 1, 2, 3))
    side.moving()
    side.elect(0, 1, 4, 5, 6)
    side.move(6, None)
    side.move(6, None)
    side.moving()
    side.move(6, (3,))
    side.move(6, (0, 1, 2))
    side.moving()


def folders(side):
    side.assign(1, uuid(6001), 2)
    side.assign(1, uuid(6001), 2)
    side.assign(1, uuid(6001), 99)
    side.assign(1, uuid(6001), 3)
    side.assign(1, uuid(6001), 2, topic_id=uuid(77))
    side.assign(1, uuid(6001), 2, epoch=0)
    side.elect(2)
    side.assign(1, uuid(7001), 2)
    side.elect(2)


@dataclass
class Told:
    """What Kafka's controller and ours said, in this order."""

    script: list[list]
    twice: list[list]
    newer: list[tuple]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One story, in one order: each part begins where the one before left both controllers."""
    controller = KraftController(RELEASE, tmp_path_factory.mktemp("kafka"), None, CLUSTER)
    controller.extra["broker.session.timeout.ms"] = 60_000
    controller.heap = "256m"
    with controller, closing(Connection("127.0.0.1", controller.port, 30)) as connection:
        stranger = m.AllocateProducerIdsRequest(broker_id=99, broker_epoch=0)

        def active():
            return connection.call(stranger).error_code != ErrorCode.NOT_CONTROLLER

        wait_for("active controller", active)
        world = World(auto_leader_rebalance_enable=False, broker_session_timeout_ms=60_000)
        found = Told([], [], [])
        for side in (Side(connection.call), Side(world.ask)):
            side.begin()
            script(side)
            found.script.append(list(side.told))
            found.twice.append(side.elect(1, 1)[1]["t"])
            side.move(2, (3,))
            before = side.moving()["t", 2]
            found.newer.append((before, side.move(2, (3, 1, 0))[:2], side.moving()["t", 2]))
        return found


def test_both_answer_the_same(told):
    kafkas, ours = told.script
    assert [what for what, _ in ours] == [what for what, _ in kafkas]
    assert ours == kafkas


def test_a_partition_named_twice_is_elected_once_by_us_and_twice_by_kafka(told):
    assert [len(one) for one in told.twice] == [2, 1]


def test_a_newer_reassignment_is_what_counts_with_us_and_not_with_kafka(told):
    """Kafka keeps removing what the newer one wants to keep, and answers that all is well."""
    kafkas, ours = told.newer
    assert kafkas[:2] == ours[:2] == (((3, 0, 1), (3,), (0, 1)), (0, 0))
    assert (kafkas[2], ours[2]) == (((3, 1, 0), (3,), (0, 1)), ((3, 1, 0), (3,), ()))
