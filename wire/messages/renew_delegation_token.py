"""RenewDelegationToken (39): extend a delegation token.

KIP-48, KIP-482 (v2). Source: RenewDelegationTokenRequest, RenewDelegationTokenResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int32, Int64, message


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
