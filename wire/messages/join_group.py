"""JoinGroup (11): enter a consumer group of the classic protocol.

KIP-345 (v5), KIP-482 (v6), KIP-559 (v7), KIP-800 (v8, v9). Source: JoinGroupRequest,
JoinGroupResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Bytes, Int16, Int32, String, field, group, message


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    @group
    class JoinGroupRequestProtocol:
        name: String = ""
        metadata: Bytes = b""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(-1, versions="1+", ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = field(None, versions="5+")
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: String | None = field(None, versions="8+", ignorable=True)


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    @group
    class JoinGroupResponseMember:
        member_id: String = ""
        group_instance_id: String | None = field(None, versions="5+", ignorable=True)
        metadata: Bytes = b""

    throttle_time_ms: Int32 = field(0, versions="2+", ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(None, versions="7+", ignorable=True)
    protocol_name: String | None = field("", nullable="7+")
    leader: String = ""
    skip_assignment: Bool = field(False, versions="9+")
    member_id: String = ""
    members: list[JoinGroupResponseMember] = []
