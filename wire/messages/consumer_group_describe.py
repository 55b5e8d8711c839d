"""ConsumerGroupDescribe (69): show consumer groups of the new protocol.

KIP-848. Source: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, Kafka 3.7-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, String, Uuid, group, message


@message(key=69, versions="0", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


@message(key=69, versions="0", flexible="0+")
class ConsumerGroupDescribeResponse:
    @group
    class DescribedGroup:
        error_code: Int16 = 0
        error_message: String | None = None
        group_id: String = ""
        group_state: String = ""
        group_epoch: Int32 = 0
        assignment_epoch: Int32 = 0
        assignor_name: String = ""
        members: list[ConsumerGroupDescribeResponse.Member] = []
        authorized_operations: Int32 = -2_147_483_648

    @group
    class Member:
        member_id: String = ""
        instance_id: String | None = None
        rack_id: String | None = None
        member_epoch: Int32 = 0
        client_id: String = ""
        client_host: String = ""
        subscribed_topic_names: Sequence[String] = ()
        subscribed_topic_regex: String | None = None
        assignment: ConsumerGroupDescribeResponse.Assignment = EMPTY
        target_assignment: ConsumerGroupDescribeResponse.Assignment = EMPTY

    @group
    class Assignment:
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = []

    @group
    class TopicPartitions:
        topic_id: Uuid = ZERO_UUID
        topic_name: String = ""
        partitions: Sequence[Int32] = ()

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = []
