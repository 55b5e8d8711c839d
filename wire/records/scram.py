"""SCRAM credentials: ids 11, 22.

KIP-900. Release 3.4 has another shape under id 11 and never wrote it.
Source: UserScramCredentialRecord, RemoveUserScramCredentialRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bytes, Int8, Int32, String, record


@record(key=11, versions="0")
class UserScramCredentialRecord:
    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


@record(key=22, versions="0")
class RemoveUserScramCredentialRecord:
    name: String = ""
    mechanism: Int8 = 0
