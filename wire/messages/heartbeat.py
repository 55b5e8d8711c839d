"""Heartbeat (12): stay a member of a consumer group of the classic protocol.

KIP-345 (v3), KIP-482 (v4). Source: HeartbeatRequest, HeartbeatResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, field, message


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(None, versions="3+")


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = 0
