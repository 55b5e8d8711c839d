"""Delegation tokens, without the HMAC, which is computed from the id and the secret key.

Source: DelegationTokenRecord, RemoveDelegationTokenRecord; DelegationTokenControlManager.replay,
Kafka 3.9; KIP-48, KIP-900.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from emulator.metadata.pmap import PMap
from wire import records as r


class DelegationToken(msgspec.Struct, frozen=True, gc=False):
    """One token; principals are ``Type:name``, times Unix milliseconds."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


DelegationTokens: TypeAlias = PMap[str, DelegationToken]
"""By token id."""


def put(tokens: DelegationTokens, record: r.DelegationTokenRecord) -> DelegationTokens:
    """Add a token, or change one (a renewal moves its expiry)."""
    return tokens.set(
        record.token_id,
        DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        ),
    )


def remove(tokens: DelegationTokens, record: r.RemoveDelegationTokenRecord) -> DelegationTokens:
    """Remove a token; no error if it does not exist."""
    return tokens.delete(record.token_id) if record.token_id in tokens else tokens


def record_of(token: DelegationToken) -> r.DelegationTokenRecord:
    """The record that puts a token."""
    return r.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token.id,
    )
