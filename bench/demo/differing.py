"""What differs between the two stores, for who has to act: values with units, what is urgent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from emulator.config.words import duration

_DIFFERS: Final = re.compile(r"((?:controller \d+: )?(.+): ZooKeeper )(.+)(, metadata log )(.+)")
"""A line of ``bench.judge.stores.differences``."""
_DELETES: Final = frozenset(
    {"cleanup.policy", "retention.bytes", "retention.hours", "retention.minutes", "retention.ms"}
)
"""Configs of topics, and behind ``log.`` of brokers, by which a broker deletes records."""
_NUMBER: Final = re.compile(r"'(\d{1,15})'")


def most_urgent(lines: Iterable[str]) -> list[str]:
    """Lines of differences with units, those first by which records may be deleted now."""
    return sorted(map(with_units, lines), key=lambda line: not _deleting([line]))


def with_units(line: str) -> str:
    """A line of a difference, its times and sizes with their unit.

    >>> with_units("config topics/a retention.ms: ZooKeeper '1', metadata log '3600000'")
    'config topics/a retention.ms: ZooKeeper 1 ms, metadata log 3,600,000 ms (1 h)'
    >>> with_units("topic a is missing")
    'topic a is missing'
    """
    if (found := _DIFFERS.fullmatch(line)) is None:
        return line
    begin, what, zookeeper, between, log = found.groups()
    return f"{begin}{_value(what, zookeeper)}{between}{_value(what, log)}"


def _value(what: str, value: str) -> str:
    number = _NUMBER.fullmatch(value)
    if number is None or not what.endswith((".ms", ".bytes")):
        return value
    count = int(number[1])
    if what.endswith(".bytes"):
        return f"{count:,} bytes"
    return f"{count:,} ms" + (f" ({duration(count)})" if count >= 1_000 else "")


def in_force(lines: Sequence[str]) -> str:
    """What brokers may do now by what ZooKeeper has, in a sentence; empty: nothing differs.

    >>> in_force(["config topics/a retention.ms: ZooKeeper 1 ms, metadata log 1,000 ms (1 s)"])[:78]
    'Correct this first: brokers in ZooKeeper mode may be using retention.ms 1 ms f'
    """
    first = "Correct this first: brokers in ZooKeeper mode may be using"
    for key, value, whom in _deleting(lines):
        uses = f"the default of {key}" if value == "None" else f"{key} {value}"
        return f"{first} {uses} for {whom} now; records can be deleted."
    differs = any(map(_DIFFERS.fullmatch, lines))
    return f"{first} what ZooKeeper has now." if differs else ""


def _deleting(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    """Configs that differ, and by which records are deleted: key, value in ZooKeeper, of whom."""
    found = []
    for line in lines:
        differs = _DIFFERS.fullmatch(line)
        words = [] if differs is None else differs[2].split()
        if differs is not None and len(words) == 3 and words[2].removeprefix("log.") in _DELETES:
            kind, _, name = words[1].partition("/")
            found.append((words[2], differs[3], f"{kind.removesuffix('s')} {name}"))
    return found
