"""A leader's changes of ISRs: what is asked, and what every answer does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.isr import IsrState
from emulator.broker.kraft.replicas import FETCH_MS, LAG_MS, HostedReplicas
from emulator.metadata.topics import Partition
from tests.unit.broker.controller_end import ControllerEnd, channel
from wire import messages as m
from wire.errors import ErrorCode

T = b"t" * 16
KEY = ("t", 0)
PARTITION = Partition(
    replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=9
)
ALL = {1: 11, 2: 12, 3: 13}


class Leader(ControllerEnd):
    """Broker 1, which hosts partitions with brokers 2 and 3."""

    def __init__(self, *partitions: Partition, with_epochs: bool = True, release: str = "3.9"):
        self.replicas = HostedReplicas(1)
        self.members: Mapping[int, int] = ALL
        sender = AlterPartitionSender(
            self.replicas, channel(release), lambda: 11, with_epochs=with_epochs
        )
        super().__init__(sender)
        self.sender = sender
        self.active(ALL)
        for index, partition in enumerate(partitions):
            self.replicas.assign(("t", index), T, partition, 0)
        self.run()

    def active(self, members: Mapping[int, int]) -> None:
        changed = {*self.members, *members}
        self.members = members
        self.replicas.take_members(members.get, changed, self.now_ms)
        self.run()

    def told(self, partition: Partition) -> bool:
        taken = self.replicas.assign(KEY, T, partition, self.now_ms)
        self.run()
        return taken

    def wanted(self) -> dict[int, list[int]]:
        """Partition -> ISR of the newest request."""
        return {
            one.partition_index: [member.broker_id for member in one.new_isr_with_epochs]
            for topic in self.last.topics
            for one in topic.partitions
        }

    def grant(self, **fields: Any) -> None:
        """Grant everything that the newest request asks for."""
        self.answer(granted(self.last, **fields))

    def refuse(self, code: int) -> None:
        self.answer(granted(self.last, error_code=code))

    @property
    def hosted(self) -> Any:
        return self.replicas.get(KEY)


def granted(request: m.AlterPartitionRequest, **fields: Any) -> m.AlterPartitionResponse:
    kind = m.AlterPartitionResponse
    topics = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            values: dict[str, Any] = {
                "partition_index": one.partition_index,
                "leader_id": 1,
                "leader_epoch": one.leader_epoch,
                "isr": tuple(member.broker_id for member in one.new_isr_with_epochs),
                "partition_epoch": one.partition_epoch + 1,
                **fields,
            }
            partitions.append(kind.PartitionData(**values))
        topics.append(
            kind.TopicData(
                topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return kind(topics=topics)


def short(*isr: int) -> Partition:
    return replace(PARTITION, isr=isr)


def test_a_full_isr_of_active_brokers_asks_for_nothing():
    leader = Leader(PARTITION)
    leader.wait(10 * LAG_MS)
    assert leader.asked == []
    assert leader.part.deadline_ms is None


def test_an_active_follower_joins_at_once_and_stands_last():
    leader = Leader(short(3, 1))
    assert leader.wanted() == {0: [3, 1, 2]}
    (topic,) = leader.last.topics
    (asked,) = topic.partitions
    assert (leader.last.broker_id, leader.last.broker_epoch) == (1, 11)
    assert (topic.topic_id, asked.leader_epoch, asked.partition_epoch) == (T, 4, 9)
    assert [one.broker_epoch for one in asked.new_isr_with_epochs] == [13, 11, 12]
    leader.grant()
    assert leader.hosted.partition == replace(PARTITION, isr=(3, 1, 2), partition_epoch=10)
    assert leader.hosted.state is IsrState.COMMITTED
    assert leader.sender.counts.expands == 1


def test_followers_join_one_after_the_other():
    leader = Leader(short(1))
    assert leader.wanted() == {0: [1, 2]}
    leader.grant()
    assert leader.wanted() == {0: [1, 2, 3]}
    assert len(leader.asked) == 2


def test_a_zookeeper_mode_broker_sends_no_epochs_of_members():
    leader = Leader(short(1), with_epochs=False)
    epochs = [one.broker_epoch for one in leader.last.topics[0].partitions[0].new_isr_with_epochs]
    assert epochs == [-1, -1]


@pytest.mark.parametrize(("release", "version"), [("3.4", 2), ("3.5", 3), ("3.9", 3)])
def test_the_version_is_that_of_the_release(release: str, version: int):
    assert Leader(short(1), release=release).asked[0][0].api_version == version


def test_topics_without_an_id_are_asked_for_by_name():
    leader = Leader()
    leader.replicas.assign(KEY, bytes(16), short(1), 0)
    leader.run()
    header, request = leader.asked[0]
    assert (header.api_version, request.topics[0].topic_name) == (1, "t")
    leader.grant()
    assert leader.hosted.partition.isr == (1, 2)


def test_a_follower_that_is_gone_is_dropped_after_the_lag():
    leader = Leader(PARTITION)
    leader.wait(1_000)
    leader.active({1: 11, 3: 13})
    leader.wait(LAG_MS - 1)
    assert leader.asked == []
    leader.wait(1)
    assert leader.wanted() == {0: [1, 3]}
    leader.grant()
    assert leader.hosted.partition.isr == (1, 3)
    assert leader.sender.counts.shrinks == 1


def test_a_follower_that_comes_back_in_time_stays():
    leader = Leader(PARTITION)
    leader.active({1: 11, 3: 13})
    leader.wait(LAG_MS - 1)
    leader.active(ALL)
    leader.wait(2 * LAG_MS)
    assert leader.asked == []


def test_a_new_leader_gives_followers_the_whole_lag():
    leader = Leader(replace(PARTITION, leader=2))
    leader.active({1: 11, 3: 13})
    leader.wait(LAG_MS)
    leader.told(replace(PARTITION, leader_epoch=5, partition_epoch=10))
    leader.wait(LAG_MS - 1)
    assert leader.asked == []
    leader.wait(1)
    assert leader.wanted() == {0: [1, 3]}


def test_a_follower_asks_for_nothing():
    leader = Leader(replace(PARTITION, leader=2, isr=(2,)))
    leader.wait(2 * LAG_MS)
    assert leader.asked == []


def test_all_that_waits_goes_into_the_next_request():
    leader = Leader(short(1, 2), PARTITION, PARTITION)
    for index in (1, 2):
        leader.replicas.hold_back(("t", index), 3, leader.now_ms)
    leader.run()
    assert len(leader.asked) == 1
    leader.grant()
    assert len(leader.asked) == 2
    assert leader.wanted() == {1: [1, 2], 2: [1, 2]}


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_error_for_the_whole_request_repeats_it_in_50_ms(code: ErrorCode):
    leader = Leader(short(1, 2))
    leader.answer(m.AlterPartitionResponse(error_code=code))
    leader.wait(49)
    assert len(leader.asked) == 1
    leader.wait(1)
    assert len(leader.asked) == 2
    leader.grant()
    assert leader.hosted.partition.isr == (1, 2, 3)


def test_a_controller_that_hangs_up_is_asked_again():
    leader = Leader(short(1, 2))
    leader.hang_up()
    leader.wait(50)
    assert len(leader.asked) == 2
    leader.grant()
    assert leader.hosted.partition.isr == (1, 2, 3)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_an_ineligible_replica_is_asked_for_again_when_it_would_fetch(code: ErrorCode):
    leader = Leader(short(1, 2))
    leader.refuse(code)
    assert leader.hosted.state is IsrState.COMMITTED
    assert leader.hosted.partition.isr == (1, 2)
    leader.wait(FETCH_MS - 1)
    assert len(leader.asked) == 1
    leader.wait(1)
    assert len(leader.asked) == 2


WAITING = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
]


@pytest.mark.parametrize("code", WAITING, ids=lambda code: code.name)
def test_what_only_the_metadata_can_settle_is_not_asked_again(code: ErrorCode):
    leader = Leader(short(1, 2))
    leader.refuse(code)
    leader.wait(2 * LAG_MS)
    assert len(leader.asked) == 1
    assert leader.hosted.state is IsrState.EXPANDING
    leader.told(replace(short(1, 2), leader_epoch=5, partition_epoch=10))
    assert len(leader.asked) == 2
    assert leader.last.topics[0].partitions[0].leader_epoch == 5
    assert leader.sender.counts.failed == 1


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, 29_999])
def test_an_unknown_error_of_a_partition_repeats_the_proposal(code: int):
    leader = Leader(short(1, 2))
    leader.refuse(code)
    assert len(leader.asked) == 1
    leader.wait(50)
    assert leader.wanted() == {0: [1, 2, 3]}
    assert len(leader.asked) == 2


def test_an_answer_with_an_unknown_recovery_state_is_an_error():
    leader = Leader(short(1, 2))
    leader.grant(leader_recovery_state=7)
    assert leader.hosted.partition.isr == (1, 2)
    leader.wait(50)
    assert len(leader.asked) == 2


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again():
    leader = Leader(short(1, 2))
    leader.answer(m.AlterPartitionResponse())
    leader.wait(50)
    assert len(leader.asked) == 2
    leader.grant()
    assert leader.hosted.partition.isr == (1, 2, 3)


def test_an_answer_about_partitions_nobody_asked_for_changes_nothing():
    leader = Leader(short(1, 2))
    answer = granted(leader.last)
    (own,) = answer.topics[0].partitions
    other = m.AlterPartitionResponse.PartitionData(partition_index=9, isr=(9,))
    foreign = m.AlterPartitionResponse.TopicData(topic_id=b"o" * 16, partitions=[other])
    answer.topics[0].partitions = [own, other]
    answer.topics.append(foreign)
    leader.answer(answer)
    assert len(leader.replicas) == 1
    assert leader.hosted.partition.isr == (1, 2, 3)


def test_an_answer_with_a_new_leader_epoch_waits_for_the_metadata():
    """While brokers migrate a controller raises the leader epoch with every shrink."""
    leader = Leader(PARTITION)
    leader.replicas.hold_back(KEY, 3, 0)
    leader.run()
    leader.grant(leader_epoch=5)
    assert leader.hosted.partition.isr == (1, 2, 3)
    assert leader.hosted.state is IsrState.SHRINKING
    assert leader.told(replace(PARTITION, isr=(1, 2), leader_epoch=5, partition_epoch=10))
    assert leader.hosted.state is IsrState.COMMITTED
    assert len(leader.asked) == 1


def test_metadata_that_comes_before_the_answer_replaces_the_proposal():
    leader = Leader(short(1, 2))
    leader.told(replace(short(2, 1), leader_epoch=5, partition_epoch=10))
    leader.grant()
    assert leader.hosted.partition == replace(short(2, 1), leader_epoch=5, partition_epoch=10)
    # The new proposal met the old one in the queue, and is made again at the next fetch.
    leader.wait(FETCH_MS)
    assert len(leader.asked) == 2
    assert leader.wanted() == {0: [2, 1, 3]}


def test_older_metadata_is_ignored():
    leader = Leader(short(1, 2))
    leader.grant()
    assert not leader.told(short(1, 2))
    assert leader.hosted.partition.isr == (1, 2, 3)


def test_a_controller_that_grants_something_else_is_not_asked_without_a_pause():
    leader = Leader(short(1, 2))
    for number in range(1, 4):
        assert len(leader.asked) == number
        leader.grant(isr=(1, 2), partition_epoch=9)
        assert len(leader.asked) == number
        leader.wait(FETCH_MS)
    assert leader.hosted.partition.isr == (1, 2)


def test_a_topic_deleted_while_its_answer_is_on_the_way_is_forgotten():
    leader = Leader(short(1, 2))
    leader.replicas.drop(KEY)
    leader.grant()
    leader.wait(LAG_MS)
    assert len(leader.replicas) == 0
    assert len(leader.asked) == 1


def test_a_topic_made_again_is_not_given_the_answer_of_the_old_one():
    leader = Leader(short(1, 2))
    leader.replicas.assign(KEY, b"n" * 16, short(1, 2), leader.now_ms)
    leader.run()
    failed = leader.sender.counts.failed
    leader.grant()
    assert leader.hosted.partition.isr == (1, 2)
    assert leader.sender.counts.failed == failed, "it is about another topic"
    leader.wait(FETCH_MS)
    assert leader.last.topics[0].topic_id == b"n" * 16


def test_a_leader_that_is_deposed_while_it_waits_stays_deposed():
    leader = Leader(short(1, 2))
    leader.told(
        replace(
            short(
                2,
            ),
            leader=2,
            leader_epoch=5,
            partition_epoch=10,
        )
    )
    leader.grant()
    leader.wait(LAG_MS)
    assert leader.hosted.partition.leader == 2
    assert len(leader.asked) == 1


def test_a_held_back_follower_leaves_and_comes_back():
    leader = Leader(PARTITION)
    assert leader.replicas.hold_back(KEY, 2, 0)
    leader.run()
    assert leader.wanted() == {0: [1, 3]}
    leader.grant()
    leader.wait(LAG_MS)
    assert len(leader.asked) == 1
    leader.replicas.let_go(KEY, 2, leader.now_ms)
    leader.run()
    assert leader.wanted() == {0: [1, 3, 2]}


def test_only_followers_of_led_partitions_can_be_held_back():
    leader = Leader(replace(PARTITION, leader=2))
    assert not leader.replicas.hold_back(KEY, 3, 0)
    assert not leader.replicas.hold_back(("other", 0), 3, 0)
    leader.replicas.let_go(("other", 0), 3, 0)
    leader.run()
    assert leader.asked == []


def test_a_closed_sender_sends_nothing():
    leader = Leader(short(1, 2))
    leader.part.close()
    leader.wait(LAG_MS)
    assert len(leader.asked) == 1
