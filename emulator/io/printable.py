"""Texts of others, such as names of znodes and hosts, may hold what commands a terminal."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import Any, Final

# What the system refuses, as a person reads it.


def sentence(error: Exception) -> str:
    """The text of an error; of the system's, the file and the reason, without Python's number.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "x"))
    'x: No such file or directory'
    >>> sentence(ValueError("nothing is given"))
    'nothing is given'
    """
    if not isinstance(error, OSError):
        return str(error)
    why = error.strerror or str(error) or type(error).__name__
    names = [os.fsdecode(one) for one in (error.filename, error.filename2) if one is not None]
    if isinstance(error, PermissionError) and names:
        why += owners(Path(names[0]))
    return f"{' and '.join(names)}: {why}" if names else why


def owners(path: Path) -> str:
    """Whose a file is, or the nearest folder above it; empty if it is our own, or not known."""
    for one in (path, *path.absolute().parents):
        try:
            owner = one.stat().st_uid
        except OSError:
            continue
        if owner == os.geteuid():
            return ""
        return f": {one} is owned by {_user(owner)}; you are {_user(os.geteuid())}"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


_PLAIN: Final = re.compile(r"[^\x20-\x7e]")


def printable(text: str) -> str:
    r"""A text in one line, without what a terminal obeys or a reader does not see.

    >>> printable("a" + chr(27) + "[2J" + chr(0x2028) + chr(0x202E) + "é")
    'a\\x1b[2J\\u2028\\u202eé'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_lines(text: str) -> str:
    r"""The same of a text of several lines.

    >>> printable_lines("a\nb" + chr(0x9B))
    'a\nb\\x9b'
    """
    return "\n".join(map(printable, text.split("\n")))


def printable_in(value: Any) -> Any:
    """The same for every text of a JSON value, and its keys."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_in(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): printable_in(one) for key, one in value.items()}
    return value


def printable_json(text: str) -> str:
    r"""The same JSON, in which such characters are escaped as JSON does it.

    >>> print(printable_json('["\x9b", "é", "' + chr(0xE0001) + '"]'))
    ["\u009b", "é", "\udb40\udc01"]
    """
    return _PLAIN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    one = found[0]
    if one.isprintable() or one in "\n\r\t":
        return one
    units = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
