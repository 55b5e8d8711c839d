"""The requests of other nodes to this one, and their answers, in order.

Which there are, who may send them, and how one is refused: :mod:`emulator.net.raft_requests`. What
a request changes in this voter is written before its answer is sent: the machine sees to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from emulator.raft.asking import LogEnd
from emulator.raft.fetch import Fetches
from emulator.raft.layout import BOOTSTRAP_SNAPSHOT_ID, TOPIC, SnapshotId
from emulator.raft.member import Member
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import Observer, Replica
from emulator.seam import Reply, Ticket
from wire import messages as m
from wire.errors import ErrorCode

# FetchSnapshot (59): return bytes of a snapshot from any position.
#
# KIP-630, KIP-853 (v1). Kafka: KafkaRaftClient.handleFetchSnapshotRequest (3.9). Top level:
# INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition: UNKNOWN_TOPIC_OR_PARTITION, the leader checks
# of Fetch, and BROKER_NOT_AVAILABLE as there, SNAPSHOT_NOT_FOUND (the observer drops the snapshot
# and fetches again), POSITION_OUT_OF_RANGE.

_ENDPOINTS_FROM = 1


def fetch_snapshot(
    replica: Replica, request: m.FetchSnapshotRequest, version: int
) -> m.FetchSnapshotResponse:
    """Answer one request for up to ``bytes_max`` bytes of a snapshot."""
    if replica.wrong_cluster(request.cluster_id):
        return m.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return m.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    topic = request.topics[0]
    asked = topic.partitions[0]
    withheld = replica.withholds(request.replica_id)
    leader_id = NONE if withheld else replica.quorum.leader_id
    epoch = asked.current_leader_epoch if withheld else replica.quorum.epoch
    answer = m.FetchSnapshotResponse.PartitionSnapshot(
        index=asked.partition,
        current_leader=m.FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=epoch
        ),
    )
    if topic.name != TOPIC or asked.partition != 0:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif withheld:
        answer.error_code = ErrorCode.BROKER_NOT_AVAILABLE
    else:
        _fill(replica, min(request.max_bytes, replica.bytes_max(request.replica_id)), asked, answer)
    response = m.FetchSnapshotResponse(
        topics=[m.FetchSnapshotResponse.TopicSnapshot(name=topic.name, partitions=[answer])]
    )
    endpoint = replica.endpoint
    if version >= _ENDPOINTS_FROM and endpoint is not None and not withheld:
        node_id, host, port = endpoint
        response.node_endpoints = [
            m.FetchSnapshotResponse.NodeEndpoint(node_id=node_id, host=host, port=port)
        ]
    return response


def is_served(response: m.FetchSnapshotResponse) -> bool:
    """Whether an answer holds a piece of a snapshot."""
    return any(
        each.error_code == ErrorCode.NONE for one in response.topics for each in one.partitions
    )


def _fill(
    replica: Replica,
    bytes_max: int,
    asked: m.FetchSnapshotRequest.PartitionSnapshot,
    answer: m.FetchSnapshotResponse.PartitionSnapshot,
) -> None:
    answer.error_code = replica.validate(asked.current_leader_epoch)
    if answer.error_code != ErrorCode.NONE:
        return
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    data = replica.snapshots.data(snapshot)
    if data is None or snapshot == BOOTSTRAP_SNAPSHOT_ID:
        answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return
    if not 0 <= asked.position < data.size:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return
    answer.snapshot_id = m.FetchSnapshotResponse.SnapshotId(
        end_offset=snapshot.end_offset, epoch=snapshot.epoch
    )
    answer.size = data.size
    answer.position = asked.position
    answer.unaligned_records = data.read(asked.position, max(0, bytes_max))


# Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54): checks, and the answers.
#
# KIP-595, KIP-853 (v1). Kafka: KafkaRaftClient.handleVoteRequest and its two neighbours (3.9). Top
# level: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition: INVALID_REQUEST, FENCED_LEADER_EPOCH,
# INVALID_VOTER_KEY.
#
# Nobody outside the static voters can be candidate or leader, in any epoch: such a request changes
# nothing, and the answer names the leader. (Kafka would take over a higher epoch, because the
# candidate may be a voter that it does not know yet.) The same holds for a request that names the
# receiver as leader of an epoch that it does not lead.

_KEYS_FROM = 1
"""Version from which requests name the voter they mean, and answers carry endpoints."""

_ZERO = bytes(16)
EndpointT = TypeVar("EndpointT")

Request: TypeAlias = m.VoteRequest | m.BeginQuorumEpochRequest | m.EndQuorumEpochRequest


def vote(member: Member, request: m.VoteRequest, version: int, now_ms: int) -> m.VoteResponse:
    """Grant a vote, or refuse it; the answer names the leader if there is one."""
    replica, granted = member.replica, False
    response = m.VoteResponse(error_code=_top_level(replica, request))
    if response.error_code != ErrorCode.NONE:
        return response
    asked = request.topics[0].partitions[0]
    error = _epoch_error(replica, asked.candidate_epoch, asked.candidate_id)
    offset_known = min(asked.last_offset, asked.last_offset_epoch) >= 0
    if not offset_known or asked.last_offset_epoch >= asked.candidate_epoch:
        error = ErrorCode.INVALID_REQUEST
    elif error is ErrorCode.NONE and not _meant(
        replica, request.voter_id, asked.voter_directory_id
    ):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        end = LogEnd(asked.last_offset_epoch, asked.last_offset)
        granted = member.election.vote_asked(asked.candidate_id, asked.candidate_epoch, end, now_ms)
    partition = m.VoteResponse.PartitionData(
        error_code=error,
        leader_id=replica.quorum.leader_id,
        leader_epoch=replica.quorum.epoch,
        vote_granted=granted,
    )
    response.topics = [m.VoteResponse.TopicData(topic_name=TOPIC, partitions=[partition])]
    response.node_endpoints = _endpoints(replica, version, m.VoteResponse.NodeEndpoint)
    return response


def begin_quorum_epoch(
    member: Member, request: m.BeginQuorumEpochRequest, version: int, now_ms: int
) -> m.BeginQuorumEpochResponse:
    """Answer a node that claims to lead."""
    replica = member.replica
    response = m.BeginQuorumEpochResponse(error_code=_top_level(replica, request))
    if response.error_code != ErrorCode.NONE:
        return response
    asked = request.topics[0].partitions[0]
    error = _epoch_error(replica, asked.leader_epoch, asked.leader_id)
    if error is ErrorCode.NONE and not _may_lead(replica, asked.leader_id, asked.leader_epoch):
        error = ErrorCode.INVALID_REQUEST
    elif error is ErrorCode.NONE and not _meant(
        replica, request.voter_id, asked.voter_directory_id
    ):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        member.election.epoch_named(asked.leader_epoch, asked.leader_id, now_ms)
    partition = m.BeginQuorumEpochResponse.PartitionData(
        error_code=error, leader_id=replica.quorum.leader_id, leader_epoch=replica.quorum.epoch
    )
    response.topics = [
        m.BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[partition])
    ]
    response.node_endpoints = _endpoints(replica, version, m.BeginQuorumEpochResponse.NodeEndpoint)
    return response


def end_quorum_epoch(
    member: Member, request: m.EndQuorumEpochRequest, version: int, now_ms: int
) -> m.EndQuorumEpochResponse:
    """Answer a node that claims to have led and resigns."""
    replica = member.replica
    response = m.EndQuorumEpochResponse(error_code=_top_level(replica, request))
    if response.error_code != ErrorCode.NONE:
        return response
    asked = request.topics[0].partitions[0]
    error = _epoch_error(replica, asked.leader_epoch, asked.leader_id)
    known = _may_lead(replica, asked.leader_id, asked.leader_epoch)
    if error is ErrorCode.NONE and asked.leader_epoch > replica.quorum.epoch and not known:
        error = ErrorCode.INVALID_REQUEST
    if error is ErrorCode.NONE and known and asked.leader_id != replica.config.node_id:
        successors = [each.candidate_id for each in asked.preferred_candidates]
        successors = successors or list(asked.preferred_successors)
        member.election.ended(asked.leader_id, asked.leader_epoch, successors, now_ms)
    partition = m.EndQuorumEpochResponse.PartitionData(
        error_code=error, leader_id=replica.quorum.leader_id, leader_epoch=replica.quorum.epoch
    )
    response.topics = [m.EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[partition])]
    response.node_endpoints = _endpoints(replica, version, m.EndQuorumEpochResponse.NodeEndpoint)
    return response


def _top_level(replica: Replica, request: Request) -> ErrorCode:
    if replica.wrong_cluster(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    topics = request.topics
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    if topics[0].partitions[0].partition_index != 0:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _epoch_error(replica: Replica, epoch: int, replica_id: int) -> ErrorCode:
    if epoch < replica.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if replica_id < 0 else ErrorCode.NONE


def _may_lead(replica: Replica, leader_id: int, epoch: int) -> bool:
    """Whether a voter may lead an epoch that is not below ours.

    This node itself leads only where it knows so: the other voters name in their answers that
    it led an epoch which its disk has lost, never in requests.
    """
    known = replica.quorum.leader_id if epoch == replica.quorum.epoch else NONE
    if leader_id == replica.config.node_id:
        return known == leader_id
    return leader_id in replica.config.voters and known in {NONE, leader_id}


def _meant(replica: Replica, voter_id: int, directory_id: bytes) -> bool:
    """Whether a voter key is ours; id -1 and directory zeros stand for "not given"."""
    ours = directory_id in (_ZERO, replica.config.directory_id)
    return voter_id == -1 or (voter_id == replica.config.node_id and ours)


def _endpoints(replica: Replica, version: int, kind: Callable[..., EndpointT]) -> list[EndpointT]:
    """Where the leader is, if it is known and the version has it."""
    endpoint = replica.endpoint
    if version < _KEYS_FROM or endpoint is None:
        return []
    node_id, host, port = endpoint
    return [kind(node_id=node_id, host=host, port=port)]


# DescribeQuorum (55): leader, voters and observers, and the log end of each.
#
# KIP-595, KIP-836 (v1: timestamps), KIP-853 (v2: directories, nodes, messages). Kafka:
# KafkaRaftClient.handleDescribeQuorumRequest (3.9). Needs DESCRIBE on CLUSTER. Partition:
# UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (an Envelope turns it into NOT_CONTROLLER).

_DIRECTORIES_FROM = 2


def describe_quorum(
    member: Member, request: m.DescribeQuorumRequest, version: int, now_ms: int
) -> m.DescribeQuorumResponse:
    """Describe the metadata partition; any other one is unknown."""
    replica = member.replica
    known = (
        len(request.topics) == 1
        and request.topics[0].topic_name == TOPIC
        and [p.partition_index for p in request.topics[0].partitions] == [0]
    )
    if not known:
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not replica.quorum.is_leader:
        return _refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    own = m.DescribeQuorumResponse.ReplicaState(
        replica_id=replica.config.node_id,
        log_end_offset=replica.log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    others = [
        m.DescribeQuorumResponse.ReplicaState(
            replica_id=voter_id,
            log_end_offset=voter.end_offset,
            last_fetch_timestamp=voter.last_fetch_ms,
            last_caught_up_timestamp=voter.last_caught_up_ms,
        )
        for voter_id, voter in member.election.progress.voters.items()
    ]
    partition = m.DescribeQuorumResponse.PartitionData(
        leader_id=replica.quorum.leader_id,
        leader_epoch=replica.quorum.epoch,
        high_watermark=replica.high_watermark,
        current_voters=sorted([own, *others], key=lambda voter: voter.replica_id),
        observers=[_row(each, version) for each in replica.observers.alive(now_ms)],
    )
    response = m.DescribeQuorumResponse(
        topics=[m.DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[partition])]
    )
    if version >= _DIRECTORIES_FROM:
        response.nodes = [
            m.DescribeQuorumResponse.Node(
                node_id=node_id,
                listeners=[
                    m.DescribeQuorumResponse.Listener(
                        name=replica.config.listener_name, host=host, port=port
                    )
                ],
            )
            for node_id, (host, port) in sorted(replica.config.voters.items())
        ]
    return response


def _row(observer: Observer, version: int) -> m.DescribeQuorumResponse.ReplicaState:
    return m.DescribeQuorumResponse.ReplicaState(
        replica_id=observer.replica_id,
        replica_directory_id=observer.directory_id if version >= _DIRECTORIES_FROM else bytes(16),
        log_end_offset=observer.log_end_offset,
        last_fetch_timestamp=observer.last_fetch_ms,
        last_caught_up_timestamp=observer.last_caught_up_ms,
    )


def _refused(request: m.DescribeQuorumRequest, error: ErrorCode) -> m.DescribeQuorumResponse:
    """The requested partitions, each with the same error."""
    topic, part = m.DescribeQuorumResponse.TopicData, m.DescribeQuorumResponse.PartitionData
    refused = m.DescribeQuorumResponse()
    for one in request.topics:
        parts = [part(partition_index=p.partition_index, error_code=error) for p in one.partitions]
        refused.topics.append(topic(topic_name=one.topic_name, partitions=parts))
    return refused


_ONLY_ASK: Final = (m.DescribeQuorumRequest, m.FetchSnapshotRequest)
"""Requests that change nothing here."""


class Answering:
    """See the module's docstring.

    Args:
        member: the voter that is asked.
    """

    def __init__(self, member: Member) -> None:
        self.moved = False
        """Whether more is durable or committed than the Fetches that wait were woken for."""
        self._member = member
        self._fetches = Fetches(member.replica, self._voter_fetched)
        self.waiting = self._fetches.waiting
        self.ready: list[Reply] = []
        """Answers to :meth:`take`."""

    def take(self) -> list[Reply]:
        """Answers that became ready since the last call."""
        taken = [*self.ready]
        self.ready.clear()
        return taken

    def handle(self, request: object, version: int, now_ms: int, ticket: Ticket) -> bool:
        """Answer one request, now or later; True if it may have changed something here.

        A Fetch is answered at once, or when there is something new for it, or in 500 ms.
        """
        member = self._member
        response: object
        match request:
            case m.FetchRequest():
                reply = self._fetches.handle(ticket, request, version, now_ms)
                self.ready += [] if reply is None else [reply]
                return self.moved
            case m.FetchSnapshotRequest():
                response = piece = fetch_snapshot(member.replica, request, version)
                if is_served(piece):
                    member.election.progress.note_contact(request.replica_id, now_ms)
            case m.DescribeQuorumRequest():
                response = describe_quorum(member, request, version, now_ms)
            case m.VoteRequest():
                response = vote(member, request, version, now_ms)
            case m.BeginQuorumEpochRequest():
                response = begin_quorum_epoch(member, request, version, now_ms)
            case m.EndQuorumEpochRequest():
                response = end_quorum_epoch(member, request, version, now_ms)
            case _:
                raise AssertionError(f"no request to a voter: {request!r}")
        self.ready.append(Reply(ticket, response))
        return not isinstance(request, _ONLY_ASK)

    def wake(self, now_ms: int) -> None:
        """Wake all Fetches that wait: the leader, or what observers may read, has changed."""
        self.moved = False
        self.ready += self._fetches.wake(now_ms)

    def appended(self, now_ms: int) -> None:
        """Wake the voters for whom there is something new in the log, durable or not."""
        self.ready += self._fetches.appended(now_ms)

    def news(self, now_ms: int) -> None:
        """Wake those for whom there is something new; to be called if ``moved``."""
        self.moved = False
        self.ready += self._fetches.news(now_ms)

    def tick(self, now_ms: int) -> None:
        """Answer fetches whose time is up."""
        self.ready += self._fetches.tick(now_ms)

    def _voter_fetched(self, voter_id: int, offset: int, follows: bool, now_ms: int) -> bool:
        moved = self._member.voter_fetched(voter_id, offset, now_ms, follows=follows)
        self.moved = self.moved or moved
        return moved
