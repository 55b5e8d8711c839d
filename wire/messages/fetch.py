"""Fetch (1): read batches from an offset: consumers, followers, and observers of the metadata log.

KIP-101/392/516 (v9, v11, v13), KIP-595 (v12), KIP-903 (v15), KIP-951 (v16), KIP-853 (v17). Source:
FetchRequest, FetchResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wire.codec import normalised
from wire.schema import (
    EMPTY,
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    field,
    group,
    message,
    replace,
)

_REPLICA_STATE_FROM: Final = 15


@message(key=1, versions="0-17", flexible="12+")
class FetchRequest:
    @group
    class ReplicaState:
        replica_id: Int32 = -1
        replica_epoch: Int64 = -1

    @group
    class FetchTopic:
        topic: String = field("", versions="0-12", ignorable=True)
        topic_id: Uuid = field(ZERO_UUID, versions="13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = []

    @group
    class FetchPartition:
        partition: Int32 = 0
        current_leader_epoch: Int32 = field(-1, versions="9+", ignorable=True)
        fetch_offset: Int64 = 0
        last_fetched_epoch: Int32 = field(-1, versions="12+")
        log_start_offset: Int64 = field(-1, versions="5+", ignorable=True)
        partition_max_bytes: Int32 = 0
        replica_directory_id: Uuid = field(ZERO_UUID, versions="17+", tag=0, ignorable=True)

    @group
    class ForgottenTopic:
        topic: String = field("", versions="7-12", ignorable=True)
        topic_id: Uuid = field(ZERO_UUID, versions="13+", ignorable=True)
        partitions: Sequence[Int32] = ()

    cluster_id: String | None = field(None, versions="12+", tag=0, ignorable=True)
    replica_id: Int32 = field(-1, versions="0-14")
    replica_state: ReplicaState = field(EMPTY, versions="15+", tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = field(0x7FFFFFFF, versions="3+", ignorable=True)
    isolation_level: Int8 = field(0, versions="4+", ignorable=True)
    session_id: Int32 = field(0, versions="7+", ignorable=True)
    session_epoch: Int32 = field(-1, versions="7+", ignorable=True)
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = field([], versions="7+")
    rack_id: String = field("", versions="11+", ignorable=True)


@message(key=1, versions="0-17", flexible="12+")
class FetchResponse:
    @group
    class FetchableTopicResponse:
        topic: String = field("", versions="0-12", ignorable=True)
        topic_id: Uuid = field(ZERO_UUID, versions="13+", ignorable=True)
        partitions: list[FetchResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        high_watermark: Int64 = 0
        last_stable_offset: Int64 = field(-1, versions="4+", ignorable=True)
        log_start_offset: Int64 = field(-1, versions="5+", ignorable=True)
        diverging_epoch: FetchResponse.EpochEndOffset = field(EMPTY, versions="12+", tag=0)
        current_leader: FetchResponse.LeaderIdAndEpoch = field(EMPTY, versions="12+", tag=1)
        snapshot_id: FetchResponse.SnapshotId = field(EMPTY, versions="12+", tag=2)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = field(
            [], versions="4+", ignorable=True
        )
        preferred_read_replica: Int32 = field(-1, versions="11+")
        records: Records | None = b""

    @group
    class EpochEndOffset:
        epoch: Int32 = -1
        end_offset: Int64 = -1

    @group
    class LeaderIdAndEpoch:
        leader_id: Int32 = -1
        leader_epoch: Int32 = -1

    @group
    class SnapshotId:
        end_offset: Int64 = -1
        epoch: Int32 = -1

    @group
    class AbortedTransaction:
        producer_id: Int64 = 0
        first_offset: Int64 = 0

    @group
    class NodeEndpoint:
        node_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = None

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = field(0, versions="7+", ignorable=True)
    session_id: Int32 = field(0, versions="7+")
    responses: list[FetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = field([], versions="16+", tag=0)


def _to_replica_state(request: FetchRequest, version: int) -> FetchRequest:
    """Handlers see ``replica_state`` alone, whatever the version."""
    if version < _REPLICA_STATE_FROM:
        request.replica_state = FetchRequest.ReplicaState(replica_id=request.replica_id)
        request.replica_id = -1
    return request


def _to_replica_id(request: FetchRequest, version: int) -> FetchRequest:
    if version >= _REPLICA_STATE_FROM:
        return request
    state = request.replica_state
    plain = request.replica_id if request.replica_id != -1 else state.replica_id
    return replace(request, replica_id=plain, replica_state=FetchRequest.ReplicaState())


normalised(FetchRequest, after_decode=_to_replica_state, before_encode=_to_replica_id)
