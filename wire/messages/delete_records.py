"""DeleteRecords (21): move the start of partitions forward.

KIP-107, KIP-482 (v2). Source: DeleteRecordsRequest, DeleteRecordsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, group, message


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    @group
    class DeleteRecordsTopic:
        name: String = ""
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = []

    @group
    class DeleteRecordsPartition:
        partition_index: Int32 = 0
        offset: Int64 = 0

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    @group
    class DeleteRecordsTopicResult:
        name: String = ""
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = []

    @group
    class DeleteRecordsPartitionResult:
        partition_index: Int32 = 0
        low_watermark: Int64 = 0
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
