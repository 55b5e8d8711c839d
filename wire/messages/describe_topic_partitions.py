"""DescribeTopicPartitions (75): show topics page by page, with eligible leader replicas.

KIP-966. Source: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, Kafka 3.8-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Bool, Int16, Int32, String, Uuid, group, message


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    @group
    class TopicRequest:
        name: String = ""

    @group
    class Cursor:
        topic_name: String = ""
        partition_index: Int32 = 0

    topics: list[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    @group
    class DescribeTopicPartitionsResponseTopic:
        error_code: Int16 = 0
        name: String | None = ""
        topic_id: Uuid = ZERO_UUID
        is_internal: Bool = False
        partitions: list[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
        ] = []
        topic_authorized_operations: Int32 = -2_147_483_648

    @group
    class DescribeTopicPartitionsResponsePartition:
        error_code: Int16 = 0
        partition_index: Int32 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = -1
        replica_nodes: Sequence[Int32] = ()
        isr_nodes: Sequence[Int32] = ()
        eligible_leader_replicas: Sequence[Int32] | None = None
        last_known_elr: Sequence[Int32] | None = None
        offline_replicas: Sequence[Int32] = ()

    @group
    class Cursor:
        topic_name: String = ""
        partition_index: Int32 = 0

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
