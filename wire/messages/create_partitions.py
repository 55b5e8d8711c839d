"""CreatePartitions (37): add partitions to topics.

KIP-195, KIP-482 (v2), KIP-599 (v3). Source: CreatePartitionsRequest, CreatePartitionsResponse,
Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, String, group, message


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    @group
    class CreatePartitionsTopic:
        name: String = ""
        count: Int32 = 0
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = []

    @group
    class CreatePartitionsAssignment:
        broker_ids: Sequence[Int32] = ()

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    @group
    class CreatePartitionsTopicResult:
        name: String = ""
        error_code: Int16 = 0
        error_message: String | None = None

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
