"""SCRAM credentials of users.

Source: UserScramCredentialRecord, RemoveUserScramCredentialRecord; ScramControlManager.replay,
Kafka 3.9; KIP-554, KIP-900.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import msgspec

from emulator.metadata.errors import ReplayError
from emulator.metadata.pmap import PMap
from wire import records as r


class Mechanism(IntEnum):
    """SCRAM mechanisms by their number in records and requests (ScramMechanism)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name SASL and ZooKeeper know it by, such as ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")


class Credential(msgspec.Struct, frozen=True, gc=False):
    """What a broker needs to verify one user by one mechanism; never the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


Credentials: TypeAlias = PMap[tuple[str, int], Credential]
"""By user name and number of the mechanism."""


def upsert(credentials: Credentials, record: r.UserScramCredentialRecord) -> Credentials:
    """Set a user's credential of one mechanism.

    Raises:
        ReplayError: a mechanism unknown here.
    """
    if record.mechanism not in list(Mechanism):
        raise ReplayError(f"SCRAM mechanism {record.mechanism} is unknown")
    credential = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
    return credentials.set((record.name, record.mechanism), credential)


def remove(credentials: Credentials, record: r.RemoveUserScramCredentialRecord) -> Credentials:
    """Remove a user's credential of one mechanism.

    Raises:
        ReplayError: there is none.
    """
    key = (record.name, record.mechanism)
    if key not in credentials:
        raise ReplayError(f"user {record.name} has no credential of mechanism {record.mechanism}")
    return credentials.delete(key)


def record_of(key: tuple[str, int], credential: Credential) -> r.UserScramCredentialRecord:
    """The record that sets a credential."""
    name, mechanism = key
    return r.UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
