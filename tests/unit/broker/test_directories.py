"""AssignReplicasToDirs: which replicas are reported, and what every answer does."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.kraft.hosting import FIRST_RETRY_MS, LAST_RETRY_MS, DirectoryAssigner
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.metadata.topics import MIGRATING, UNASSIGNED, Partition
from tests.kit.requests import raise_level
from tests.unit.broker.controller_end import ControllerEnd, channel
from tests.unit.controller.world import World, create, uuid
from wire import messages as m
from wire.errors import ErrorCode

OURS, T = b"d" * 16, b"t" * 16


def placed(ours: bytes) -> Partition:
    return Partition(
        replicas=(2, 1),
        isr=(2,),
        leader=2,
        leader_epoch=0,
        partition_epoch=0,
        directories=(b"x" * 16, ours),
    )


class Assigning(ControllerEnd):
    """Broker 1 with replicas whose directories the metadata names."""

    def __init__(self, *directories: bytes) -> None:
        self.replicas = HostedReplicas(1)
        self.supported = True
        super().__init__(
            DirectoryAssigner(self.replicas, OURS, channel(), lambda: 17, lambda: self.supported)
        )
        for index, directory in enumerate(directories):
            self.host(index, directory)

    def host(self, index: int, directory: bytes) -> None:
        self.replicas.assign(("t", index), T, placed(directory), self.now_ms)
        self.part.changed(("t", index), T, self.now_ms)
        self.run()

    def reply(self, code: int = 0, **codes: int) -> None:
        kind = m.AssignReplicasToDirsResponse
        (directory,) = self.last.directories
        topics = [
            kind.TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    kind.PartitionData(
                        partition_index=one.partition_index,
                        error_code=codes.get(f"p{one.partition_index}", 0),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        told = [kind.DirectoryData(id=directory.id, topics=topics)]
        self.answer(kind(error_code=code, directories=[] if code else told))

    def indexes(self) -> list[int]:
        (directory,) = self.last.directories
        assert directory.id == OURS
        return [one.partition_index for topic in directory.topics for one in topic.partitions]


def test_replicas_that_the_metadata_places_here_are_not_reported():
    assigning = Assigning(OURS, OURS)
    assigning.wait(60_000)
    assert assigning.asked == []


@pytest.mark.parametrize("unknown", [MIGRATING, UNASSIGNED, b"o" * 16])
def test_replicas_elsewhere_are_reported_once(unknown: bytes):
    assigning = Assigning(unknown)
    assert assigning.indexes() == [0]
    assert (assigning.last.broker_id, assigning.last.broker_epoch) == (1, 17)
    assigning.reply()
    assigning.wait(60_000)
    assert len(assigning.asked) == 1


def test_what_comes_while_a_request_is_in_flight_is_reported_next():
    assigning = Assigning(MIGRATING, OURS)
    assigning.host(2, UNASSIGNED)
    assert len(assigning.asked) == 1
    assigning.reply()
    assert assigning.indexes() == [2]


def test_an_error_for_everything_is_tried_again_more_and_more_slowly():
    assigning = Assigning(MIGRATING)
    pauses = []
    for number in range(2, 12):
        assigning.reply(ErrorCode.STALE_BROKER_EPOCH)
        before_ms = assigning.now_ms
        while len(assigning.asked) < number:
            assigning.wait(50)
        pauses.append(assigning.now_ms - before_ms)
    assert pauses[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert pauses[-1] == LAST_RETRY_MS


def test_nothing_is_due_once_it_is_closed():
    assigning = Assigning(MIGRATING)
    assigning.reply(ErrorCode.STALE_BROKER_EPOCH)
    assert assigning.part.deadline_ms is not None
    assigning.part.close()
    assigning.run()
    assert assigning.part.deadline_ms is None
    assigning.wait(2 * LAST_RETRY_MS)
    assert len(assigning.asked) == 1


def test_a_replica_that_moved_away_is_not_reported_again():
    assigning = Assigning(MIGRATING, MIGRATING)
    assigning.reply(p0=ErrorCode.NOT_LEADER_OR_FOLLOWER, p1=ErrorCode.UNKNOWN_SERVER_ERROR)
    assigning.wait(FIRST_RETRY_MS)
    assert assigning.indexes() == [1]


def test_what_changes_leaves_reported_replicas_alone_and_has_itself_reported_again():
    assigning = Assigning(MIGRATING, MIGRATING)
    assigning.reply()
    assert assigning.indexes() == [1]
    assigning.reply()
    assigning.host(1, UNASSIGNED)
    assert assigning.indexes() == [1]


def test_a_replica_that_is_hosted_no_more_is_not_reported():
    assigning = Assigning()
    assigning.supported = False
    assigning.host(0, MIGRATING)
    assigning.host(1, MIGRATING)
    assigning.replicas.drop(("t", 0))
    assigning.supported = True
    assigning.part.changed(("t", 0), T, assigning.now_ms)
    assigning.run()
    assert assigning.indexes() == [1]


def test_an_empty_answer_does_not_make_it_ask_without_a_pause():
    assigning = Assigning(MIGRATING)
    assigning.answer(m.AssignReplicasToDirsResponse())
    assert len(assigning.asked) == 1
    assigning.wait(FIRST_RETRY_MS)
    assert len(assigning.asked) == 2


def test_nothing_is_reported_below_the_metadata_version_of_directories():
    assigning = Assigning()
    assigning.supported = False
    assigning.host(0, MIGRATING)
    assert assigning.asked == []
    assigning.supported = True
    assigning.part.all_changed(assigning.now_ms)
    assigning.run()
    assert assigning.indexes() == [0]


def test_a_controller_that_was_upgraded_learns_where_old_replicas_are():
    world = World(metadata_version=16).join(1)
    world.ask(create("t", 1, 1))
    world.ask(raise_level(17))
    replicas = HostedReplicas(1)
    replicas.take_image(world.tip, 0)
    (hosted,) = replicas
    assert hosted.partition.directories == (MIGRATING,)

    def answer(header: Any, request: Any) -> Any:
        return world.ask(request, header.api_version)

    part = DirectoryAssigner(
        replicas, uuid(5_001), channel(), lambda: world.tip.brokers[1].epoch, lambda: True
    )
    end = ControllerEnd(part, answer)
    part.all_changed(0)
    end.run()
    partition = world.tip.partition(hosted.topic_id, 0)
    assert partition.directories == (uuid(5_001),)
