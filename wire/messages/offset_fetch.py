"""OffsetFetch (9): read the positions of consumer groups.

KIP-320 (v5), KIP-482 (v6), KIP-447 (v7), KIP-709 (v8), KIP-848 (v9). Source: OffsetFetchRequest,
OffsetFetchResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message


@message(key=9, versions="0-9", flexible="6+")
class OffsetFetchRequest:
    @group
    class OffsetFetchRequestTopic:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    @group
    class OffsetFetchRequestGroup:
        group_id: String = ""
        member_id: String | None = field(None, versions="9+", ignorable=True)
        member_epoch: Int32 = field(-1, versions="9+", ignorable=True)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = []

    @group
    class OffsetFetchRequestTopics:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    group_id: String = field("", versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field([], versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field([], versions="8+")
    require_stable: Bool = field(False, versions="7+")


@message(key=9, versions="0-9", flexible="6+")
class OffsetFetchResponse:
    @group
    class OffsetFetchResponseTopic:
        name: String = ""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = []

    @group
    class OffsetFetchResponsePartition:
        partition_index: Int32 = 0
        committed_offset: Int64 = 0
        committed_leader_epoch: Int32 = field(-1, versions="5-7", ignorable=True)
        metadata: String | None = ""
        error_code: Int16 = 0

    @group
    class OffsetFetchResponseGroup:
        group_id: String = ""
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = []
        error_code: Int16 = 0

    @group
    class OffsetFetchResponseTopics:
        name: String = ""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = []

    @group
    class OffsetFetchResponsePartitions:
        partition_index: Int32 = 0
        committed_offset: Int64 = 0
        committed_leader_epoch: Int32 = -1
        metadata: String | None = ""
        error_code: Int16 = 0

    throttle_time_ms: Int32 = field(0, versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field([], versions="0-7")
    error_code: Int16 = field(0, versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field([], versions="8+")
