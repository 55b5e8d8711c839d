"""A JAAS login configuration: which login module with which options, by section.

Kafka's brokers use it for the login to ZooKeeper. Pure; ``emulator/io`` reads the file. Source:
javax.security.auth.login.Configuration (its grammar).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
      | "(?P<quoted>(?:\\.|[^"\\])*)"
      | (?P<mark>[{};=])
      | (?P<word>[^\s{};="]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry of a section; the options may hold passwords and are not shown."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """A word or a mark, and the line in which it stands."""

    kind: str
    text: str
    line: int


def parse(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Read every section.

    Raises:
        ValueError: the text does not follow the grammar. The error names the line and quotes
            nothing: where a quotation mark is missing, a password is read as a name.

    >>> parse('Client { a.Digest required username="u" password="p"; };')["Client"][0].name
    'a.Digest'
    """
    tokens = _tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    for kind, name, line in tokens:
        if kind == "mark":
            raise ValueError(f"line {line}: the name of a section is expected")
        _expect(tokens, "{", "behind the name of a section", line)
        sections[name] = tuple(_modules(tokens))
        _expect(tokens, ";", "behind a section", line)
    return sections


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"a quotation or comment that begins in line {line} has no end")
        if found.lastgroup == "quoted":
            yield _Token("word", _ESCAPE.sub(r"\1", found["quoted"]), line)
        elif found.lastgroup != "skip":
            assert found.lastgroup is not None
            yield _Token(found.lastgroup, found[0], line)
        line += found[0].count("\n")
        at = found.end()


def _expect(tokens: Iterator[_Token], mark: str, where: str, line: int) -> None:
    """Take one mark; ``line``: of what is before it."""
    found = next(tokens, _Token("", "", line))
    if (found.kind, found.text) != ("mark", mark):
        raise ValueError(f"line {found.line}: {mark!r} is expected {where}")


def _modules(tokens: Iterator[_Token]) -> Iterator[LoginModule]:
    """Entries up to the closing brace."""
    line = 1
    for kind, name, at in tokens:
        line = at
        if (kind, name) == ("mark", "}"):
            return
        if kind == "mark":
            raise ValueError(f"line {line}: a login module is expected, not {name!r}")
        flag = next(tokens, _Token("", "", line)).text
        if flag.lower() not in FLAGS:
            flags = ", ".join(sorted(FLAGS))
            raise ValueError(f"line {line}: behind a login module one of {flags} is expected")
        yield LoginModule(name, flag.lower(), dict(_options(tokens, line)))
    raise ValueError(f"line {line}: a section is not closed")


def _options(tokens: Iterator[_Token], line: int) -> Iterator[tuple[str, str]]:
    """``key=value`` up to the semicolon; ``line``: of the module."""
    for kind, key, at in tokens:
        line = at
        if (kind, key) == ("mark", ";"):
            return
        if kind == "mark":
            raise ValueError(f"line {line}: an option of a login module is expected, not {key!r}")
        _expect(tokens, "=", "behind the name of an option", line)
        value = next(tokens, _Token("", "", line))
        if value.kind != "word":
            raise ValueError(f"line {line}: an option has no value")
        yield key, value.text
    raise ValueError(f"line {line}: the options of a login module do not end with ';'")
