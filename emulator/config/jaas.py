"""A JAAS login configuration: which login module with which options, by section.

Kafka's brokers use it for the login to ZooKeeper. Pure; ``emulator/io`` reads the file. Source:
javax.security.auth.login.Configuration (its grammar).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

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


def parse(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Read every section.

    Raises:
        ValueError: the text does not follow the grammar; the error names the position and quotes no
            option.

    >>> parse('Client { a.Digest required username="u" password="p"; };')["Client"][0].name
    'a.Digest'
    """
    tokens = _tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    for kind, name in tokens:
        if kind == "mark":
            raise ValueError(f"a section's name is expected, not {name!r}")
        _expect(tokens, "{", f"after {name}")
        sections[name] = tuple(_modules(tokens, name))
        _expect(tokens, ";", f"behind the section {name}")
    return sections


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"a quotation or comment that begins in line {line} has no end")
        at = found.end()
        if found.lastgroup == "quoted":
            yield "word", _ESCAPE.sub(r"\1", found["quoted"])
        elif found.lastgroup != "skip":
            assert found.lastgroup is not None
            yield found.lastgroup, found[0]


def _expect(tokens: Iterator[tuple[str, str]], mark: str, where: str) -> None:
    if next(tokens, None) != ("mark", mark):
        raise ValueError(f"{mark!r} is expected {where}")


def _modules(tokens: Iterator[tuple[str, str]], section: str) -> Iterator[LoginModule]:
    """Entries up to the closing brace."""
    for kind, name in tokens:
        if (kind, name) == ("mark", "}"):
            return
        if kind == "mark":
            raise ValueError(f"a login module is expected in {section}, not {name!r}")
        flag = next(tokens, ("", ""))[1]
        if flag.lower() not in FLAGS:
            raise ValueError(f"{name} in {section} needs one of {', '.join(sorted(FLAGS))}")
        yield LoginModule(name, flag.lower(), dict(_options(tokens, name)))
    raise ValueError(f"the section {section} is not closed")


def _options(tokens: Iterator[tuple[str, str]], module: str) -> Iterator[tuple[str, str]]:
    """``key=value`` up to the semicolon."""
    for kind, key in tokens:
        if (kind, key) == ("mark", ";"):
            return
        if kind == "mark":
            raise ValueError(f"an option is expected in {module}, not {key!r}")
        _expect(tokens, "=", f"behind the option {key} of {module}")
        of_value, value = next(tokens, ("", ""))
        if of_value != "word":
            raise ValueError(f"the option {key} of {module} has no value")
        yield key, value
    raise ValueError(f"the options of {module} do not end with ';'")
