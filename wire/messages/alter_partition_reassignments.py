"""AlterPartitionReassignments (45): start or cancel moving replicas to other brokers.

KIP-455. Source: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, String, group, message


@message(key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsRequest:
    @group
    class ReassignableTopic:
        name: String = ""
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = []

    @group
    class ReassignablePartition:
        partition_index: Int32 = 0
        replicas: Sequence[Int32] | None = None

    timeout_ms: Int32 = 60_000
    topics: list[ReassignableTopic] = []


@message(key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsResponse:
    @group
    class ReassignableTopicResponse:
        name: String = ""
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = []

    @group
    class ReassignablePartitionResponse:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = []
