"""Delegation tokens: ids 10, 26.

KIP-900, KIP-373. Releases up to 3.5 lack the requester under id 10 and never wrote it.
Source: DelegationTokenRecord, RemoveDelegationTokenRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int64, String, record


@record(key=10, versions="0")
class DelegationTokenRecord:
    owner: String = ""
    requester: String = ""
    renewers: Sequence[String] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


@record(key=26, versions="0")
class RemoveDelegationTokenRecord:
    token_id: String = ""
