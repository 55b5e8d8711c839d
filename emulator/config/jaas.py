"""Login modules and their options: the value of ``sasl.jaas.config``, and a JAAS file of the JVM.

Both are cut into tokens by java.io.StreamTokenizer, with characters of a word of their own; a value
may be in single quotation marks in the property only. Kafka's brokers use the file for the login to
ZooKeeper. Pure; ``emulator/io`` reads the file. Source: JaasConfig, Kafka 3.9;
sun.security.provider.ConfigFile, Java 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_END: Final = "end"
_WORD: Final = "word"
_NUMBER: Final = "number"
_LETTERS: Final = r"a-zA-Z0-9.\-_$\u00a0-\U0010ffff"
_ESCAPE: Final = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_NAMED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SYSTEM_PROPERTY: Final = re.compile(r"\$\{[^}]*\}")


def _tokens_of(more: str) -> re.Pattern[str]:
    """One token of a StreamTokenizer; ``more``: characters of words beside the usual ones.

    A number begins with a digit, a point, or a minus with one of them; a word goes on with them. A
    single slash begins a comment too, of which the first character may end the line: then the next
    line belongs to it. A quotation ends with its line at the latest.
    """
    return re.compile(
        rf"""(?P<skip>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|//[^\n\r]*|/(?:[^/*][^\n\r]*)?)
          | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*))
          | (?P<minus>-)
          | (?P<word>[{_LETTERS}{more}]+)
          | (?P<quote>["'])(?P<quoted>(?:\\.|\\\Z|(?!(?P=quote))[^\n\r\\])*)(?:(?P=quote))?
          | (?P<mark>.)""",
        re.VERBOSE | re.DOTALL,
    )


_OF_PROPERTY: Final = _tokens_of("")
_OF_FILE: Final = _tokens_of("*")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry of a section; the options may hold passwords and are not shown."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """A word, text in quotation marks (their kind is the mark), a number or a mark; its line."""

    kind: str
    text: str
    line: int


def one_module(text: str) -> LoginModule:
    r"""Read the value of ``sasl.jaas.config``, without blanks around it.

    Raises:
        ValueError: not exactly one login module; the error quotes nothing.

    >>> one_module("a.B required username='u' password=\"\\101\";").options
    {'username': 'u', 'password': 'A'}
    """
    tokens = _tokens(_OF_PROPERTY, text)
    found = tuple(_modules(tokens, _END, (_WORD, '"', "'")))
    if len(found) != 1:
        raise ValueError("not exactly one login module")
    return found[0]


def parse(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Read every section of a file.

    Raises:
        ValueError: the text does not follow the grammar. The error names the line and quotes
            nothing: where a quotation mark is missing, a password is read as a name.

    >>> parse('Client { a.Digest required username="u" password="p"; };')["Client"][0].name
    'a.Digest'
    """
    tokens = _tokens(_OF_FILE, text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    for kind, name, line in tokens:
        if kind == _END:
            break
        if kind not in {_WORD, '"', "'"}:
            raise ValueError(f"line {line}: the name of a section is expected")
        _expect(tokens, "{", "behind the name of a section")
        modules = tuple(_modules(tokens, "}", (_WORD, '"')))
        _expect(tokens, ";", "behind a section")
        if name in sections:
            raise ValueError(f"line {line}: a second section of the same name")
        sections[name] = modules
    return sections


def _tokens(grammar: re.Pattern[str], text: str) -> Iterator[_Token]:
    """The tokens, and :data:`_END` for ever."""
    line = 1
    for found in grammar.finditer(text):
        kind = found.lastgroup
        if found["quote"]:
            yield _Token(found["quote"], _ESCAPE.sub(_unescaped, found["quoted"]), line)
        elif kind == "number":
            yield _Token(_NUMBER, "", line)
        elif kind == "word":
            yield _Token(_WORD, found[0], line)
        elif kind != "skip":
            yield _Token(found[0], "", line)
        line += found[0].count("\n")
    while True:
        yield _Token(_END, "", line)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 8)) if found[1] else _NAMED.get(found[2], found[2])


def _expect(tokens: Iterator[_Token], mark: str, where: str) -> None:
    found = next(tokens)
    if found.kind != mark:
        raise ValueError(f"line {found.line}: {mark!r} is expected {where}")


def _modules(tokens: Iterator[_Token], end: str, texts: tuple[str, ...]) -> Iterator[LoginModule]:
    """Entries up to ``end``; ``texts``: kinds of tokens that may be a name or a value."""
    for kind, name, line in tokens:
        if kind == end:
            return
        if kind == _END:
            raise ValueError(f"line {line}: a section is not closed")
        if kind not in texts or not name:
            raise ValueError(f"line {line}: a login module is expected")
        flag = next(tokens)
        if flag.kind not in texts or flag.text.upper() not in FLAGS:
            flags = ", ".join(sorted(one.lower() for one in FLAGS))
            raise ValueError(f"line {line}: behind a login module one of {flags} is expected")
        yield LoginModule(name, flag.text.lower(), dict(_options(tokens, texts)))


def _options(tokens: Iterator[_Token], texts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """``key=value`` up to the semicolon."""
    for kind, key, line in tokens:
        if kind == ";":
            return
        if kind == _END:
            raise ValueError(f"line {line}: the options of a login module do not end with ';'")
        if kind not in texts:
            raise ValueError(f"line {line}: an option of a login module is expected")
        _expect(tokens, "=", "behind the name of an option")
        value = next(tokens)
        if value.kind not in texts:
            raise ValueError(f"line {value.line}: an option has no value")
        if "'" not in texts and _SYSTEM_PROPERTY.search(value.text):
            raise ValueError(f"line {value.line}: a system property of a JVM is not known here")
        yield key, value.text
