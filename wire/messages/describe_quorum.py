"""DescribeQuorum (55): show the metadata quorum: leader, voters, observers and their lag.

KIP-595, KIP-836 (v1), KIP-853 (v2). Source: DescribeQuorumRequest, DescribeQuorumResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int16, Int32, Int64, String, Uint16, Uuid, field, group, message


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[DescribeQuorumRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0

    topics: list[TopicData] = []


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    @group
    class TopicData:
        topic_name: String = ""
        partitions: list[DescribeQuorumResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        error_message: String | None = field("", versions="2+", ignorable=True)
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0
        high_watermark: Int64 = 0
        current_voters: list[DescribeQuorumResponse.ReplicaState] = []
        observers: list[DescribeQuorumResponse.ReplicaState] = []

    @group
    class ReplicaState:
        replica_id: Int32 = 0
        replica_directory_id: Uuid = field(ZERO_UUID, versions="2+")
        log_end_offset: Int64 = 0
        last_fetch_timestamp: Int64 = field(-1, versions="1+", ignorable=True)
        last_caught_up_timestamp: Int64 = field(-1, versions="1+", ignorable=True)

    @group
    class Node:
        node_id: Int32 = 0
        listeners: list[DescribeQuorumResponse.Listener] = []

    @group
    class Listener:
        name: String = ""
        host: String = ""
        port: Uint16 = 0

    error_code: Int16 = 0
    error_message: String | None = field("", versions="2+", ignorable=True)
    topics: list[TopicData] = []
    nodes: list[Node] = field([], versions="2+")
