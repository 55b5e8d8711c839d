"""Unknown keys: warnings, suggestions, and those that are errors.

Kafka ignores what it does not know. Two kinds of keys are refused here: those of our own prefix, as
a default would be in force instead, and misspelt ones of the migration, as the controller would
start without it and its log could not be used for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from emulator.config.confidential import is_name

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
            problems.append(f"{key}: unknown; a {kind} has {', '.join(ours)}{hint}")
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
