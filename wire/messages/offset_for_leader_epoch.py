"""OffsetForLeaderEpoch (23): where a leader epoch ended, for log truncation.

KIP-101, KIP-279 (v1), KIP-320 (v2), KIP-392 (v3), KIP-482 (v4). Source:
OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, field, group, message


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    @group
    class OffsetForLeaderTopic:
        topic: String = ""
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = []

    @group
    class OffsetForLeaderPartition:
        partition: Int32 = 0
        current_leader_epoch: Int32 = field(-1, versions="2+", ignorable=True)
        leader_epoch: Int32 = 0

    replica_id: Int32 = field(-2, versions="3+", ignorable=True)
    topics: list[OffsetForLeaderTopic] = []


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    @group
    class OffsetForLeaderTopicResult:
        topic: String = ""
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = []

    @group
    class EpochEndOffset:
        error_code: Int16 = 0
        partition: Int32 = 0
        leader_epoch: Int32 = field(-1, versions="1+", ignorable=True)
        end_offset: Int64 = -1

    throttle_time_ms: Int32 = field(0, versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = []
