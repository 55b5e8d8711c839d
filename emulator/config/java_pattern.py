r"""Whether Java takes a text as a regular expression (java.util.regex.Pattern.compile).

It is read once from the left to the right, and nothing is compiled: a few classes of characters
cost Python's ``re`` seconds. What this takes, Java 8 to 21 take. Not taken here, though Java does:
long patterns, deep nesting, the flags ``x`` and ``c``, ``\N``, ``\X`` and ``\b{g}`` (unknown to
Java 8), blocks and rare scripts of Unicode, references to groups that come later, look-behinds with
repetitions other than ``?``.

Source: java.util.regex.Pattern, Java 17.
"""

from __future__ import annotations

import re
from typing import Final

LENGTH_MAX: Final = 1_000
"""Java goes down its stack for each part of a pattern, and ends in StackOverflowError."""
DEPTH_MAX: Final = 50
TIMES_MAX: Final = 10_000
_SAME: Final = frozenset("aefnrt")
_CLASSES: Final = frozenset("DdHhSsVvWw")
_PLACES: Final = frozenset("ABGRZbz")
_CATEGORIES: Final = """
Cn Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Zs Zl Zp Cc Cf Co Cs Pd Ps Pe Pc Po Sm Sc Sk So Pi Pf
L M N Z C P S LC LD L1 all ASCII
""".split()
_POSIX: Final = "Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit".split()
_OF_JAVA: Final = """
LowerCase UpperCase TitleCase Digit Defined Letter LetterOrDigit JavaIdentifierStart
JavaIdentifierPart UnicodeIdentifierStart UnicodeIdentifierPart IdentifierIgnorable SpaceChar
Whitespace ISOControl Mirrored Alphabetic Ideographic
""".split()
_OF_UNICODE: Final = frozenset(
    """
alphabetic assigned control ideographic letter lowercase titlecase punctuation uppercase
whitespace white_space digit hex_digit hexdigit join_control noncharacter_code_point
arabic armenian cyrillic common devanagari georgian greek han hangul hebrew hiragana inherited
katakana latin thai
""".split()
)
"""Properties and common scripts, behind ``Is``."""
_NAMES: Final = frozenset({*_CATEGORIES, *_POSIX, *(f"java{one}" for one in _OF_JAVA)})
_DIGITS: Final = frozenset("0123456789")
_FLAGS: Final = re.compile(r"[dimsuU]*(?:-[dimsuU]*)?([:)])")
_GROUP_NAME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9]*)>")
_TIMES: Final = re.compile(r"\{([0-9]{1,5})(?:(,)([0-9]{0,5}))?\}")
_PROPERTY: Final = re.compile(r"\{([^}]*)\}|(.)", re.DOTALL)
_HEXADECIMAL: Final = re.compile(r"\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{2})")
_OCTALS: Final = re.compile(r"[0-3][0-7]{0,2}|[0-7]{1,2}")
_UNICODE: Final = re.compile(r"([0-9a-fA-F]{4})")
_LOW: Final = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_CLASS: Final = -1
"""Instead of a character: a class of characters, or a place."""


def check(text: str) -> None:
    """Check a pattern.

    Raises:
        ValueError: Java does not take it, or it is one that is not taken here.
    """
    if len(text) > LENGTH_MAX:
        raise ValueError(f"longer than {LENGTH_MAX} characters")
    _Pattern(_unquoted(text)).check()


def _unquoted(text: str) -> str:
    r"""With ``\Q...\E`` replaced by escaped characters (RemoveQEQuoting)."""
    out: list[str] = []
    at, quoted = 0, False
    while at < len(text):
        pair = text[at : at + 2]
        if quoted:
            if pair == r"\E":
                quoted, at = False, at + 2
                continue
            escaped = pair[0].isascii() and not pair[0].isalnum()
            # As a whole escape, so that no digit belongs to what is before it.
            out.append("\\" + pair[0] if escaped else pair[0])
            at += 1
        elif pair == r"\Q":
            quoted, at = True, at + 2
            if text[at : at + 1] in _DIGITS:
                out.append(f"\\x3{text[at]}")
                at += 1
        else:
            size = 2 if pair[0] == "\\" else 1
            out.append(text[at : at + size])
            at += size
    return "".join(out)


class _Pattern:
    """A pattern that is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._behind = 0
        """How many look-behinds are open."""
        self._groups = 0
        self._names: set[str] = set()

    def check(self) -> None:
        self._alternatives()
        if self._at < len(self._text):
            raise ValueError("a closing parenthesis without an opening one")

    def _peek(self, more: int = 0) -> str:
        return self._text[self._at + more : self._at + more + 1]

    def _found(self, pattern: re.Pattern[str], why: str) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(why)
        self._at = found.end()
        return found

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ValueError(f"nested deeper than {DEPTH_MAX}")

    # --------------------------------------------------------------------------------- sequences
    def _alternatives(self) -> None:
        """Parts up to a closing parenthesis, or the end."""
        while (char := self._peek()) and char != ")":
            if char == "(":
                if self._group():
                    self._repeated(group=True)
                continue
            if char in "?*+":
                raise ValueError(f"nothing to repeat before {char}")
            if char == "|":
                self._at += 1
                continue
            if char == "[":
                self._bracket()
            elif char == "\\":
                self._escape(in_class=False)
            elif char != "{":  # repeats nothing, which Java takes
                self._at += 1
            self._repeated(group=False)

    def _repeated(self, *, group: bool) -> None:
        """A repetition, if there is one."""
        char = self._peek()
        if not char or char not in "?*+{":
            return
        if char == "{":
            found = self._found(_TIMES, "a bad number of times")
            least, most = int(found[1]), int(found[3]) if found[3] else TIMES_MAX
            if max(least, most) > TIMES_MAX or least > most:
                raise ValueError("a bad number of times")
        else:
            self._at += 1
        if self._peek() and self._peek() in "?+":
            self._at += 1
        if self._behind and (group or char != "?"):
            raise ValueError("a look-behind without an obvious maximum length")

    def _group(self) -> bool:
        """A group; False if it is only flags."""
        self._at += 1
        if self._peek() == "?":
            self._at += 1
            return self._special_group()
        self._groups += 1
        return self._inside()

    def _special_group(self) -> bool:
        char, then = self._peek(), self._peek(1)
        if char and char in ":=!>":
            self._at += 1
            return self._inside()
        if char == "<" and then and then in "=!":
            self._at += 2
            self._behind += 1
            self._inside()
            self._behind -= 1
            return True
        if char == "<":
            self._at += 1
            name = self._found(_GROUP_NAME, "a bad name of a group")[1]
            if name in self._names:
                raise ValueError("a name of two groups")
            self._names.add(name)
            self._groups += 1
            return self._inside()
        if self._found(_FLAGS, "an unknown kind of group")[1] == ")":
            return False
        return self._inside()

    def _inside(self) -> bool:
        self._deeper()
        self._alternatives()
        self._depth -= 1
        if self._peek() != ")":
            raise ValueError("a group is not closed")
        self._at += 1
        return True

    # ------------------------------------------------------------------------------------ escapes
    def _escape(self, *, in_class: bool) -> int:
        """One escape; the character that it is, or :data:`_CLASS`."""
        char = self._peek(1)
        self._at += 2
        if char in _CLASSES:
            return _CLASS
        if char and char in "pP":
            return self._property()
        if char == "x":
            found = self._found(_HEXADECIMAL, "a bad hexadecimal escape")
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise ValueError("no character has such a number")
            return code
        if char == "u":
            return self._surrogates(int(self._found(_UNICODE, "a bad escape of Unicode")[1], 16))
        if char == "0":
            return int(self._found(_OCTALS, "a bad octal escape")[0], 8)
        if char == "c":
            if not self._peek():
                raise ValueError("a bad control escape")
            self._at += 1
            return ord(self._text[self._at - 1]) ^ 64
        if char == "a" or char in _SAME:
            return ord(
                {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}.get(char, char)
            )
        if not in_class and (char in _PLACES or char == "k" or char in _DIGITS):
            return self._place(char)
        if not char or (char.isascii() and char.isalnum()):
            raise ValueError("an unknown escape")
        return ord(char)

    def _surrogates(self, code: int) -> int:
        """A character that two escapes make."""
        low = _LOW.match(self._text, self._at)
        if not 0xD800 <= code <= 0xDBFF or low is None:
            return code
        self._at = low.end()
        return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00

    def _place(self, char: str) -> int:
        """A place, a line ending or a reference to a group."""
        if char == "k":
            if self._peek() != "<":
                raise ValueError("a bad reference to a group")
            self._at += 1
            if self._found(_GROUP_NAME, "a bad name of a group")[1] not in self._names:
                raise ValueError("no group of that name before")
        elif char == "b" and self._peek() == "{":
            raise ValueError(r"\b{ is not taken")
        elif char in _DIGITS and int(char) > self._groups:
            raise ValueError("no group of that number before")
        if self._behind and char in "R123456789k":
            raise ValueError("a look-behind without an obvious maximum length")
        return _CLASS

    def _property(self) -> int:
        found = self._found(_PROPERTY, "a property has no name")
        name = found[2] or found[1]
        if name not in _NAMES and not (
            name.startswith("Is")
            and (name[2:].lower() in _OF_UNICODE or name[2:] in _NAMES)
            and name.isascii()
        ):
            raise ValueError("an unknown property")
        return _CLASS

    # ------------------------------------------------------------------------------------ classes
    def _bracket(self, *, closes: bool = True) -> None:
        """A class in brackets; without ``closes`` its right side of ``&&``, up to the bracket."""
        self._deeper()
        if closes:
            self._at += 1
            if self._peek() == "^":
                self._at += 1
        empty = True
        while True:
            char = self._peek()
            if not char:
                raise ValueError("a class is not closed")
            if char == "]" and not empty:
                break
            if char == "[":
                self._bracket()
            elif char == "&" and self._peek(1) == "&":
                self._at += 2
                self._intersected(empty=empty)
            else:
                self._range()
            empty = False
        self._at += closes
        self._depth -= 1

    def _intersected(self, *, empty: bool) -> None:
        """What is right of ``&&``."""
        right = False
        while (char := self._peek()) not in {"]", "&", ""}:
            self._bracket(closes=char == "[")
            right = True
        if empty and not right:
            raise ValueError("nothing on both sides of &&")

    def _range(self) -> None:
        first = self._char()
        if first == _CLASS or self._peek() != "-" or self._peek(1) in {"[", "]"}:
            return
        self._at += 1
        if not self._peek():
            raise ValueError("a class is not closed")
        if self._char() < first:
            raise ValueError("a range that ends before it begins")

    def _char(self) -> int:
        if self._peek() == "\\":
            return self._escape(in_class=True)
        self._at += 1
        return ord(self._text[self._at - 1])
