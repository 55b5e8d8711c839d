"""A broker that stores records: what is written and read, a group's life, a transaction's."""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

from bench.conformance.asking import created, eventually, metadata, shown
from bench.conformance.case import (
    Again,
    Ask,
    NotOffered,
    Program,
    Stage,
    Where,
    case,
    code,
    holds,
    only,
    same,
)
from wire import messages as m
from wire.batch import Batch, decode_batches, encode_batch

_ASKS: Final = (m.ProduceRequest, m.FetchRequest, m.ListOffsetsRequest)
INVALID_REQUEST: Final = 42
_LOADING: Final = {14, 15, 16}
_KIND: Final = "judge"
"""The type of a group whose metadata no broker reads."""
_MEMBER_ID_REQUIRED: Final = 79
_OLD_EPOCH: Final = 47
_FENCED: Final = 90
_NOT_YET: Final = {3, 6}
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
}
"""Of its topics: a broker may have other defaults, with which other answers are right."""


def batch(*values: bytes) -> bytes:
    """One batch of records without keys, as a producer without idempotence sends it."""
    now_ms = int(time.time() * 1_000)
    return encode_batch(
        Batch(
            base_offset=0,
            leader_epoch=-1,
            attributes=0,
            base_timestamp=now_ms,
            records=[(None, one) for one in values],
        )
    )


def production(name: str, data: bytes) -> Any:
    """A Produce request for partition 0 with acks=-1."""
    kind = m.ProduceRequest
    part = kind.PartitionProduceData(index=0, records=data)
    topic = kind.TopicProduceData(name=name, partition_data=[part])
    return kind(acks=-1, timeout_ms=20_000, topic_data=[topic])


def produced(name: str, data: bytes) -> Program:
    """Produce; returns the result of the partition.

    A broker shows a leader before its log is there: until then it says so, and clients ask again.
    """
    for number in itertools.count():
        answer = (yield Ask(production(name, data), lowest=3)).message
        result = only("partitions", only("topics", answer.responses).partition_responses)
        if result.error_code == INVALID_REQUEST:
            raise NotOffered("the broker stores no records")
        if result.error_code not in _NOT_YET or (yield Again(number)):
            return result
    raise AssertionError("it counts for ever")


def listed(name: str, timestamp: int) -> Program:
    """The offset that ListOffsets tells for partition 0."""
    kind = m.ListOffsetsRequest
    part = kind.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    asked = kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name=name, partitions=[part])])
    told = (yield Ask(asked, lowest=1)).message
    result = only("partitions", only("topics", told.topics).partitions)
    code(f"ListOffsets at {timestamp}", result.error_code, 0)
    return result.offset


def stored(stage: Stage) -> Program:
    """A topic that this broker leads: (name, id).

    Raises:
        NotOffered: there are other brokers, which may lead and coordinate.
    """
    if len(stage.facts.brokers) > 1:
        raise NotOffered("judged with one broker alone: others lead elsewhere")
    led = stage.facts.brokers[:1]
    name, topic_id = yield from created(stage, assignments=[led], configs=_CONFIGS)
    yield from shown(stage, name)
    return name, topic_id


@case(
    "what is produced is fetched again, byte by byte, at the offsets that were told",
    sources="KIP-98, KIP-516; ReplicaManager",
    where=Where.BROKER,
    asks=_ASKS,
    brokers=1,
)
def round_trip(stage: Stage) -> Program:
    name, topic_id = yield from stored(stage)
    values = [stage.rng.randbytes(20) for _ in range(5)]
    first = yield from produced(name, batch(*values[:3]))
    code("Produce", first.error_code, 0)
    told = (first.base_offset, first.log_append_time_ms, first.log_start_offset)
    same("base offset, time of the broker, start of the log", told, (0, -1, 0))
    second = yield from produced(name, batch(*values[3:]))
    same("the next base offset", second.base_offset, 3)
    same("ListOffsets of the end", (yield from listed(name, -1)), 5)
    same("ListOffsets of the start", (yield from listed(name, -2)), 0)
    fetch = m.FetchRequest
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch(
        max_wait_ms=5_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[wanted])],
    )
    got = (yield Ask(request, lowest=4)).message
    result = only("partitions", only("topics", got.responses).partitions)
    code("Fetch", result.error_code, 0)
    bounds = (result.log_start_offset, result.last_stable_offset, result.high_watermark)
    same("start of the log, last stable offset, high watermark", bounds, (0, 5, 5))
    records = [value for each in decode_batches(result.records or b"") for _, value in each.records]
    same("the values", records, values)


@case(
    "Produce of damaged records gets CORRUPT_MESSAGE",
    sources="DefaultRecordBatch.ensureValid",
    where=Where.BROKER,
    asks=_ASKS,
    brokers=1,
)
def damaged(stage: Stage) -> Program:
    name, _ = yield from stored(stage)
    data = bytearray(batch(b"value"))
    data[-3] ^= 0xFF
    result = yield from produced(name, bytes(data))
    code("Produce of a batch with a wrong checksum", result.error_code, 2, 87)
    holds("the base offset", result.base_offset == -1, "-1", result.base_offset)


