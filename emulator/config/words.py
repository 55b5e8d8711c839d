"""Phrases that people read in many places: counts, times, how to install a part."""

from __future__ import annotations

import re
from typing import Final


def install(*extras: str) -> str:
    """What to type. It is installed already: pip takes only what the extras add.

    >>> install("spark", "java")
    "pip install 'kraft-bridge[spark,java]'"
    """
    return f"pip install 'kraft-bridge[{','.join(extras)}]'"


def several(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    >>> several(1, "ACL"), several(1_200, "topic"), several(2, "batch", "batches")
    ('1 ACL', '1,200 topics', '2 batches')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def folded(text: str, width: int, indent: str = "    ") -> str:
    """A line as a terminal shows it: broken between words, so that a path stays whole to be copied.

    Args:
        text: one line; its colours take no columns.
        width: of the terminal in columns; 0: it is none, and the line stays as it is.
        indent: of what goes on below it.

    >>> print(folded("broker 0: in ZooKeeper mode", 20, "  "))
    broker 0: in
      ZooKeeper mode
    """
    if _shown(text) <= width or not width:
        return text
    below = indent if 2 * len(indent) <= width else " "
    lines = [""]
    for space, word in re.findall(r"(\s*)(\S+)", text):
        more = space + word
        if lines[-1].strip() and _shown(lines[-1] + more) > width:
            lines.append(below + word)
        else:
            lines[-1] += more
    return "\n".join(lines)


def _shown(text: str) -> int:
    """How many columns a text takes."""
    return len(re.sub(r"\x1b\[[0-9;]*m", "", text))


_UNITS: Final = (
    (60, "s", "min", 3_600),
    (3_600, "min", "h", 172_800),
    (86_400, "h", "days", 10**18),
)
"""Seconds of a unit, the unit below it, its name, and from how many seconds on it is too small."""


def duration(ms: float) -> str:
    """A time, in one unit to three digits; from two minutes on in two units.

    >>> [duration(each) for each in (0, 0.0562, 0.352, 12.44, 999.7, 4_250, 95_000)]
    ['0 ms', '56.2 µs', '0.352 ms', '12.4 ms', '1 s', '4.25 s', '95 s']
    >>> [duration(each) for each in (119_960, 7_380_000, 7_200_000, 300_000_000)]
    ['2 min', '2 h 3 min', '2 h', '3 days 11 h']
    """
    if ms < 0:
        return f"-{duration(-ms)}"
    for size, unit, most in ((1e-3, "µs", 100), (1, "ms", 1_000), (1_000, "s", 120)):
        value = float(f"{ms / size:.3g}")
        if value < most and not (unit == "µs" and not value):
            return f"{value:g} {unit}"
    whole = round(ms / 1_000)
    size, below, name, _ = next(one for one in _UNITS if whole < one[3])
    many, rest = divmod(whole, size)
    rest //= {"s": 1, "min": 60, "h": 3_600}[below]
    return f"{many} {name} {rest} {below}" if rest else f"{many} {name}"
