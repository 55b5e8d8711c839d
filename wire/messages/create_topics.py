"""CreateTopics (19): create topics, placed by the controller or by hand.

KIP-464 (v4), KIP-525 (v5), KIP-599 (v6), KIP-516 (v7). Source: CreateTopicsRequest,
CreateTopicsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, field, group, message


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    @group
    class CreatableTopic:
        name: String = ""
        num_partitions: Int32 = 0
        replication_factor: Int16 = 0
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = []
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = []

    @group
    class CreatableReplicaAssignment:
        partition_index: Int32 = 0
        broker_ids: Sequence[Int32] = ()

    @group
    class CreatableTopicConfig:
        name: String = ""
        value: String | None = ""

    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60_000
    validate_only: Bool = field(False, versions="1+")


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    @group
    class CreatableTopicResult:
        name: String = ""
        topic_id: Uuid = field(ZERO_UUID, versions="7+", ignorable=True)
        error_code: Int16 = 0
        error_message: String | None = field("", versions="1+", ignorable=True)
        topic_config_error_code: Int16 = field(0, versions="5+", tag=0, ignorable=True)
        num_partitions: Int32 = field(-1, versions="5+", ignorable=True)
        replication_factor: Int16 = field(-1, versions="5+", ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = field(
            [], versions="5+", ignorable=True
        )

    @group
    class CreatableTopicConfigs:
        name: String = ""
        value: String | None = ""
        read_only: Bool = False
        config_source: Int8 = -1
        is_sensitive: Bool = False

    throttle_time_ms: Int32 = field(0, versions="2+", ignorable=True)
    topics: list[CreatableTopicResult] = []
