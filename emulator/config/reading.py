"""Reads typed values from properties and collects all problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from emulator.config.confidential import value_of
from emulator.config.java_text import INT_MAX, items, trim, whole

T = TypeVar("T")
_COMMENT: Final = re.compile(r"\s[#!]")
"""What looks like a comment behind a value: Java's properties have none there."""
_ANY: Final = 10**99
"""So that a number of a type is refused with its bounds."""


@dataclass(slots=True)
class PropertyReader:
    """Reads typed values from raw properties and collects the problems."""

    raw: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def take(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """The parsed value of ``key``; ``default`` if absent or invalid (a problem is recorded)."""
        self.used.add(key)
        text = self.raw.get(key)
        if text is None:
            return default
        try:
            return parse(trim(text))
        except ValueError as error:
            comment = "; a comment needs a line of its own" if _COMMENT.search(text) else ""
            self.problems.append(f"{key}={value_of(key, text)}: {error}{comment}")
            return default

    def need(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """Like :meth:`take`, but a missing or empty value is a problem too."""
        if not trim(self.raw.get(key, "")):
            self.used.add(key)
            self.problems.append(f"{key} is required")
            return default
        return self.take(key, parse, default)


def integer(low: int, high: int = INT_MAX) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``, both included."""

    def parse(text: str) -> int:
        value = whole(text, -_ANY, _ANY)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def one_of(*names: str) -> Callable[[str], str]:
    """A parser that accepts these texts only."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError("must be one of " + ", ".join(names))
        return text

    return parse


def name_list(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list, without empty ones.

    >>> name_list("a, b,")
    ('a', 'b')
    """
    return tuple(part for part in items(text) if part)


def metadata_dir(text_of: Callable[[str], str]) -> str:
    """The folder with a node's metadata log; empty: its properties name none.

    Args:
        text_of: the value of a key, empty if it has none.

    >>> metadata_dir({"log.dirs": "/a, /b", "metadata.log.dir": "", "log.dir": "/c"}.__getitem__)
    '/a'
    """
    own, *lists = [text_of(key) for key in ("metadata.log.dir", "log.dirs", "log.dir")]
    return own or next(iter(name_list(next(filter(None, lists), ""))), "")
