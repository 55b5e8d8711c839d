"""BrokerHeartbeat (63): a broker stays alive, asks to be unfenced, or asks to shut down.

KIP-631, KIP-858 (v1). Source: BrokerHeartbeatRequest, BrokerHeartbeatResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, Uuid, field, message


@message(key=63, versions="0-1", flexible="0+")
class BrokerHeartbeatRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: Bool = False
    want_shut_down: Bool = False
    offline_log_dirs: Sequence[Uuid] = field((), versions="1+", tag=0)


@message(key=63, versions="0-1", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool = False
