"""The authorizer's settings, by Kafka's names.

Source: StandardAuthorizer.configure, KafkaConfig.validateValues, Kafka 3.4-3.9; KIP-801.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulator.config.java_text import boolean, trim
from emulator.config.reading import PropertyReader

CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_KEYS: Final = frozenset({SUPER_USERS, ALLOW_EVERYONE})
"""Properties of the authorizer class; KafkaConfig does not list them."""


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """StandardAuthorizer: super users, and whether a resource without ACLs is open.

    ``super_users`` are ``Type:name``.
    """

    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool

    @classmethod
    def read(
        cls, reader: PropertyReader, *, release: str, migration: bool
    ) -> AuthorizerSettings | None:
        """Read the authorizer's properties; problems are collected in the reader.

        Args:
            reader: the properties.
            release: the emulated Kafka release.
            migration: whether a migration is configured.

        Returns:
            None if no authorizer is configured.

        >>> reader = PropertyReader({"super.users": "admin"})
        >>> AuthorizerSettings.read(reader, release="3.9", migration=True), reader.problems
        (None, ['super.users=admin: not Type:name: admin'])
        """
        name = reader.take(CLASS, str, "")
        if name and name != STANDARD:
            reader.problems.append(
                f"{CLASS}={name}: a controller keeps its ACLs in the metadata log and needs "
                f"{STANDARD}"
            )
        elif name and release == "3.4" and migration:
            reader.problems.append(
                f"{CLASS}: Kafka 3.4 does not migrate ACLs and refuses an authorizer together with "
                "zookeeper.metadata.migration.enable; remove it, or set kraftbridge.release"
            )
        settings = cls(
            reader.take(SUPER_USERS, _principals, frozenset[str]()),
            reader.take(ALLOW_EVERYONE, boolean, False),
        )
        return settings if name else None


def _principals(text: str) -> frozenset[str]:
    """Parse a list separated by semicolons, because names may contain commas."""
    found = [one for part in text.split(";") if (one := trim(part))]
    if wrong := [one for one in found if ":" not in one]:
        raise ValueError(f"not Type:name: {', '.join(wrong)}")
    return frozenset(found)
