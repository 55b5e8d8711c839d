"""Steps that a release does not support, by Kafka's own statement: no cell counts as success."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LEVELS: Final = {"3.4.1": 8, "3.5.2": 11, "3.6.2": 14, "3.7.2": 19, "3.8.1": 20, "3.9.2": 21}
"""Release -> metadata.version, which equals the brokers' inter.broker.protocol.version."""

SCRAM_LEVEL: Final = 11
TOKEN_LEVEL: Final = 14

_NO_SCRAM: Final = f"no SCRAM in KRaft below metadata.version {SCRAM_LEVEL}"
_NO_TOKENS: Final = f"no delegation tokens in KRaft below metadata.version {TOKEN_LEVEL}"

NOT_APPLICABLE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("3.4.1", "SCRAM"): _NO_SCRAM,
        ("3.4.1", "ACLs"): "3.4.1 refuses an authorizer together with migration",
        ("3.4.1", "tokens"): _NO_TOKENS,
        ("3.5.2", "tokens"): _NO_TOKENS,
    }
)
"""Release and step -> why the release does not have it. Every other step has to be taken."""


def may_enforce_acls(release: str) -> bool:
    """Whether brokers of the release start with both an authorizer and migration on.

    Source: KafkaConfig.validateValues, Kafka 3.4: "ZooKeeper migration does not yet support
    authorizers".
    """
    return release != "3.4.1"


def not_known(release: str, step: str) -> str | None:
    """Why a step cannot be taken with a release; None if it can."""
    return NOT_APPLICABLE.get((release, step))
