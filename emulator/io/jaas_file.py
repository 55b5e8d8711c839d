"""Replaces the path of a JAAS file by its text, because ``emulator.config`` reads no files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from emulator.config.java_text import trim
from emulator.config.zookeeper import JAAS

BYTES_MAX: Final = 1 << 20
"""No such file is longer; a device, such as /dev/zero, never ends."""


def inlined(raw: Mapping[str, str]) -> dict[str, str]:
    """The same properties with the file's text in place of its path.

    A value with marks of a login, such as a brace, is no path.

    Raises:
        ValueError: the file cannot be read, or is not text; a value that may be a password is not
            in the error.
    """
    value = trim(raw.get(JAAS, ""))
    if not value or set(value) & set('{};="\n'):
        return dict(raw)
    try:
        text = _text(Path(value.removeprefix("file:")))
    except (OSError, ValueError) as error:
        # Shown only if it is surely a path, and no password where a path is expected.
        shown = value if value.startswith(("/", "./", "../", "file:")) else "the file that it names"
        why = error.strerror if isinstance(error, OSError) else "not text in UTF-8, or above 1 MiB"
        raise ValueError(f"{JAAS}: {shown}: {why}") from None
    return {**raw, JAAS: text}


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    return data.decode()
