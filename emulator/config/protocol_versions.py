"""The versions that ``inter.broker.protocol.version`` and ``message.format.version`` may be.

Source: MetadataVersion.fromVersionString, Kafka 3.4-3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.config.java_text import split

_TO_3_4: Final = """
0.8.0 0.8.1 0.8.2 0.9.0 0.10.0 0.10.0-IV0 0.10.0-IV1 0.10.1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2
0.10.2 0.10.2-IV0 0.11.0 0.11.0-IV0 0.11.0-IV1 0.11.0-IV2 1.0 1.0-IV0 1.1 1.1-IV0 2.0 2.0-IV0
2.0-IV1 2.1 2.1-IV0 2.1-IV1 2.1-IV2 2.2 2.2-IV0 2.2-IV1 2.3 2.3-IV0 2.3-IV1 2.4 2.4-IV0 2.4-IV1
2.5 2.5-IV0 2.6 2.6-IV0 2.7 2.7-IV0 2.7-IV1 2.7-IV2 2.8 2.8-IV0 2.8-IV1 3.0 3.0-IV0 3.0-IV1 3.1
3.1-IV0 3.2 3.2-IV0 3.3 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4 3.4-IV0
"""
_LATER: Final = {
    "3.5": "3.5 3.5-IV0 3.5-IV1 3.5-IV2",
    "3.6": "3.6 3.6-IV0 3.6-IV1 3.6-IV2",
    "3.7": "3.7 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4",
    "3.8": "3.8 3.8-IV0",
    "3.9": "3.9 3.9-IV0 4.0-IV0 4.0-IV1",
}
_SINCE: Final = {
    name: release
    for release, names in (("3.4", _TO_3_4), *_LATER.items())
    for name in names.split()
}
"""Version -> the first of the bridge releases that knows it."""


def known(text: str, release: str = "3.9") -> str:
    """The version that a text means: digits behind the release are without meaning.

    Raises:
        ValueError: that release of Kafka does not know it.

    >>> known("3.4.1"), known("0.10.2.1"), known("3.7-IV4")
    ('3.4', '0.10.2', '3.7-IV4')
    """
    parts, size = split(text, "."), 3 if text.startswith("0.") else 2
    name = ".".join(parts[:size]) if len(parts) > size else text
    # The releases are compared as texts: each has one digit behind its point.
    if _SINCE.get(name, "9") > release:
        raise ValueError("not a version such as 3.9 or 3.4-IV0")
    return name
