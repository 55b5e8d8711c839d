"""No request and no answer of a peer ends a voter, whatever numbers are in it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from emulator.raft.asking import Ask
from emulator.raft.layout import TOPIC, TOPIC_ID, SnapshotId
from emulator.raft.log import read_back
from emulator.raft.snapshots import render
from tests.unit.raft.test_following import NOW, Follower, batch, lead
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import topic
from wire import messages as m
from wire.frame import RequestHeader, encode_request, encode_response

INT32 = st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 4, 5, 2**30, 2**31 - 1]) | st.integers(
    -(2**31), 2**31 - 1
)
INT64 = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 5, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
RECORDS = st.sampled_from([b"", b"\0" * 61, batch(0, 1, "ab"), batch(2, 3), batch(0, 9)])
RECORDS |= st.binary(max_size=80)


def vote(epoch: int, node: int, last: int, offset: int) -> tuple[str, Any]:
    kind = m.VoteRequest
    one = kind.PartitionData(
        candidate_epoch=epoch, candidate_id=node, last_offset_epoch=last, last_offset=offset
    )
    return "vote", kind(voter_id=-1, topics=[kind.TopicData(topic_name=TOPIC, partitions=[one])])


def begin(epoch: int, node: int) -> tuple[str, Any]:
    kind = m.BeginQuorumEpochRequest
    one = kind.PartitionData(leader_id=node, leader_epoch=epoch)
    return "begin_quorum_epoch", kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[one])])


def end(epoch: int, node: int, successors: list[int]) -> tuple[str, Any]:
    kind = m.EndQuorumEpochRequest
    infos = [kind.ReplicaInfo(candidate_id=each) for each in successors]
    one = kind.PartitionData(leader_id=node, leader_epoch=epoch, preferred_candidates=infos)
    return "end_quorum_epoch", kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[one])])


def fetch(epoch: int, node: int, last: int, offset: int) -> tuple[str, Any]:
    kind = m.FetchRequest
    one = kind.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
    )
    return "fetch", kind(
        replica_state=kind.ReplicaState(replica_id=node),
        max_wait_ms=offset % 1000,
        max_bytes=last,
        topics=[kind.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[one])],
    )


def fetch_snapshot(epoch: int, node: int, end_offset: int, of: int, at: int) -> tuple[str, Any]:
    kind = m.FetchSnapshotRequest
    one = kind.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=kind.SnapshotId(end_offset=end_offset, epoch=of),
        position=at,
    )
    topics = [kind.TopicSnapshot(name=TOPIC, partitions=[one])]
    return "fetch_snapshot", kind(replica_id=node, max_bytes=at % 2**31, topics=topics)


REQUESTS = st.one_of(
    st.builds(vote, INT32, INT32, INT32, INT64),
    st.builds(begin, INT32, INT32),
    st.builds(end, INT32, INT32, st.lists(INT32, max_size=40)),
    st.builds(fetch, INT32, INT32, INT32, INT64),
    st.builds(fetch_snapshot, INT32, INT32, INT64, INT32, INT64),
)
KEYS = {
    m.FetchResponse: (1, 17),
    m.VoteResponse: (52, 1),
    m.BeginQuorumEpochResponse: (53, 1),
    m.EndQuorumEpochResponse: (54, 1),
    m.FetchSnapshotResponse: (59, 1),
}


@given(st.lists(REQUESTS, max_size=12), st.booleans())
def test_no_request_ends_a_voter(requests, leads):
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab"), high_watermark=2)
    one.sync()
    if leads:
        lead(one)
    for name, request in requests:
        ticket: Any = "t"
        one.raft.request(request, 1 if name != "fetch" else 17, one.now, ticket)
        one.disk.apply(one.raft.take_effects())
        for reply in one.raft.take_replies():
            key, version = KEYS[type(reply.message)]
            assert encode_response(key, version, 1, reply.message)
        go_on(one)
    assert one.raft.committed_end >= 2
    assert one.raft.leader_epoch < 2**31 - 10


@given(st.lists(st.tuples(st.integers(1, 3), REQUESTS, st.integers(0, 3_000)), max_size=12))
def test_after_any_requests_three_voters_elect_and_commit(asked):
    trio = Trio(3)
    trio.delay_ms = trio.sync_ms = 2
    trio.start()
    trio.run(3_000)
    for node_id, (_, request), pause_ms in asked:
        trio.arrive(trio.nodes[node_id], -1, Ask(node_id, 0, request))
        trio.run(pause_ms)
    trio.run(10_000)
    leader = trio.leader
    assert leader.raft.high_watermark > 0
    offset = trio.append(leader, topic("a"))
    trio.run(1_000)
    assert [node.raft and node.raft.high_watermark > offset for node in trio.up()] == [True] * 3


def go_on(one: Follower) -> None:
    """Let a second pass; everything that is asked can be sent."""
    until = one.now + 1_000
    for _ in range(200):
        deadline_ms = one.raft.deadline_ms
        while one.disk.tokens:
            one.sync()
        for ask in one.raft.take_asks():
            header = RequestHeader(api_key=key_of(ask.message), api_version=1, correlation_id=1)
            if header.api_key != 1:
                assert encode_request(header, ask.message)
            one.disk.apply(one.raft.unanswered(ask, one.now))
        if deadline_ms is None or deadline_ms > until:
            break
        one.now = max(one.now, deadline_ms)
        one.disk.apply(one.raft.tick(one.now))
    one.now = max(one.now, until)


def key_of(message: object) -> int:
    return {
        m.FetchRequest: 1,
        m.VoteRequest: 52,
        m.BeginQuorumEpochRequest: 53,
        m.EndQuorumEpochRequest: 54,
        m.FetchSnapshotRequest: 59,
    }[type(message)]


def fetched(fields: tuple[int, ...], records: bytes) -> m.FetchResponse:
    error, mark, leader, epoch, diverging, end_offset, snapshot, of = fields
    kind = m.FetchResponse
    one = kind.PartitionData(
        error_code=error,
        high_watermark=mark,
        current_leader=kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        diverging_epoch=kind.EpochEndOffset(epoch=diverging, end_offset=end_offset),
        snapshot_id=kind.SnapshotId(end_offset=snapshot, epoch=of),
        records=records,
    )
    return kind(responses=[kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[one])])


ERRORS = st.sampled_from([0, 0, 0, 0, 1, 3, 6, 8, 42, 74, 75, -1])
FETCHED = st.builds(
    fetched,
    st.tuples(
        ERRORS,
        INT64,
        st.sampled_from([2, 2, 2, -1, 3, 9]),
        st.sampled_from([3, 3, 3, 0, 4]),
        st.just(-1) | INT32,
        st.just(-1) | INT64,
        st.just(-1) | INT64,
        st.just(-1) | INT32,
    ),
    RECORDS,
)


def snapshot_of(end_offset: int, epoch: int) -> bytes:
    return render(SnapshotId(end_offset, epoch), [b"no record", b""], NOW, lambda _: None)


WHOLE = render(SnapshotId(9, 3), [], NOW, read_back)
OFFERED = st.builds(
    lambda end_offset, epoch, mark: fetched((0, mark, 2, 3, -1, -1, end_offset, epoch), b""),
    st.just(9) | INT64,
    st.just(3) | INT32,
    st.sampled_from([-1, 9, 2, 2**62]),
)
"""What has the voter load a snapshot, if there can be one of that name."""


def piece_of(
    fields: tuple[int, int], lies: tuple[int | None, int | None, int | None], data: bytes
) -> Any:
    error, leader_epoch = fields

    def answer(asked: Any) -> m.FetchSnapshotResponse:
        kind = m.FetchSnapshotResponse
        at, size, end_offset = lies
        name = asked.snapshot_id
        one = kind.PartitionSnapshot(
            error_code=error,
            snapshot_id=kind.SnapshotId(
                end_offset=name.end_offset if end_offset is None else end_offset, epoch=name.epoch
            ),
            current_leader=kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=leader_epoch),
            position=asked.position if at is None else at,
            size=len(data) if size is None else size,
            unaligned_records=data[max(0, asked.position) :],
        )
        return kind(topics=[kind.TopicSnapshot(name=TOPIC, partitions=[one])])

    return answer


PIECES = st.builds(
    piece_of,
    st.tuples(ERRORS, st.sampled_from([3, 3, 3, 0, 4])),
    st.tuples(st.none() | INT64, st.none() | INT64, st.none() | INT64),
    st.sampled_from([WHOLE, WHOLE[:-1], WHOLE[:61], snapshot_of(9, 2), b"", b"\0" * 200])
    | st.binary(max_size=80),
)


@given(st.lists(st.tuples(FETCHED | OFFERED, PIECES), max_size=10))
def test_no_answer_to_a_fetch_ends_a_voter_but_one_that_takes_back_what_was_committed(answers):
    one = Follower()
    for answer, piece in answers:
        asks = one.raft.take_asks()
        deadline_ms = one.raft.deadline_ms
        if not asks and deadline_ms is not None:
            one.now = max(one.now, deadline_ms)
            one.disk.apply(one.raft.tick(one.now))
            asks = one.raft.take_asks()
        for ask in asks:
            before, message = one.raft.committed_end, ask.message
            if isinstance(message, m.FetchRequest):
                one.disk.apply(one.raft.answered(ask, answer, one.now))
            elif isinstance(message, m.FetchSnapshotRequest):
                asked = message.topics[0].partitions[0]
                one.disk.apply(one.raft.answered(ask, piece(asked), one.now))
            else:
                one.disk.apply(one.raft.unanswered(ask, one.now))
            if one.disk.halt is not None:
                assert before > 0
                return
        while one.disk.tokens:
            one.sync()
        one.written()
    assert one.raft.log_end_offset >= one.raft.committed_end
    again = Follower(one.disk.files)
    assert again.raft.log_end_offset == one.raft.log_end_offset
    assert again.raft.leader_epoch == one.raft.leader_epoch < 2**31 - 10
