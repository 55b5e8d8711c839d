"""CreateDelegationToken (38): make a delegation token.

KIP-48, KIP-482 (v2), KIP-373 (v3). Source: CreateDelegationTokenRequest,
CreateDelegationTokenResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int32, Int64, String, field, group, message


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    @group
    class CreatableRenewers:
        principal_type: String = ""
        principal_name: String = ""

    owner_principal_type: String | None = field("", versions="3+")
    owner_principal_name: String | None = field("", versions="3+")
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: Int64 = 0


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field("", versions="3+")
    token_requester_principal_name: String = field("", versions="3+")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
