"""SyncGroup (14): hand out, or receive, the assignment of a classic consumer group.

KIP-345 (v3), KIP-482 (v4), KIP-559 (v5). Source: SyncGroupRequest, SyncGroupResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int32, String, field, group, message


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    @group
    class SyncGroupRequestAssignment:
        member_id: String = ""
        assignment: Bytes = b""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(None, versions="3+")
    protocol_type: String | None = field(None, versions="5+", ignorable=True)
    protocol_name: String | None = field(None, versions="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = []


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field(None, versions="5+", ignorable=True)
    protocol_name: String | None = field(None, versions="5+", ignorable=True)
    assignment: Bytes = b""
