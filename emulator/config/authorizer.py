"""Who may do what on this controller: the authorizer's settings, by Kafka's names.

Source: StandardAuthorizer.configure, KafkaConfig.validateValues, Kafka 3.4-3.9; KIP-801.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_KEYS: Final = frozenset({SUPER_USERS, ALLOW_EVERYONE})
"""No server's names: the class alone knows them."""


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """Of the one authorizer there is: who stands above ACLs, and what holds where there are none.

    ``super_users`` are ``Type:name``.
    """

    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> AuthorizerSettings | None:
        """Read checked properties; None if no authorizer is configured."""
        if not properties.get(CLASS, "").strip():
            return None
        return cls(
            frozenset(_principals(properties)),
            properties.get(ALLOW_EVERYONE, "").strip().lower() == "true",
        )


def problems(properties: Mapping[str, str], *, release: str, migration: bool) -> list[str]:
    """What is wrong with these settings, one sentence each.

    Args:
        properties: as given.
        release: Kafka line whose dialect is spoken.
        migration: whether a migration is to be run.

    >>> problems({"super.users": "admin"}, release="3.9", migration=True)
    ['super.users: admin is not Type:name']
    """
    found = []
    name = properties.get(CLASS, "").strip()
    if name and name != STANDARD:
        found.append(
            f"{CLASS}={name}: a controller keeps its ACLs in the metadata log and needs {STANDARD}"
        )
    elif name and release == "3.4" and migration:
        found.append(
            f"{CLASS}: Kafka 3.4 does not migrate ACLs and refuses an authorizer together with "
            "zookeeper.metadata.migration.enable; remove it, or set kraftbridge.release"
        )
    found.extend(
        f"{SUPER_USERS}: {one} is not Type:name"
        for one in _principals(properties)
        if ":" not in one
    )
    everyone = properties.get(ALLOW_EVERYONE)
    if everyone is not None and everyone.strip().lower() not in {"true", "false"}:
        found.append(f"{ALLOW_EVERYONE}={everyone}: must be true or false")
    return found


def _principals(properties: Mapping[str, str]) -> list[str]:
    """As a list between semicolons, since names may hold commas."""
    parts = properties.get(SUPER_USERS, "").split(";")
    return [part.strip() for part in parts if part.strip()]
