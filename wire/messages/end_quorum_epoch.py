"""EndQuorumEpoch (54): a leader of the metadata quorum resigns and names successors.

KIP-595, KIP-853 (v1). Source: EndQuorumEpochRequest, EndQuorumEpochResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Int16, Int32, String, Uint16, Uuid, field, group, message


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[EndQuorumEpochRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0
        preferred_successors: Sequence[Int32] = field((), versions="0", ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = field(
            [], versions="1+", ignorable=True
        )

    @group
    class ReplicaInfo:
        candidate_id: Int32 = 0
        candidate_directory_id: Uuid = ZERO_UUID

    @group
    class LeaderEndpoint:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    cluster_id: String | None = None
    topics: list[TopicData] = []
    leader_endpoints: list[LeaderEndpoint] = field([], versions="1+", ignorable=True)


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[EndQuorumEpochResponse.PartitionData] = []

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
