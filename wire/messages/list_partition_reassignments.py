"""ListPartitionReassignments (46): show which partitions are moving.

KIP-455. Source: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, String, group, message


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    @group
    class ListPartitionReassignmentsTopics:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    timeout_ms: Int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    @group
    class OngoingTopicReassignment:
        name: String = ""
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = []

    @group
    class OngoingPartitionReassignment:
        partition_index: Int32 = 0
        replicas: Sequence[Int32] = ()
        adding_replicas: Sequence[Int32] = ()
        removing_replicas: Sequence[Int32] = ()

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = []
