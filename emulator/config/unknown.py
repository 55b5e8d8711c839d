"""Unknown keys: warnings, suggestions, and those that are errors.

Kafka ignores what it does not know. Two kinds of keys are refused here: those of our own prefix, as
a default would be in force instead, and misspelt ones of the migration, as the controller would
start without it and its log could not be used for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from emulator.config.confidential import is_name
from emulator.config.java_text import trim

# Properties without effect on a KRaft controller: one warning each, at the start.

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


OWN_PREFIX: Final = "kraftbridge."
MIGRATION_PREFIX: Final = "zookeeper.metadata.migration."
_NEAR: Final = 0.85
"""Least similarity of a suggestion: one wrong letter in seven, or two in thirteen."""
_SUGGESTIONS_MAX: Final = 100
"""Each costs a comparison with some 300 names."""


def judged(
    keys: Iterable[str], known: Collection[str], ours: Collection[str], kind: str
) -> tuple[tuple[str, ...], list[str]]:
    """Warnings and problems about unknown keys, a sentence each.

    Args:
        keys: the unknown ones.
        known: all names that have an effect, or that Kafka knows.
        ours: those of them that begin with our prefix.
        kind: of the node, ``controller`` or ``broker``.

    >>> judged(["node.ids"], ["node.id", "node.rack"], (), "broker")
    (('unknown configuration key node.ids; did you mean node.id?',), [])
    """
    warnings, problems = [], []
    unnamed = 0
    for number, key in enumerate(sorted(keys)):
        if not is_name(key):
            unnamed += 1
            continue
        near = nearest(key, known) if number < _SUGGESTIONS_MAX else ""
        hint = f"; did you mean {near}?" if near else ""
        if key.startswith(OWN_PREFIX):
            problems.append(f"{key}: unknown{hint or f'; a {kind} has ' + ', '.join(ours)}")
        elif key.startswith(MIGRATION_PREFIX) or near.startswith(MIGRATION_PREFIX):
            problems.append(f"{key}: unknown{hint}")
        else:
            warnings.append(f"unknown configuration key {key}{hint}")
    if unnamed:
        warnings.append(
            f"{unnamed} {'key has' if unnamed == 1 else 'keys have'} not the form of a property's "
            "name: does a value go on in the next line without a backslash at the end of the line?"
        )
    return tuple(warnings), problems


def nearest(key: str, known: Collection[str]) -> str:
    """The known name that is most like ``key``; empty if none is near.

    >>> nearest("zookeeper.metadata.migration.enabled", ["zookeeper.metadata.migration.enable"])
    'zookeeper.metadata.migration.enable'
    >>> nearest("my.own.key", ["node.id"])
    ''
    """
    return next(iter(get_close_matches(key.lower(), known, n=1, cutoff=_NEAR)), "")
