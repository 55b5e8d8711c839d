"""TxnOffsetCommit (28): store a group's positions as part of a transaction.

KIP-98, KIP-320 (v2), KIP-447 (v3), KIP-890 (v4). Source: TxnOffsetCommitRequest,
TxnOffsetCommitResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, field, group, message


@message(key=28, versions="0-4", flexible="3+")
class TxnOffsetCommitRequest:
    @group
    class TxnOffsetCommitRequestTopic:
        name: String = ""
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = []

    @group
    class TxnOffsetCommitRequestPartition:
        partition_index: Int32 = 0
        committed_offset: Int64 = 0
        committed_leader_epoch: Int32 = field(-1, versions="2+", ignorable=True)
        committed_metadata: String | None = ""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field(-1, versions="3+")
    member_id: String = field("", versions="3+")
    group_instance_id: String | None = field(None, versions="3+")
    topics: list[TxnOffsetCommitRequestTopic] = []


@message(key=28, versions="0-4", flexible="3+")
class TxnOffsetCommitResponse:
    @group
    class TxnOffsetCommitResponseTopic:
        name: String = ""
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = []

    @group
    class TxnOffsetCommitResponsePartition:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
