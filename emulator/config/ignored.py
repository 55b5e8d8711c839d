"""Properties without effect on a KRaft controller: one warning each, at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from emulator.config.java_text import trim

_BY_METADATA_VERSION: Final = ("inter.broker.protocol.version", "log.message.format.version")
_CLASSES: Final = (
    "alter.config.policy.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "principal.builder.class",
)
"""Java classes that Kafka's controller calls."""
_KAFKAS_OWN: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_IMBALANCE: Final = "leader.imbalance.per.broker.percentage"


def warnings(raw: Mapping[str, str]) -> Iterator[str]:
    """One sentence per property without effect.

    Kafka 3.9 warns too, but begins an empty log that was formatted without a metadata.version at
    the inter.broker.protocol.version; here such a log begins at level 1 (KIP-778 "Final IBP").
    """
    for key in _BY_METADATA_VERSION:
        if key in raw:
            yield (
                f"{key}={raw[key]} has no effect on a KRaft controller, which uses "
                "metadata.version: kraft-bridge format --release-version sets the first, "
                "kafka-features a later one"
            )
    for key in _CLASSES:
        if trim(raw.get(key, "")) not in {"", _KAFKAS_OWN}:
            yield (
                f"{key}={raw[key]} has no effect: Java classes are not run. What this class would "
                "refuse or change on Kafka's controller is accepted unchanged"
            )
    if (percentage := raw.get(_IMBALANCE)) is not None:
        yield (
            f"{_IMBALANCE}={percentage} has no effect on a KRaft controller: with "
            "auto.leader.rebalance.enable every preferred replica that can lead is elected"
        )
