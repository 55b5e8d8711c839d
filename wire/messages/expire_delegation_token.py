"""ExpireDelegationToken (40): end a delegation token, now or later.

KIP-48, KIP-482 (v2). Source: ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int32, Int64, message


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
