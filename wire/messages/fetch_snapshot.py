"""FetchSnapshot (59): read a piece of a snapshot of the metadata log.

KIP-630, KIP-853 (v1). Source: FetchSnapshotRequest, FetchSnapshotResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import (
    EMPTY,
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uint16,
    Uuid,
    field,
    group,
    message,
)


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    @group
    class TopicSnapshot:
        name: String = ""
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = []

    @group
    class PartitionSnapshot:
        partition: Int32 = 0
        current_leader_epoch: Int32 = 0
        snapshot_id: FetchSnapshotRequest.SnapshotId = EMPTY
        position: Int64 = 0
        replica_directory_id: Uuid = field(ZERO_UUID, versions="1+", tag=0, ignorable=True)

    @group
    class SnapshotId:
        end_offset: Int64 = 0
        epoch: Int32 = 0

    cluster_id: String | None = field(None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[TopicSnapshot] = []


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    @group
    class TopicSnapshot:
        name: String = ""
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = []

    @group
    class PartitionSnapshot:
        index: Int32 = 0
        error_code: Int16 = 0
        snapshot_id: FetchSnapshotResponse.SnapshotId = EMPTY
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = field(EMPTY, tag=0)
        size: Int64 = 0
        position: Int64 = 0
        unaligned_records: Records = b""

    @group
    class SnapshotId:
        end_offset: Int64 = 0
        epoch: Int32 = 0

    @group
    class LeaderIdAndEpoch:
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0

    @group
    class NodeEndpoint:
        node_id: Int32 = 0
        host: String = ""
        port: Uint16 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[TopicSnapshot] = []
    node_endpoints: list[NodeEndpoint] = field([], versions="1+", tag=0)
