"""DescribeUserScramCredentials (50): show which SCRAM mechanisms users have.

KIP-554. Source: DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, Int16, Int32, String, group, message


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    @group
    class UserName:
        name: String = ""

    users: list[UserName] | None = []


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    @group
    class DescribeUserScramCredentialsResult:
        user: String = ""
        error_code: Int16 = 0
        error_message: String | None = ""
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = []

    @group
    class CredentialInfo:
        mechanism: Int8 = 0
        iterations: Int32 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = []
