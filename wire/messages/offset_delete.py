"""OffsetDelete (47): forget a group's positions for partitions.

KIP-496. Source: OffsetDeleteRequest, OffsetDeleteResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, group, message


@message(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    @group
    class OffsetDeleteRequestTopic:
        name: String = ""
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = []

    @group
    class OffsetDeleteRequestPartition:
        partition_index: Int32 = 0

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = []


@message(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    @group
    class OffsetDeleteResponseTopic:
        name: String = ""
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = []

    @group
    class OffsetDeleteResponsePartition:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
