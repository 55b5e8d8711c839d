"""DescribeGroups (15): show classic consumer groups and their members.

KIP-430 (v3), KIP-345 (v4), KIP-482 (v5). Source: DescribeGroupsRequest, DescribeGroupsResponse,
Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Bytes, Int16, Int32, String, field, group, message


@message(key=15, versions="0-5", flexible="5+")
class DescribeGroupsRequest:
    groups: Sequence[String] = ()
    include_authorized_operations: Bool = field(False, versions="3+")


@message(key=15, versions="0-5", flexible="5+")
class DescribeGroupsResponse:
    @group
    class DescribedGroup:
        error_code: Int16 = 0
        group_id: String = ""
        group_state: String = ""
        protocol_type: String = ""
        protocol_data: String = ""
        members: list[DescribeGroupsResponse.DescribedGroupMember] = []
        authorized_operations: Int32 = field(-2_147_483_648, versions="3+")

    @group
    class DescribedGroupMember:
        member_id: String = ""
        group_instance_id: String | None = field(None, versions="4+", ignorable=True)
        client_id: String = ""
        client_host: String = ""
        member_metadata: Bytes = b""
        member_assignment: Bytes = b""

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    groups: list[DescribedGroup] = []
