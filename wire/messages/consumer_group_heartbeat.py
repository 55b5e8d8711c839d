"""ConsumerGroupHeartbeat (68): join, stay in and leave a consumer group of the new protocol.

KIP-848. Source: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, Kafka 3.5-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Int16, Int32, String, Uuid, group, message


@message(key=68, versions="0", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    @group
    class TopicPartitions:
        topic_id: Uuid = ZERO_UUID
        partitions: Sequence[Int32] = ()

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Sequence[String] | None = None
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


@message(key=68, versions="0", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    @group
    class Assignment:
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = []

    @group
    class TopicPartitions:
        topic_id: Uuid = ZERO_UUID
        partitions: Sequence[Int32] = ()

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
