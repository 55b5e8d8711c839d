"""What cases demand of answers that are made up: neither too much, nor nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from bench.conformance.case import (
    CASES,
    Answer,
    Ask,
    Facts,
    Level,
    NotOffered,
    Stage,
    Violation,
    Where,
)
from bench.conformance.cases.quorum import LOG, LOG_ID
from bench.conformance.cases.records import stored
from wire import messages as m
from wire.batch import Batch, encode_batch
from wire.schema import spec

OFFERED = (
    m.FetchRequest,
    m.FetchSnapshotRequest,
    m.DescribeQuorumRequest,
    m.CreateDelegationTokenRequest,
    m.DescribeGroupsRequest,
)


def stage(here: Where, **facts: object) -> Stage:
    return Stage(Facts(**facts), here, "case", random.Random(1), {})


def test_topics_of_records_do_not_depend_on_defaults_of_the_broker() -> None:
    asked = next(stored(stage(Where.BROKER, brokers=(1,))))
    configs = {one.name: one.value for one in asked.request.topics[0].configs}
    assert configs["message.timestamp.type"] == "CreateTime"
    assert configs["cleanup.policy"] == "delete"


@dataclass
class Controller:
    """Answers as a controller that leads alone; each batch of its log has one record."""

    end: int = 3
    """What DescribeQuorum tells."""
    held: int = 3
    """Batches that Fetch gives, one each time."""
    grows: bool = False
    """Whether both are one more after each Fetch."""
    snapshot: int = -1
    """Instead of what is at this offset Fetch names a snapshot, which is there."""
    unwritten: m.FetchSnapshotResponse | None = None
    """The answer to every FetchSnapshot for this cluster."""
    unread: bool = False
    """Whether answers have values that nobody reads."""

    def __call__(self, request: object) -> object:
        match request:
            case m.DescribeQuorumRequest():
                return self._described()
            case m.FetchRequest():
                return self._fetched(request.topics[0].partitions[0])
            case m.FetchSnapshotRequest(cluster_id=str()):
                return m.FetchSnapshotResponse(error_code=104)
            case m.FetchSnapshotRequest(max_bytes=1_048_576):
                kind = m.FetchSnapshotResponse
                part = kind.PartitionSnapshot()
                return kind(topics=[kind.TopicSnapshot(name=LOG, partitions=[part])])
            case m.FetchSnapshotRequest():
                return self.unwritten or self._no_snapshot(request.topics[0])
            case m.CreateDelegationTokenRequest():
                return m.CreateDelegationTokenResponse(
                    error_code=64,
                    issue_timestamp_ms=self.unread - 1,
                    expiry_timestamp_ms=-1,
                    max_timestamp_ms=-1,
                )
            case m.RenewDelegationTokenRequest():
                return m.RenewDelegationTokenResponse(error_code=64, expiry_timestamp_ms=-1)
            case m.ExpireDelegationTokenRequest():
                return m.ExpireDelegationTokenResponse(error_code=64, expiry_timestamp_ms=-1)
        raise AssertionError(request)

    def _described(self) -> m.DescribeQuorumResponse:
        kind = m.DescribeQuorumResponse
        voter = kind.ReplicaState(replica_id=1, log_end_offset=self.end)
        part = kind.PartitionData(
            leader_id=1, leader_epoch=1, high_watermark=self.end, current_voters=[voter]
        )
        return kind(topics=[kind.TopicData(topic_name=LOG, partitions=[part])])

    def _fetched(self, asked: m.FetchRequest.FetchPartition) -> m.FetchResponse:
        kind, data = m.FetchResponse, b""
        if asked.fetch_offset < self.held:
            data = encode_batch(Batch(asked.fetch_offset, 1, 0, 0, [(None, b"x")]))
        part = kind.PartitionData(
            high_watermark=min(self.end, self.held),
            log_start_offset=0,
            last_stable_offset=self.unread - 1,
            current_leader=kind.LeaderIdAndEpoch(leader_id=1, leader_epoch=1),
            records=data,
        )
        if asked.fetch_offset == self.snapshot:
            part.snapshot_id = kind.SnapshotId(end_offset=9, epoch=1)
        self.end, self.held = self.end + self.grows, self.held + self.grows
        topic = kind.FetchableTopicResponse(topic_id=LOG_ID, partitions=[part])
        return kind(responses=[topic], session_id=int(self.unread))

    def _no_snapshot(self, asked: m.FetchSnapshotRequest.TopicSnapshot) -> m.FetchSnapshotResponse:
        kind, part = m.FetchSnapshotResponse, asked.partitions[0]
        error = 3 if asked.name != LOG else 75 if part.current_leader_epoch > 1 else 98
        leader = kind.LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
        none = kind.PartitionSnapshot(
            error_code=error, current_leader=leader, position=int(self.unread)
        )
        return kind(topics=[kind.TopicSnapshot(name=asked.name, partitions=[none])])


def outcome(case: str, answers: Callable[[object], object], level: int = 0) -> str:
    """How a case of a controller ends; ``level``: the newest metadata.version that it supports."""
    ranges = {spec(one).key: (0, spec(one).max_version) for one in OFFERED}
    one = stage(
        Where.CONTROLLER,
        ranges={Where.CONTROLLER: ranges},
        features={"metadata.version": (1, level)},
        plain=frozenset({Where.CONTROLLER}),
    )
    program, got = CASES[case].program(one), None
    try:
        while True:
            asked = program.send(got)
            assert isinstance(asked, Ask)
            version = asked.version or spec(type(asked.request)).max_version
            got = Answer(answers(asked.request), version, b"")
    except StopIteration:
        return "passed"
    except NotOffered:
        return "not offered"
    except Violation as found:
        return f"failed: {found.what}"


@pytest.mark.parametrize("case", ["quorum.snapshots", "quorum.led"])
def test_an_answer_that_cannot_be_written_is_excused_of_kafka_alone(case: str) -> None:
    kind = m.FetchSnapshotResponse
    whole = Controller(unwritten=kind(error_code=-1))
    assert outcome(case, Controller()) == "passed"
    for level in (8, 21, 30):  # Kafka 3.4, 3.9, 4.3
        assert outcome(case, whole, level) == "not offered"
    failed = "failed: FetchSnapshot of an unknown snapshot: as a whole"
    for level in (0, 7, 31):
        assert outcome(case, whole, level) == failed
    partly = Controller(unwritten=kind(error_code=-1, topics=[kind.TopicSnapshot(name=LOG)]))
    assert outcome(case, partly, 21) == failed


@pytest.mark.parametrize("case", ["quorum.observe", "quorum.snapshots", "tokens.not_allowed"])
def test_what_nobody_reads_is_a_habit(case: str) -> None:
    habit = f"{case}_bare"
    assert (CASES[case].level, CASES[habit].level) == (Level.MUST, Level.HABIT)
    for one in (case, habit):
        assert outcome(one, Controller()) == "passed"
    assert outcome(case, Controller(unread=True)) == "passed"
    assert outcome(habit, Controller(unread=True)).startswith("failed")


def test_a_log_is_read_to_the_end_that_was_told() -> None:
    assert outcome("quorum.observe", Controller(end=150, held=150)) == "passed"
    short = outcome("quorum.observe", Controller(end=150, held=149))
    assert short == "failed: offsets of DescribeQuorum above 149, the end of the log"
    endless = Controller(held=1 << 30)
    assert outcome("quorum.observe", endless) == "failed: the end of the log"
    assert outcome("quorum.observe", Controller(grows=True)) == "not offered"


def test_a_snapshot_may_have_any_part_of_the_log() -> None:
    """Its start may be deleted while it is read."""
    for offset in (0, 2):
        assert outcome("quorum.observe", Controller(snapshot=offset)) == "not offered"


def test_what_is_not_refused_is_no_refusal_without_values() -> None:
    kind = m.DescribeGroupsResponse

    def told(**values: object) -> str:
        def answer(request: m.DescribeGroupsRequest) -> m.DescribeGroupsResponse:
            return kind(groups=[kind.DescribedGroup(group_id=request.groups[0], **values)])

        return outcome("apis.DescribeGroups.bare", answer)

    assert told(group_state="Dead") == "not offered"
    assert told(error_code=15) == "passed"
    assert told(error_code=15, group_state="Dead").startswith("failed: group_state")
