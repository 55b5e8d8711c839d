"""GetTelemetrySubscriptions (71): a client asks which metrics to push.

KIP-714. Source: GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, Kafka
3.7-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, message


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = ZERO_UUID


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Sequence[Int8] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Sequence[String] = ()
