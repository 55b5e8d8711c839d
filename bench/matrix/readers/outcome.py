"""The output of a tool or a call, without the parts that differ between runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NOISE: Final = re.compile(
    r"^\s+at |ToolHost\$Ended|^exit \d+$|^\s*\.\.\. \d+ more|^\s*$|^Caused by: ToolHost"
)
_SAME: Final = (
    (re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\] "), ""),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:[\d.]+)?Z?"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{80,}={0,2}"), "<hmac>"),
    # Names of classes may be as long as an id.
    (re.compile(r"(?<![\w-])(?![A-Za-z]+(?:Error|Exception))[A-Za-z0-9_-]{22}(?![\w-])"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<ms>"),
    # Of several brokers to blame either controller names one, Kafka's in the order of a hash map.
    (re.compile(r"Broker \d+ only supports"), "Broker <one> only supports"),
)
_NUMBERS: Final = re.compile(r"(?<![\w.<])-?\d+")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one line of the script ended."""

    tool: str
    what: str
    """The command line, or the call."""
    text: str
    """Exit code and all lines, sorted: no tool promises an order."""


def plain(text: str, *, numbers: bool = True) -> str:
    """Take out addresses, ids, times and, unless ``numbers``, every number.

    >>> plain("Topic: t TopicId: AAAAAAAAAAAAAAAAAAAAAQ at 127.0.0.1:9092")
    'Topic: t TopicId: <id> at <address>'
    >>> plain("hmac :++" + "A" * 84 + "==, period")
    'hmac :<hmac>, period'
    """
    lines = []
    for line in text.splitlines():
        if _NOISE.search(line):
            continue
        kept = line
        for pattern, word in _SAME:
            kept = pattern.sub(word, kept)
        # Columns are as wide as the longest number in them.
        lines.append(kept.strip() if numbers else " ".join(_NUMBERS.sub("N", kept).split()))
    return "\n".join(sorted(lines))
