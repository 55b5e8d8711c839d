"""Reads typed values from properties and collects all problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from emulator.config.confidential import value_of

T = TypeVar("T")
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_NUMBER_MAX: Final = 100
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


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
            return parse(text.strip())
        except ValueError as error:
            self.problems.append(f"{key}={value_of(key, text)}: {error}")
            return default

    def need(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """Like :meth:`take`, but a missing or empty value is a problem too."""
        if not self.raw.get(key, "").strip():
            self.used.add(key)
            self.problems.append(f"{key} is required")
            return default
        return self.take(key, parse, default)


def whole_number(text: str) -> int:
    """Parse at most 100 decimal digits with an optional sign.

    ``int`` also takes ``1_0``, spaces, and the digits of other scripts.

    Raises:
        ValueError: anything else.

    >>> whole_number("-07")
    -7
    """
    if len(text) > _NUMBER_MAX or _WHOLE_NUMBER.fullmatch(text) is None:
        raise ValueError("not a whole number")
    return int(text)


def integer(low: int, high: int = INT_MAX) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``, both included."""

    def parse(text: str) -> int:
        value = whole_number(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false`` in any case.

    Raises:
        ValueError: anything else.
    """
    if text.lower() not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text.lower() == "true"


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
    return tuple(part.strip() for part in text.split(",") if part.strip())
