"""Steps that a release does not support, by Kafka's own statement: no cell counts as success."""

from __future__ import annotations

from typing import Final

LEVELS: Final = {"3.4.1": 8, "3.5.2": 11, "3.6.2": 14, "3.7.2": 19, "3.8.1": 20, "3.9.2": 21}
"""Release -> metadata.version, which equals the brokers' inter.broker.protocol.version."""

SCRAM_LEVEL: Final = 11
TOKEN_LEVEL: Final = 14


def may_enforce_acls(release: str) -> bool:
    """Whether brokers of the release start with both an authorizer and migration on.

    Source: KafkaConfig.validateValues, Kafka 3.4: "ZooKeeper migration does not yet support
    authorizers".
    """
    return release != "3.4.1"


def not_known(release: str, step: str) -> str | None:
    """Why a step cannot be taken with a release; None if it can."""
    level = LEVELS[release]
    if step == "SCRAM" and level < SCRAM_LEVEL:
        return f"no SCRAM in KRaft below metadata.version {SCRAM_LEVEL}"
    if step == "tokens" and level < TOKEN_LEVEL:
        return f"no delegation tokens in KRaft below metadata.version {TOKEN_LEVEL}"
    if step == "ACLs" and not may_enforce_acls(release):
        return f"{release} refuses an authorizer together with migration"
    return None
