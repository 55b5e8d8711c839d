"""DescribeDelegationToken (41): show delegation tokens.

KIP-48, KIP-482 (v2), KIP-373 (v3). Source: DescribeDelegationTokenRequest,
DescribeDelegationTokenResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int16, Int32, Int64, String, field, group, message


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    @group
    class DescribeDelegationTokenOwner:
        principal_type: String = ""
        principal_name: String = ""

    owners: list[DescribeDelegationTokenOwner] | None = []


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    @group
    class DescribedDelegationToken:
        principal_type: String = ""
        principal_name: String = ""
        token_requester_principal_type: String = field("", versions="3+")
        token_requester_principal_name: String = field("", versions="3+")
        issue_timestamp: Int64 = 0
        expiry_timestamp: Int64 = 0
        max_timestamp: Int64 = 0
        token_id: String = ""
        hmac: Bytes = b""
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = []

    @group
    class DescribedDelegationTokenRenewer:
        principal_type: String = ""
        principal_name: String = ""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0
