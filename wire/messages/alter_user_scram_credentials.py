"""AlterUserScramCredentials (51): set or remove SCRAM credentials.

KIP-554. Source: AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int8, Int16, Int32, String, group, message


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    @group
    class ScramCredentialDeletion:
        name: String = ""
        mechanism: Int8 = 0

    @group
    class ScramCredentialUpsertion:
        name: String = ""
        mechanism: Int8 = 0
        iterations: Int32 = 0
        salt: Bytes = b""
        salted_password: Bytes = b""

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    @group
    class AlterUserScramCredentialsResult:
        user: String = ""
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
