"""Read ``server.properties`` text and ``-X key=value`` overrides into one mapping."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable

import javaproperties

from emulator.config.confidential import is_name
from emulator.config.java_text import trim


def decoded(data: bytes) -> str:
    r"""The text of a properties file: ISO 8859-1, as Kafka reads it (java.util.Properties, load).

    Raises:
        ValueError: it holds a NUL, which no text file does; or it begins with a mark of UTF-8,
            which Kafka takes for the beginning of the first key.

    >>> decoded(b"name=M\xfcller")
    'name=Müller'
    """
    if b"\0" in data:
        raise ValueError("not a properties file: it holds NUL bytes")
    if data.startswith(codecs.BOM_UTF8):
        raise ValueError(
            "line 1 begins with a byte order mark (EF BB BF), which Kafka takes for a part of the "
            "first key: save the file without it"
        )
    return data.decode("latin-1")


def in_utf8(text: str) -> list[str]:
    r"""Keys of a decoded file whose values were probably written in UTF-8, and are read otherwise.

    >>> in_utf8(decoded("a=Größe\nb=M\\u00fcller".encode())), in_utf8(decoded(b"a=Gr\xf6\xdfe"))
    (['a'], [])
    """
    try:
        meant = parse(text.encode("latin-1").decode())
    except ValueError:
        return []
    return [key for key, value in parse(text).items() if meant.get(key) != value]


def repeated(text: str) -> dict[str, list[int]]:
    r"""Keys that stand more than once, with the numbers of their lines; the last one counts.

    >>> repeated("a=1\nb=2\\\n3\na = 4\n")
    {'a': [1, 4]}
    """
    lines: dict[str, list[int]] = {}
    number = 1
    for one in javaproperties.parse(io.StringIO(text)):
        if isinstance(one, javaproperties.KeyValue):
            lines.setdefault(one.key, []).append(number)
        number += one.source.count("\n")
    return {key: some for key, some in lines.items() if len(some) > 1}


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
        key, value = trim(key), trim(value)
        if not equals or not key:
            # Without a name it may be the rest of a password that a shell has split.
            shown = repr(override) if is_name(override) else "an override"
            raise ValueError(f"{shown} is not key=value")
        result[key] = value
    return result
