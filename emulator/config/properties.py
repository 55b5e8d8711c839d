"""Read ``server.properties`` text and ``-X key=value`` overrides into one mapping."""

from __future__ import annotations

from collections.abc import Iterable

import javaproperties

from emulator.config.confidential import is_name


def decoded(data: bytes) -> str:
    r"""The text of a properties file: UTF-8, or ISO 8859-1 as Java reads it.

    Raises:
        ValueError: it holds a NUL, which no text file does.

    >>> decoded(b"name=M\xfcller")
    'name=Müller'
    """
    if b"\0" in data:
        raise ValueError("not a properties file: it holds NUL bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


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
            # Without a name it may be the rest of a password that a shell has split.
            shown = repr(override) if is_name(override) else "an override"
            raise ValueError(f"{shown} is not key=value")
        result[key.strip()] = value.strip()
    return result
