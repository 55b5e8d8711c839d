r"""How Java reads texts: the parsers that Kafka applies to values of clients and of files.

Python's own differ: ``strip`` takes away blanks of other scripts, ``int`` takes ``1_0``. A value
that they take, and Java does not, stops the broker that loads it.

Source: java.lang.{String,Integer,Long,Double}, Java 17; ConfigDef.parseType, Kafka 3.9.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What String.trim takes away at both ends: not the no-break space, for one."""
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_DIGITS_MAX: Final = 100
"""No type has as many; thousands would be slow to parse."""
_BMP_MAX: Final = "\uffff"
_COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_DECIMAL: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP])([+-]?)([0-9]+)[fFdD]?",
    re.ASCII,
)
_NAMED: Final = re.compile(r"([+-]?)(NaN|Infinity)")
_EXPONENT_MAX: Final = 10_000_000
"""Beyond it every number of our lengths is 0 or infinite."""


def trim(text: str) -> str:
    r"""Without characters up to U+0020 at both ends (String.trim).

    >>> trim("\x1f 5\xa0 ")
    '5\xa0'
    """
    return text.strip(BLANKS)


def split(text: str, separator: str) -> list[str]:
    """The parts between separators, without empty ones at the end (String.split).

    >>> split("a,,b,,", ","), split("", ","), split(",", ",")
    (['a', '', 'b'], [''], [])
    """
    parts = text.split(separator)
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        del parts[-1]
    return parts


def whole(text: str, low: int = LONG_MIN, high: int = LONG_MAX) -> int:
    """A whole number with an optional sign (Long.parseLong); digits may be of another script.

    Args:
        text: without blanks around it.
        low: the least value of the type.
        high: the largest.

    Raises:
        ValueError: no number, or none of the type.

    >>> whole("-07"), whole("\u0663")
    (-7, 3)
    """
    sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("", text)
    # Above U+FFFF, Java looks at halves of a character, which are not digits.
    if not digits or not digits.isdecimal() or max(digits) > _BMP_MAX:
        raise ValueError("not a whole number")
    if not digits.isascii():
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
    digits = digits.lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX or not low <= (value := int(sign + digits)) <= high:
        raise ValueError("not a whole number that fits its type")
    return value


def same(one: str, other: str) -> bool:
    r"""Whether two texts differ in case at most (String.equalsIgnoreCase).

    >>> same("TRUE", "true"), same("fal\u017fe", "false"), same("\xdf", "ss")
    (True, True, False)
    """
    return len(one) == len(other) and all(
        a == b or _folded(a) == _folded(b) for a, b in zip(one, other, strict=True)
    )


def _folded(letter: str) -> str:
    upper = letter.upper()
    upper = upper if len(upper) == 1 else letter
    lower = upper.lower()
    return lower if len(lower) == 1 else upper


def boolean(text: str) -> bool:
    """``true`` or ``false`` in any case.

    Raises:
        ValueError: anything else.
    """
    for word, value in (("true", True), ("false", False)):
        if same(text, word):
            return value
    raise ValueError("must be true or false")


def items(text: str) -> tuple[str, ...]:
    r"""The entries of a list, empty ones included (ConfigDef's type LIST); none of an empty text.

    >>> items(" a ,b\xa0,"), items(" ")
    (('a', 'b\xa0', ''), ())
    """
    text = trim(text)
    return tuple(_COMMA.split(text)) if text else ()


def double(text: str) -> float:
    """A number, also hexadecimal, with a suffix, not a number or infinite (Double.parseDouble).

    Raises:
        ValueError: not a number.

    >>> double("0.5f"), double("0x1p-1"), double("-Infinity"), double("1e400")
    (0.5, 0.5, -inf, inf)
    """
    text = trim(text)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if named := _NAMED.fullmatch(text):
        value = math.nan if named[2] == "NaN" else math.inf
        return -value if named[1] == "-" else value
    if (found := _HEXADECIMAL.fullmatch(text)) is None:
        raise ValueError("not a number")
    exponent = found[3].lstrip("0") or "0"
    if len(exponent) > len(str(_EXPONENT_MAX)):
        exponent = str(_EXPONENT_MAX)
    try:
        return float.fromhex(f"{found[1]}{found[2]}{exponent}")
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf
