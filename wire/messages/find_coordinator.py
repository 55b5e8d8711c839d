"""FindCoordinator (10): find the broker that coordinates a group or a transaction.

KIP-482 (v3), KIP-699 (v4), KIP-890 (v5), KIP-932 (v6). Source: FindCoordinatorRequest,
FindCoordinatorResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int8, Int16, Int32, String, field, group, message


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: String = field("", versions="0-3")
    key_type: Int8 = field(0, versions="1+")
    coordinator_keys: Sequence[String] = field((), versions="4+")


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    @group
    class Coordinator:
        key: String = ""
        node_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    error_code: Int16 = field(0, versions="0-3")
    error_message: String | None = field("", versions="1-3", ignorable=True)
    node_id: Int32 = field(0, versions="0-3")
    host: String = field("", versions="0-3")
    port: Int32 = field(0, versions="0-3")
    coordinators: list[Coordinator] = field([], versions="4+")
