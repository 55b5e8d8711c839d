"""FetchSnapshot (59): return bytes of a snapshot from any position.

KIP-630, KIP-853 (v1). Kafka: KafkaRaftClient.handleFetchSnapshotRequest (3.9). Top level:
INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition: UNKNOWN_TOPIC_OR_PARTITION, the leader checks
of Fetch, and BROKER_NOT_AVAILABLE as there, SNAPSHOT_NOT_FOUND (the observer drops the snapshot
and fetches again), POSITION_OUT_OF_RANGE.
"""

from __future__ import annotations

from emulator.raft.layout import BOOTSTRAP_SNAPSHOT_ID, TOPIC, SnapshotId
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import Replica
from wire import messages as m
from wire.errors import ErrorCode

_ENDPOINTS_FROM = 1


def fetch_snapshot(
    replica: Replica, request: m.FetchSnapshotRequest, version: int
) -> m.FetchSnapshotResponse:
    """Answer one request for up to ``fetch_bytes_max`` bytes of a snapshot."""
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
        _fill(replica, request.max_bytes, asked, answer)
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
    if not 0 <= asked.position < len(data):
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return
    size = min(bytes_max, replica.config.fetch_bytes_max)
    answer.snapshot_id = m.FetchSnapshotResponse.SnapshotId(
        end_offset=snapshot.end_offset, epoch=snapshot.epoch
    )
    answer.size = len(data)
    answer.position = asked.position
    answer.unaligned_records = data[asked.position : asked.position + max(0, size)]
