"""BeginQuorumEpoch (53): a new leader of the metadata quorum makes itself known.

KIP-595, KIP-853 (v1). Source: BeginQuorumEpochRequest, BeginQuorumEpochResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int16, Int32, String, Uint16, Uuid, field, group, message


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[BeginQuorumEpochRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        voter_directory_id: Uuid = field(ZERO_UUID, versions="1+", ignorable=True)
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0

    @group
    class LeaderEndpoint:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    cluster_id: String | None = None
    voter_id: Int32 = field(-1, versions="1+", ignorable=True)
    topics: list[TopicData] = []
    leader_endpoints: list[LeaderEndpoint] = field([], versions="1+", ignorable=True)


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[BeginQuorumEpochResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0

    @group
    class NodeEndpoint:
        node_id: Int32 = 0
        host: String = ""
        port: Uint16 = 0

    error_code: Int16 = 0
    topics: list[TopicData] = []
    node_endpoints: list[NodeEndpoint] = field([], versions="1+", tag=0)
