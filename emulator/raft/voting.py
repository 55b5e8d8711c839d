"""Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54): checks, and the answers.

KIP-595, KIP-853 (v1). Kafka: KafkaRaftClient.handleVoteRequest and its two neighbours (3.9). Top
level: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition: INVALID_REQUEST, FENCED_LEADER_EPOCH,
INVALID_VOTER_KEY.

Nobody outside the static voters can be candidate or leader, in any epoch: such a request changes
nothing, and the answer names the leader. (Kafka would take over a higher epoch, because the
candidate may be a voter that it does not know yet.) The same holds for a request that names the
receiver as leader of an epoch that it does not lead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from emulator.raft.asking import LogEnd
from emulator.raft.layout import TOPIC
from emulator.raft.member import Member
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import Replica
from wire import messages as m
from wire.errors import ErrorCode

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
