"""DescribeProducers (61): show producers that are active on partitions.

KIP-664. Source: DescribeProducersRequest, DescribeProducersResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, Int64, String, group, message


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    @group
    class TopicRequest:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    topics: list[TopicRequest] = []


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    @group
    class TopicResponse:
        name: String = ""
        partitions: list[DescribeProducersResponse.PartitionResponse] = []

    @group
    class PartitionResponse:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        error_message: String | None = None
        active_producers: list[DescribeProducersResponse.ProducerState] = []

    @group
    class ProducerState:
        producer_id: Int64 = 0
        producer_epoch: Int32 = 0
        last_sequence: Int32 = -1
        last_timestamp: Int64 = -1
        coordinator_epoch: Int32 = 0
        current_txn_start_offset: Int64 = -1

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []
