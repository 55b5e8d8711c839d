"""PushTelemetry (72): a client pushes metrics.

KIP-714. Source: PushTelemetryRequest, PushTelemetryResponse, Kafka 3.7-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Uuid, message


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
