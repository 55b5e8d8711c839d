"""OffsetCommit (8): store the positions of a consumer group.

KIP-320 (v6), KIP-345 (v7), KIP-482 (v8), KIP-848 (v9). Source: OffsetCommitRequest,
OffsetCommitResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, field, group, message


@message(key=8, versions="0-9", flexible="8+")
class OffsetCommitRequest:
    @group
    class OffsetCommitRequestTopic:
        name: String = ""
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = []

    @group
    class OffsetCommitRequestPartition:
        partition_index: Int32 = 0
        committed_offset: Int64 = 0
        committed_leader_epoch: Int32 = field(-1, versions="6+", ignorable=True)
        commit_timestamp: Int64 = field(-1, versions="1")
        committed_metadata: String | None = ""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = field(-1, versions="1+", ignorable=True)
    member_id: String = field("", versions="1+", ignorable=True)
    group_instance_id: String | None = field(None, versions="7+")
    retention_time_ms: Int64 = field(-1, versions="2-4", ignorable=True)
    topics: list[OffsetCommitRequestTopic] = []


@message(key=8, versions="0-9", flexible="8+")
class OffsetCommitResponse:
    @group
    class OffsetCommitResponseTopic:
        name: String = ""
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = []

    @group
    class OffsetCommitResponsePartition:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    throttle_time_ms: Int32 = field(0, versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = []
