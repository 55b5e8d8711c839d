"""DescribeQuorum (55): leader, voters and observers, and the log end of each.

KIP-595, KIP-836 (v1: timestamps), KIP-853 (v2: directories, nodes, messages). Kafka:
KafkaRaftClient.handleDescribeQuorumRequest (3.9). Needs DESCRIBE on CLUSTER. Partition:
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (an Envelope turns it into NOT_CONTROLLER).
"""

from __future__ import annotations

from emulator.raft.layout import TOPIC
from emulator.raft.member import Member
from emulator.raft.observers import Observer
from wire import messages as m
from wire.errors import ErrorCode

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
