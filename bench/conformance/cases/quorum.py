"""The quorum, as an observer and as a stranger: DescribeQuorum, Fetch, FetchSnapshot, Vote."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import creation, eventually, new
from bench.conformance.case import (
    Ask,
    Level,
    NotOffered,
    Pause,
    Program,
    Stage,
    Violation,
    Where,
    case,
    code,
    holds,
    only,
    same,
)
from bench.conformance.echo import bare
from wire import messages as m
from wire.batch import decode_batches
from wire.errors import DecodeError

LOG: Final = "__cluster_metadata"
LOG_ID: Final = bytes(15) + b"\x01"
_OTHER: Final = "AAAAAAAAAAAAAAAAAAAAAg"
_CLIENT: Final = "KIP-595; KafkaRaftClient"
_PATIENCE: Final = 100
"""Fetches with records beyond the end that was told: a log may grow while it is read."""
_UNWRITTEN: Final = range(8, 31)
"""Levels of metadata.version that Kafka 3.4 to 4.3 support at most: see :func:`answered`."""


def description(topic: str = LOG, partition: int = 0) -> Any:
    """A DescribeQuorum request."""
    kind = m.DescribeQuorumRequest
    part = kind.PartitionData(partition_index=partition)
    return kind(topics=[kind.TopicData(topic_name=topic, partitions=[part])])


def described() -> Program:
    """The partition of a DescribeQuorum answer."""
    answer = (yield Ask(description())).message
    code("DescribeQuorum", answer.error_code, 0)
    topic = only("topics", answer.topics)
    partition = only("partitions", topic.partitions)
    same("the partition", (topic.topic_name, partition.partition_index), (LOG, 0))
    code("of the partition", partition.error_code, 0)
    return partition


@case(
    "DescribeQuorum names the leader among the voters, and each version agrees",
    sources="KIP-595, KIP-836, KIP-853",
    asks=(m.DescribeQuorumRequest,),
)
def describe(stage: Stage) -> Program:
    first = yield from described()
    voters = {one.replica_id for one in first.current_voters}
    holds("the leader", first.leader_id in voters, f"one of {sorted(voters)}", first.leader_id)
    same("voters: each once", len(voters), len(first.current_voters))
    watching = [one.replica_id for one in first.observers]
    same("observers: each once, and no voter", len({*watching} - voters), len(watching))
    holds("the leader epoch", first.leader_epoch >= 0, "0 or more", first.leader_epoch)
    ends = {one.replica_id: one.log_end_offset for one in first.current_voters}
    end = ends[first.leader_id]
    holds(
        "the high watermark", 0 <= first.high_watermark <= end, f"0 to {end}", first.high_watermark
    )
    for version in stage.versions(m.DescribeQuorumRequest):
        answer = (yield Ask(description(), version)).message
        other = only("partitions", only("topics", answer.topics).partitions)
        same(f"voters of v{version}", {one.replica_id for one in other.current_voters}, voters)
        if other.leader_epoch == first.leader_epoch:
            same(f"the leader of v{version}", other.leader_id, first.leader_id)
        holds(
            f"the high watermark of v{version}",
            other.high_watermark >= first.high_watermark,
            f"{first.high_watermark} or more",
            other.high_watermark,
        )
        if version >= 1:
            for one in other.current_voters:
                if one.replica_id == other.leader_id:
                    holds(
                        f"the leader's times of v{version}",
                        one.last_caught_up_timestamp > 0,
                        "a time",
                        one,
                    )
        if version >= 2:
            nodes = {one.node_id: one for one in answer.nodes}
            holds("the voters' nodes", voters <= nodes.keys(), f"{sorted(voters)}", sorted(nodes))
            same("nodes: each once", len(answer.nodes), len(nodes))
            for one in answer.nodes:
                holds("a node's listeners", one.listeners, "at least one", one)
    if stage.here is Where.BROKER and Where.CONTROLLER in stage.facts.ranges:
        yield from _as_the_controller()


def _as_the_controller() -> Program:
    """Demand that the controller tells what a broker does, and no lower offsets after it."""
    first = (yield Ask(description())).message
    told = only("partitions", only("topics", first.topics).partitions)
    leader = (told.leader_id, told.leader_epoch)

    def agree(message: Any) -> bool:
        part = only("partitions", only("topics", message.topics).partitions)
        return (part.leader_id, part.leader_epoch) == leader

    what = f"the controller tells leader and epoch {leader}, as the broker does"
    then = yield from eventually(what, description(), agree, at=Where.CONTROLLER)
    before, after = _offsets(told), _offsets(then.topics[0].partitions[0])
    lower = {key: after[key] for key in before.keys() & after.keys() if after[key] < before[key]}
    same(f"offsets that the controller tells, below {before}", lower, {})
    if first.nodes and then.nodes:
        nodes, others = (sorted(map(repr, each.nodes)) for each in (first, then))
        same("the nodes that the controller tells", others, nodes)


def _offsets(partition: Any) -> dict[str, int]:
    """The high watermark, and the end of each replica's log."""
    ends = [*partition.current_voters, *partition.observers]
    return {
        "the high watermark": partition.high_watermark,
        **{f"the end of {one.replica_id}": one.log_end_offset for one in ends},
    }


@case(
    "DescribeQuorum of another topic or partition gets UNKNOWN_TOPIC_OR_PARTITION",
    sources="DescribeQuorumRequest.getPartitionLevelErrorResponse",
    asks=(m.DescribeQuorumRequest,),
)
def describe_another(stage: Stage) -> Program:
    for topic, partition in ((stage.name(), 0), (LOG, 1)):
        answer = (yield Ask(description(topic, partition))).message
        result = only("partitions", only("topics", answer.topics).partitions)
        code(f"DescribeQuorum of {topic}-{partition}", result.error_code, 3)


@case(
    "DescribeQuorum lists the live brokers among voters and observers",
    level=Level.SHOULD,
    sources="KIP-595; LeaderState.describeQuorum",
    asks=(m.DescribeQuorumRequest,),
    brokers=1,
)
def observers(stage: Stage) -> Program:
    def listed(message: Any) -> bool:
        part = only("partitions", only("topics", message.topics).partitions)
        found = {one.replica_id for one in [*part.current_voters, *part.observers]}
        return found >= set(stage.facts.brokers)

    brokers = sorted(stage.facts.brokers)
    yield from eventually(f"voters and observers: with {brokers}", description(), listed)


@case(
    "the high watermark grows with a change",
    sources=_CLIENT,
    asks=(m.DescribeQuorumRequest, m.CreateTopicsRequest),
)
def grows(stage: Stage) -> Program:
    before = (yield from described()).high_watermark
    answer = yield Ask(creation(new(stage.name())))
    code("CreateTopics", only("results", answer.message.topics).error_code, 0)
    after = (yield from described()).high_watermark
    holds("the high watermark", after >= before + 2, f"{before + 2} or more", after)


# ------------------------------------------------------------------ Fetch, as an observer
def fetch(stage: Stage, version: int, **changes: Any) -> Any:
    """A Fetch request as an observer without id sends it."""
    kind = m.FetchRequest
    part: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": 0,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "partition_max_bytes": 0,
    }
    part |= {key: changes.pop(key) for key in [*changes] if key in part}
    values = {
        "cluster_id": stage.facts.cluster_id or None,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 8 << 20,
        "topics": [
            kind.FetchTopic(topic=LOG, topic_id=LOG_ID, partitions=[kind.FetchPartition(**part)])
        ],
        **changes,
    }
    del version
    return kind(**values)


def newest(stage: Stage) -> int:
    """The version in which the log is fetched.

    Raises:
        NotOffered: none with an observer's fields.
    """
    version = stage.versions(m.FetchRequest)[-1]
    if version < 12:
        raise NotOffered("Fetch v12 is not offered")
    return version


def fetched(stage: Stage, version: int, **changes: Any) -> Program:
    """Fetch; returns the result of the partition."""
    return _of_the_log((yield Ask(fetch(stage, version, **changes), version)).message, version)


def _of_the_log(answer: Any, version: int) -> Any:
    """The one partition of a Fetch answer."""
    code("Fetch", answer.error_code, 0)
    topic = only("topics", answer.responses)
    same(
        "the topic",
        topic.topic_id if version >= 13 else topic.topic,
        LOG_ID if version >= 13 else LOG,
    )
    partition = only("partitions", topic.partitions)
    same("the partition", partition.partition_index, 0)
    return partition


def epoch(stage: Stage, version: int) -> Program:
    """The leader's epoch, which each answer tells."""
    result = yield from fetched(stage, version)
    found = result.current_leader
    holds("the leader in the answer", found.leader_epoch >= 0, "an epoch", result)
    return found.leader_epoch


def _there(stage: Stage, now: int, told: Any) -> Program:
    """Demand that the snapshot that Fetch named can be fetched."""
    kind = m.FetchSnapshotRequest
    part = kind.PartitionSnapshot(
        partition=0,
        current_leader_epoch=now,
        snapshot_id=kind.SnapshotId(end_offset=told.end_offset, epoch=told.epoch),
    )
    topics = [kind.TopicSnapshot(name=LOG, partitions=[part])]
    asked = kind(cluster_id=stage.facts.cluster_id or None, max_bytes=1 << 20, topics=topics)
    answer = (yield Ask(asked)).message
    code("FetchSnapshot of the snapshot that Fetch named", answer.error_code, 0)
    found = only("partitions", only("topics", answer.topics).partitions)
    code("FetchSnapshot of the snapshot that Fetch named", found.error_code, 0)


@case(
    "Fetch of the metadata log gives whole batches from the offset on, up to its end",
    sources=f"{_CLIENT}.handleFetchRequest",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest, m.DescribeQuorumRequest),
)
def observe(stage: Stage) -> Program:
    version = newest(stage)
    now = yield from epoch(stage, version)
    ends = _offsets((yield from described()))
    offset, last, later = 0, 0, 0
    while later < _PATIENCE:
        result = yield from fetched(
            stage, version, current_leader_epoch=now, fetch_offset=offset, last_fetched_epoch=last
        )
        code("Fetch", result.error_code, 0)
        same("the diverging epoch of a log that agrees", result.diverging_epoch.epoch, -1)
        if result.snapshot_id.end_offset >= 0:
            yield from _there(stage, now, result.snapshot_id)
            raise NotOffered("the log is in a snapshot, or a part of it")
        # A follower takes an epoch alone for a snapshot too.
        same("the snapshot's epoch where there is none", result.snapshot_id.epoch, -1)
        start = result.log_start_offset
        holds("the start of the log", 0 <= start <= offset, f"0 to {offset}", start)
        if not result.records:
            break
        later += offset >= max(ends.values())
        try:
            batches = [*decode_batches(result.records)]
        except DecodeError as error:
            raise Violation(
                "the records of the log", "whole batches that can be read", error
            ) from error
        for one in batches:
            same("the offset of a batch", one.base_offset, offset)
            holds(
                "the epoch of a batch",
                last <= one.leader_epoch <= now,
                f"{last} to {now}",
                one.leader_epoch,
            )
            offset, last = one.last_offset + 1, one.leader_epoch
    else:
        then = max(_offsets((yield from described())).values())
        holds("the end of the log", then >= offset, f"{offset} or more, as was fetched", then)
        raise NotOffered("the log grows faster than it is read")
    holds("the end of the log", offset > 0, "above 0", offset)
    beyond = {key: one for key, one in ends.items() if one > offset}
    same(f"offsets of DescribeQuorum above {offset}, the end of the log", beyond, {})
    got = result.high_watermark
    holds("the high watermark", got <= offset, f"at most {offset}, the end of the log", got)


@case(
    "Fetch of the metadata log has no session, last stable offset and preferred replica",
    level=Level.HABIT,
    sources="FetchResponse.json, default values",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest,),
)
def observe_bare(stage: Stage) -> Program:
    version = newest(stage)
    answer = (yield Ask(fetch(stage, version), version)).message
    part = _of_the_log(answer, version)
    told = (answer.session_id, part.last_stable_offset, part.preferred_read_replica)
    same("session, last stable offset, preferred replica", told, (0, -1, -1))


@case(
    "Fetch: the epoch of the request is compared with the leader's",
    sources=f"{_CLIENT}.validateLeaderOnlyRequest",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest,),
)
def epochs(stage: Stage) -> Program:
    version = newest(stage)
    now = yield from epoch(stage, version)
    leader = None
    if stage.facts.offers(stage.here, m.DescribeQuorumRequest):
        leader = (yield from described()).leader_id
    for asked, expected in ((now, 0), (now + 1, 75), (now + 1_000, 75), (now - 1, 74)):
        if asked < 0:
            continue
        result = yield from fetched(stage, version, current_leader_epoch=asked)
        code(f"Fetch in epoch {asked} of {now}", result.error_code, expected)
        same("the leader epoch in the answer", result.current_leader.leader_epoch, now)
        if leader is not None:
            same("the leader in the answer", result.current_leader.leader_id, leader)
        if expected:
            same("records with an error", result.records, b"")


@case(
    "Fetch for another cluster, or of another topic, is refused as a whole",
    sources=f"{_CLIENT}.handleFetchRequest",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest,),
)
def other_cluster(stage: Stage) -> Program:
    version = newest(stage)
    answer = (yield Ask(fetch(stage, version, cluster_id=_OTHER), version)).message
    code("Fetch for another cluster", answer.error_code, 104)
    same("topics", answer.responses, [])
    kind = m.FetchRequest
    part = kind.FetchPartition(partition=0)
    topic = kind.FetchTopic(topic="other", topic_id=stage.rng.randbytes(16), partitions=[part])
    answer = (yield Ask(fetch(stage, version, topics=[topic]), version)).message
    code("Fetch of another topic", answer.error_code, 42)


@case(
    "Fetch: numbers that cannot be get INVALID_REQUEST",
    sources=f"{_CLIENT}.handleFetchRequest",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest,),
)
def invalid(stage: Stage) -> Program:
    version = newest(stage)
    now = yield from epoch(stage, version)
    for more in (
        {"fetch_offset": -1},
        {"last_fetched_epoch": -1},
        {"last_fetched_epoch": now + 1},
        {"max_wait_ms": -1},
    ):
        result = yield from fetched(stage, version, current_leader_epoch=now, **more)
        code(f"Fetch with {more}", result.error_code, 42)


@case(
    "Fetch beyond the end of the log tells where the logs part",
    sources="KIP-595; ReplicatedLog.validateOffsetAndEpoch",
    where=Where.CONTROLLER,
    asks=(m.FetchRequest,),
)
def diverging(stage: Stage) -> Program:
    version = newest(stage)
    now = yield from epoch(stage, version)
    result = yield from fetched(
        stage, version, current_leader_epoch=now, fetch_offset=1 << 50, last_fetched_epoch=now
    )
    code("Fetch beyond the end", result.error_code, 0)
    same("records", result.records, b"")
    parts = result.diverging_epoch
    holds(
        "the diverging epoch",
        0 <= parts.epoch <= now and 0 <= parts.end_offset < 1 << 50,
        "an epoch and its end",
        parts,
    )


def unknown(stage: Stage, now: int, name: str = LOG, cluster: str = "", **part: Any) -> Any:
    """A FetchSnapshot request for a snapshot that is not there."""
    kind = m.FetchSnapshotRequest
    values = {
        "partition": 0,
        "current_leader_epoch": now,
        "snapshot_id": kind.SnapshotId(end_offset=1 << 50, epoch=now),
        **part,
    }
    topic = kind.TopicSnapshot(name=name, partitions=[kind.PartitionSnapshot(**values)])
    return kind(cluster_id=cluster or stage.facts.cluster_id or None, topics=[topic])


def answered(what: str, stage: Stage, message: Any) -> Any:
    """The partition of a FetchSnapshot answer without records.

    Raises:
        NotOffered: Kafka 3.4 to 4.3 cannot write it: FetchSnapshotResponseData.addSize takes the
            size of records that are null. They say UNKNOWN_SERVER_ERROR of the whole.
    """
    level = stage.facts.features.get("metadata.version", (0, 0))[1]
    if level in _UNWRITTEN and message.error_code == -1 and not message.topics:
        raise NotOffered("Kafka 3.4 to 4.3 cannot write an answer without records")
    code(f"FetchSnapshot of {what}: as a whole", message.error_code, 0)
    return only("partitions", only("topics", message.topics).partitions)


@case(
    "FetchSnapshot: refusals of a cluster, a topic and a snapshot",
    sources=f"KIP-630; {_CLIENT[9:]}.handleFetchSnapshotRequest",
    where=Where.CONTROLLER,
    asks=(m.FetchSnapshotRequest, m.FetchRequest),
)
def snapshots(stage: Stage) -> Program:
    now = yield from epoch(stage, newest(stage))
    answer = (yield Ask(unknown(stage, now, cluster=_OTHER))).message
    code("FetchSnapshot for another cluster", answer.error_code, 104)
    for what, request, expected in _refusals(stage, now):
        result = answered(what, stage, (yield Ask(request)).message)
        code(f"FetchSnapshot of {what}", result.error_code, expected)


def _refusals(stage: Stage, now: int) -> list[tuple[str, Any, int]]:
    """(what, request, error code) of FetchSnapshot that is refused for its partition."""
    bootstrap = m.FetchSnapshotRequest.SnapshotId(end_offset=0, epoch=0)
    return [
        ("an unknown snapshot", unknown(stage, now), 98),
        ("the bootstrap snapshot", unknown(stage, now, snapshot_id=bootstrap), 98),
        ("another topic", unknown(stage, now, "other"), 3),
        ("a higher epoch", unknown(stage, now, current_leader_epoch=now + 1), 75),
    ]


@case(
    "FetchSnapshot: what is refused has no values but those of the request",
    level=Level.HABIT,
    sources="FetchSnapshotResponse.json, default values",
    where=Where.CONTROLLER,
    asks=(m.FetchSnapshotRequest, m.FetchRequest),
)
def snapshots_bare(stage: Stage) -> Program:
    now = yield from epoch(stage, newest(stage))
    for what, request, _ in _refusals(stage, now):
        answer = (yield Ask(request)).message
        answered(what, stage, answer)
        if not bare(request, answer):
            raise NotOffered(f"{what} is not refused")


@case(
    "Fetch, FetchSnapshot and DescribeCluster tell the same leader, epoch and address",
    sources=f"KIP-595, KIP-853; {_CLIENT[9:]}.addQuorumLeader; SharedServer.startForController",
    where=Where.CONTROLLER,
    asks=(m.FetchSnapshotRequest, m.FetchRequest),
)
def led(stage: Stage) -> Program:
    version = newest(stage)
    now = yield from epoch(stage, version)
    log = (yield Ask(fetch(stage, version, current_leader_epoch=now), version)).message
    one = only("partitions", only("topics", log.responses).partitions).current_leader
    nodes = [(node.node_id, node.host, node.port) for node in log.node_endpoints]
    ids = {id_ for id_, *_ in nodes}
    holds("the nodes", ids <= {one.leader_id}, f"{one.leader_id} alone", nodes)
    if nodes and (stage.facts.offers(stage.here, m.DescribeClusterRequest) or (0, 0))[1]:
        told = (yield Ask(m.DescribeClusterRequest(endpoint_type=2), lowest=1)).message
        listed = [(node.broker_id, node.host, node.port) for node in told.brokers]
        mine = [node for node in listed if node[0] == one.leader_id]
        same("the leader by DescribeCluster, if it is registered", mine or nodes, nodes)
    answer = yield Ask(unknown(stage, now))
    other = answered("an unknown snapshot", stage, answer.message).current_leader
    leaders = [(each.leader_id, each.leader_epoch) for each in (other, one)]
    same("leader and epoch by FetchSnapshot", *leaders)
    if version >= 17 and answer.version >= 1:
        found = [(node.node_id, node.host, node.port) for node in answer.message.node_endpoints]
        same("the nodes by FetchSnapshot", found, nodes)


# ------------------------------------------------------------------ what a stranger says
def raft(kind: Any, part: Any, cluster: str) -> Any:
    """A request of voters."""
    return kind(cluster_id=cluster, topics=[kind.TopicData(topic_name=LOG, partitions=[part])])


@case(
    "Vote, BeginQuorumEpoch, EndQuorumEpoch for another cluster get INCONSISTENT_CLUSTER_ID",
    sources=_CLIENT,
    where=Where.CONTROLLER,
    asks=(m.VoteRequest, m.BeginQuorumEpochRequest, m.EndQuorumEpochRequest),
    disruptive=True,
)
def strangers(stage: Stage) -> Program:
    before = yield from described()
    for kind, part in (
        (m.VoteRequest, m.VoteRequest.PartitionData(candidate_epoch=1 << 20, candidate_id=99)),
        (
            m.BeginQuorumEpochRequest,
            m.BeginQuorumEpochRequest.PartitionData(leader_epoch=1 << 20, leader_id=99),
        ),
        (
            m.EndQuorumEpochRequest,
            m.EndQuorumEpochRequest.PartitionData(leader_epoch=1 << 20, leader_id=99),
        ),
    ):
        answer = (yield Ask(raft(kind, part, _OTHER))).message
        code(f"{kind.__name__} for another cluster", answer.error_code, 104)
    yield from unmoved(before)


def unmoved(before: Any) -> Program:
    """Demand that the quorum is as it was."""
    after = yield from described()
    same(
        "leader and epoch",
        (after.leader_id, after.leader_epoch),
        (before.leader_id, before.leader_epoch),
    )
    yield Pause(0)


@case(
    "Vote, BeginQuorumEpoch, EndQuorumEpoch of an old epoch get FENCED_LEADER_EPOCH",
    sources=f"{_CLIENT}.validateVoterOnlyRequest",
    where=Where.CONTROLLER,
    asks=(m.VoteRequest, m.BeginQuorumEpochRequest, m.EndQuorumEpochRequest),
    disruptive=True,
)
def old_epochs(stage: Stage) -> Program:
    before = yield from described()
    if before.leader_epoch < 1 or not stage.facts.cluster_id:
        raise NotOffered("no epoch is below the present one")
    voter = before.leader_id
    old = before.leader_epoch - 1
    vote = m.VoteRequest.PartitionData(
        candidate_epoch=old, candidate_id=voter, last_offset_epoch=max(0, old - 1), last_offset=0
    )
    begin = m.BeginQuorumEpochRequest.PartitionData(leader_epoch=old, leader_id=voter)
    end = m.EndQuorumEpochRequest.PartitionData(leader_epoch=old, leader_id=voter)
    for kind, part in (
        (m.VoteRequest, vote),
        (m.BeginQuorumEpochRequest, begin),
        (m.EndQuorumEpochRequest, end),
    ):
        if kind is m.VoteRequest and old < 1:
            continue  # a candidate's last record is of an epoch before its own, and none is below 0
        answer = (yield Ask(raft(kind, part, stage.facts.cluster_id), 0)).message
        code(f"{kind.__name__}: as a whole", answer.error_code, 0)
        result = only("partitions", only("topics", answer.topics).partitions)
        code(f"{kind.__name__} in epoch {old} of {before.leader_epoch}", result.error_code, 74)
        told = (result.leader_id, result.leader_epoch)
        same("the leader in the answer", told, (before.leader_id, before.leader_epoch))
        if kind is m.VoteRequest:
            same("whether the vote is granted", result.vote_granted, False)
    yield from unmoved(before)
