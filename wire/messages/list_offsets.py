"""ListOffsets (2): find offsets of partitions by timestamp.

KIP-396 (v5), KIP-482 (v6), KIP-734 (v7), KIP-405 (v8), KIP-1005 (v9). Source: ListOffsetsRequest,
ListOffsetsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int8, Int16, Int32, Int64, String, field, group, message


@message(key=2, versions="0-9", flexible="6+")
class ListOffsetsRequest:
    @group
    class ListOffsetsTopic:
        name: String = ""
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = []

    @group
    class ListOffsetsPartition:
        partition_index: Int32 = 0
        current_leader_epoch: Int32 = field(-1, versions="4+", ignorable=True)
        timestamp: Int64 = 0
        max_num_offsets: Int32 = field(1, versions="0")

    replica_id: Int32 = 0
    isolation_level: Int8 = field(0, versions="2+")
    topics: list[ListOffsetsTopic] = []


@message(key=2, versions="0-9", flexible="6+")
class ListOffsetsResponse:
    @group
    class ListOffsetsTopicResponse:
        name: String = ""
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = []

    @group
    class ListOffsetsPartitionResponse:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        old_style_offsets: Sequence[Int64] = field((), versions="0")
        timestamp: Int64 = field(-1, versions="1+")
        offset: Int64 = field(-1, versions="1+")
        leader_epoch: Int32 = field(-1, versions="4+")

    throttle_time_ms: Int32 = field(0, versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = []
