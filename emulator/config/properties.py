"""Read ``server.properties`` text and ``-X key=value`` overrides into one mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import javaproperties

REDACTED: Final = "<redacted>"
_SECRET: Final = re.compile(
    r"password|secret|jaas|credential|\.digest$|token|master\.key|keystore\.key|keystore\.cert"
)


def parse(text: str, overrides: Iterable[str] = ()) -> dict[str, str]:
    """Parse Java properties (continuation lines, escapes) and apply overrides, last one wins.

    Args:
        text: the content of a properties file.
        overrides: ``key=value`` strings.

    Raises:
        ValueError: an override without ``=``, or a malformed escape in the text.

    >>> parse("node.id = 3000", ["node.id=3001"])
    {'node.id': '3001'}
    """
    result = {str(key): str(value) for key, value in javaproperties.loads(text).items()}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{override!r} is not key=value")
        result[key.strip()] = value.strip()
    return result


def redacted(raw: Mapping[str, str]) -> dict[str, str]:
    """The same properties without the values of those that hold secrets, for traces and logs.

    >>> redacted({"node.id": "1", "zookeeper.ssl.keystore.password": "x"})
    {'node.id': '1', 'zookeeper.ssl.keystore.password': '<redacted>'}
    """
    return {key: REDACTED if _SECRET.search(key) else value for key, value in raw.items()}
