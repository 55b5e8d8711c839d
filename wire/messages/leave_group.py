"""LeaveGroup (13): leave a consumer group of the classic protocol.

KIP-345 (v3), KIP-482 (v4), KIP-800 (v5). Source: LeaveGroupRequest, LeaveGroupResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, field, group, message


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    @group
    class MemberIdentity:
        member_id: String = ""
        group_instance_id: String | None = None
        reason: String | None = field(None, versions="5+", ignorable=True)

    group_id: String = ""
    member_id: String = field("", versions="0-2")
    members: list[MemberIdentity] = field([], versions="3+")


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    @group
    class MemberResponse:
        member_id: String = ""
        group_instance_id: String | None = ""
        error_code: Int16 = 0

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = field([], versions="3+")