@case(
    "DeleteRecords moves the start of the log; OffsetForLeaderEpoch tells where an epoch ends",
    sources="KIP-107, KIP-101; ReplicaManager.deleteRecords, lastOffsetForLeaderEpoch",
    where=Where.BROKER,
    asks=(*_ASKS, m.DeleteRecordsRequest, m.OffsetForLeaderEpochRequest),
    brokers=1,
)
def deleted(stage: Stage) -> Program:
    name, _ = yield from stored(stage)
    code("Produce", (yield from produced(name, batch(b"a", b"b", b"c"))).error_code, 0)
    kind = m.DeleteRecordsRequest
    for offset, expected in ((2, (0, 2)), (9, (1, -1)), (-1, (0, 3))):
        part = kind.DeleteRecordsPartition(partition_index=0, offset=offset)
        asked = kind(
            topics=[kind.DeleteRecordsTopic(name=name, partitions=[part])], timeout_ms=20_000
        )
        answer = (yield Ask(asked)).message
        result = only("partitions", only("topics", answer.topics).partitions)
        got = (result.error_code, result.low_watermark)
        same(f"DeleteRecords before {offset}: error, low watermark", got, expected)
        if expected[0] == 0:
            same("ListOffsets of the start", (yield from listed(name, -2)), expected[1])
    ask = m.OffsetForLeaderEpochRequest
    for epoch, expected in ((0, (0, 3)), (7, (-1, -1))):
        one = ask.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        wanted = ask(replica_id=-1, topics=[ask.OffsetForLeaderTopic(topic=name, partitions=[one])])
        answer = (yield Ask(wanted)).message
        result = only("partitions", only("topics", answer.topics).partitions)
        code("OffsetForLeaderEpoch", result.error_code, 0)
        got = (result.leader_epoch, result.end_offset)
        same(f"OffsetForLeaderEpoch {epoch}: epoch, end", got, expected)


def coordinated(key: str, key_type: int, refused: Any) -> Program:
    """Wait until this broker coordinates a group (0) or a transactional id (1).

    Args:
        key: its name.
        key_type: 0 or 1.
        refused: a request about it that changes nothing.

    Raises:
        NotOffered: that is INVALID_REQUEST.
    """
    if (yield Ask(refused)).message.error_code == INVALID_REQUEST:
        raise NotOffered("the broker has no groups and transactions")
    asked = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))

    def there(message: Any) -> bool:
        code("FindCoordinator", message.coordinators[0].error_code, 0, 15)
        return bool(message.coordinators[0].error_code == 0)

    answer = yield from eventually("FindCoordinator", asked, there, lowest=4)
    one = only("coordinators", answer.coordinators)
    broker = only("brokers", (yield Ask(metadata(), lowest=4)).message.brokers)
    told = (one.key, one.node_id, one.host, one.port)
    same("the coordinator", told, (key, broker.node_id, broker.host, broker.port))


def described(name: str) -> Program:
    """A group as DescribeGroups tells it."""
    answer = (yield Ask(m.DescribeGroupsRequest(groups=(name,)))).message
    one = only("groups", answer.groups)
    code("DescribeGroups", one.error_code, 0)
    return one


def joined(name: str) -> Program:
    """Join a new group as its only member; returns (member id, generation)."""
    kind = m.JoinGroupRequest
    protocol = kind.JoinGroupRequestProtocol(name="range", metadata=b"mine")
    asked = kind(
        group_id=name,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type=_KIND,
        protocols=[protocol],
    )
    first = yield from eventually(
        "JoinGroup", asked, lambda one: one.error_code not in _LOADING, lowest=5
    )
    code("JoinGroup without a member id", first.error_code, _MEMBER_ID_REQUIRED)
    holds("the member id", first.member_id, "one", first.member_id)
    asked.member_id = first.member_id
    answer = (yield Ask(asked, lowest=7)).message
    code("JoinGroup", answer.error_code, 0)
    told = (answer.member_id, answer.leader, answer.protocol_type, answer.protocol_name)
    same("member, leader, protocol", told, (*[first.member_id] * 2, _KIND, "range"))
    member = only("members", answer.members)
    same("the member", (member.member_id, member.metadata), (first.member_id, b"mine"))
    return first.member_id, answer.generation_id


def committed(name: str, topic: str, member: str, generation: int) -> Program:
    """Commit an offset as a member, and read it and one that is not there."""
    kind = m.OffsetCommitRequest
    part = kind.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=0, committed_metadata="note"
    )
    commit = kind(
        group_id=name,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[kind.OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )
    answer = (yield Ask(commit, lowest=6)).message
    code("OffsetCommit", only("partitions", answer.topics[0].partitions).error_code, 0)
    ask = m.OffsetFetchRequest
    wanted = ask.OffsetFetchRequestTopics(name=topic, partition_indexes=(0, 1))
    request = ask(groups=[ask.OffsetFetchRequestGroup(group_id=name, topics=[wanted])])
    group = only("groups", (yield Ask(request, lowest=8)).message.groups)
    code("OffsetFetch", group.error_code, 0)
    got = {
        one.partition_index: (
            one.error_code,
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata,
        )
        for one in only("topics", group.topics).partitions
    }
    same("OffsetFetch", got, {0: (0, 5, 0, "note"), 1: (0, -1, -1, "")})


@case(
    "a group is joined, synced, committed to, described, left and deleted",
    sources="KIP-394, KIP-429; GroupCoordinator",
    where=Where.BROKER,
    asks=(m.FindCoordinatorRequest, m.JoinGroupRequest, m.OffsetCommitRequest),
    brokers=1,
    disruptive=True,
)
def group(stage: Stage) -> Program:
    topic, _ = yield from stored(stage)
    name = stage.name()
    nobody = m.HeartbeatRequest(group_id=name, generation_id=1, member_id="nobody")
    yield from coordinated(name, 0, nobody)
    member, generation = yield from joined(name)
    kind = m.SyncGroupRequest
    own = kind.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
    sync = kind(
        group_id=name,
        generation_id=generation,
        member_id=member,
        protocol_type=_KIND,
        protocol_name="range",
        assignments=[own],
    )
    answer = (yield Ask(sync, lowest=5)).message
    code("SyncGroup", answer.error_code, 0)
    told = (answer.protocol_type, answer.protocol_name, answer.assignment)
    same("protocol and assignment", told, (_KIND, "range", b"all"))
    for who, when, expected in ((member, 0, 0), (member, 1, 22), ("nobody", 0, 25)):
        beat = m.HeartbeatRequest(group_id=name, generation_id=generation + when, member_id=who)
        code(
            f"Heartbeat of {who}, generation +{when}",
            (yield Ask(beat)).message.error_code,
            expected,
        )
    yield from committed(name, topic, member, generation)
    one = yield from described(name)
    told = (one.group_state, one.protocol_type, one.protocol_data)
    same("state and protocol", told, ("Stable", _KIND, "range"))
    mine = only("members", one.members)
    told = (mine.member_id, mine.member_metadata, mine.member_assignment)
    same("its member", told, (member, b"mine", b"all"))
    listing = (yield Ask(m.ListGroupsRequest(), lowest=4)).message
    states = [one.group_state for one in listing.groups if one.group_id == name]
    same("ListGroups: its state", states, ["Stable"])
    leaving = m.LeaveGroupRequest
    left = leaving(group_id=name, members=[leaving.MemberIdentity(member_id=member)])
    code("LeaveGroup", (yield Ask(left, lowest=3)).message.members[0].error_code, 0)
    same("the state without members", (yield from described(name)).group_state, "Empty")
    for expected in (0, 69):
        gone = (yield Ask(m.DeleteGroupsRequest(groups_names=(name,)))).message
        code("DeleteGroups", only("results", gone.results).error_code, expected)


@case(
    "a transaction is begun, described and aborted, and the next producer fences the first",
    sources="KIP-98, KIP-360, KIP-664; TransactionCoordinator",
    where=Where.BROKER,
    asks=(m.FindCoordinatorRequest, m.InitProducerIdRequest, m.DescribeTransactionsRequest),
    brokers=1,
    disruptive=True,
)
def transaction(stage: Stage) -> Program:
    topic, _ = yield from stored(stage)
    name = stage.name()
    nothing = m.EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0)
    yield from coordinated(name, 1, nothing)
    begin = m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=50_000)
    first = yield from eventually("InitProducerId", begin, lambda one: one.error_code == 0)
    id_, epoch = first.producer_id, first.producer_epoch
    kind = m.AddPartitionsToTxnRequest
    added = kind(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=id_,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=(0,))],
    )

    def state(wanted: str, *partitions: tuple[str, tuple[int, ...]]) -> Program:
        asked = m.DescribeTransactionsRequest(transactional_ids=(name,))

        def there(message: Any) -> bool:
            one = only("transactions", message.transaction_states)
            code("DescribeTransactions", one.error_code, 0)
            who = (one.transactional_id, one.producer_id, one.transaction_timeout_ms)
            same("id, producer, timeout", who, (name, id_, 50_000))
            told = tuple((each.topic, tuple(each.partitions)) for each in one.topics)
            return (one.transaction_state, told) == (wanted, partitions)

        yield from eventually(f"the transaction: {wanted}, {partitions}", asked, there)

    yield from state("Empty")
    answer = (yield Ask(added, 3)).message
    part = only(
        "partitions", only("topics", answer.results_by_topic_v3_and_below).results_by_partition
    )
    code("AddPartitionsToTxn", part.partition_error_code, 0)
    yield from state("Ongoing", (topic, (0,)))
    end = m.EndTxnRequest(transactional_id=name, producer_id=id_, producer_epoch=epoch)
    code("EndTxn", (yield Ask(end)).message.error_code, 0)
    yield from state("CompleteAbort")
    later = yield from eventually("InitProducerId", begin, lambda one: one.error_code == 0)
    same("the producer id", later.producer_id, id_)
    holds("the later epoch", later.producer_epoch > epoch, f"above {epoch}", later.producer_epoch)
    code("EndTxn of the first", (yield Ask(end)).message.error_code, _FENCED, _OLD_EPOCH)
