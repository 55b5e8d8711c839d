"""Vote (52): a candidate of the metadata quorum asks for a vote.

KIP-595, KIP-853 (v1). Source: VoteRequest, VoteResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    field,
    group,
    message,
)


@message(key=52, versions="0-1", flexible="0+")
class VoteRequest:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[VoteRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        candidate_epoch: Int32 = 0
        candidate_id: Int32 = 0
        candidate_directory_id: Uuid = field(ZERO_UUID, versions="1+", ignorable=True)
        voter_directory_id: Uuid = field(ZERO_UUID, versions="1+", ignorable=True)
        last_offset_epoch: Int32 = 0
        last_offset: Int64 = 0

    cluster_id: String | None = None
    voter_id: Int32 = field(-1, versions="1+", ignorable=True)
    topics: list[TopicData] = []


@message(key=52, versions="0-1", flexible="0+")
class VoteResponse:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[VoteResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0
        vote_granted: Bool = False

    @group
    class NodeEndpoint:
        node_id: Int32 = 0
        host: String = ""
        port: Uint16 = 0

    error_code: Int16 = 0
    topics: list[TopicData] = []
    node_endpoints: list[NodeEndpoint] = field([], versions="1+", tag=0)
