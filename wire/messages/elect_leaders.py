"""ElectLeaders (43): choose preferred or unclean leaders now.

KIP-183 (v0), KIP-460 (v1), KIP-482 (v2). Source: ElectLeadersRequest, ElectLeadersResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.codec import normalised
from wire.schema import Int8, Int16, Int32, String, field, group, message, replace


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    @group
    class TopicPartitions:
        topic: String = ""
        partitions: Sequence[Int32] = ()

    election_type: Int8 = field(0, versions="1+")
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: Int32 = 60_000


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    @group
    class ReplicaElectionResult:
        topic: String = ""
        partition_result: list[ElectLeadersResponse.PartitionResult] = []

    @group
    class PartitionResult:
        partition_id: Int32 = 0
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(0, versions="1+")
    replica_election_results: list[ReplicaElectionResult] = []


def _as_decoded(message: ElectLeadersResponse, _version: int) -> ElectLeadersResponse:
    return message


def _without_error(message: ElectLeadersResponse, version: int) -> ElectLeadersResponse:
    """In v0 an error of the whole request is in each partition only (ElectLeadersResponse)."""
    return replace(message, error_code=0) if version == 0 and message.error_code else message


normalised(ElectLeadersResponse, after_decode=_as_decoded, before_encode=_without_error)
