"""The name in a certificate, as Java prints it: the principal of a client of a TLS listener.

Source: RFC 2253; X500Principal.getName and AVA.toRFC2253String of Java 17;
DefaultKafkaPrincipalBuilder, SslPrincipalMapper (DEFAULT), Kafka 3.9; KIP-371.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset([0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E])
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java prints as
text, their bytes read as UTF-8 whichever it is. All others are printed as bytes."""
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0
_SUBJECT: Final = 4
"""Behind serial number, algorithm, issuer and validity."""


def der_values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value in a row (X.690, definite lengths).

    Raises:
        IndexError: the bytes end within a value's tag or length.
    """
    at = 0
    while at < len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(der[at : at + count], "big")
            at += count
        yield tag, der[at : at + size]
        at += size


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER.

    Raises:
        ValueError: it is damaged.
    """
    try:
        (_, content), *_ = der_values(certificate)
        (_, signed), *_ = der_values(content)
        fields = [value for kind, value in der_values(signed) if kind != _VERSION]
        return name_of(fields[_SUBJECT])
    except (IndexError, ValueError) as error:
        raise ValueError(f"a damaged certificate: {error}") from error


def name_of(der: bytes) -> str:
    """A name in DER, without its own tag and length.

    Raises:
        IndexError, ValueError: it is damaged.
    """
    parts = [value for _, value in der_values(der)]
    return ",".join("+".join(_attribute(one) for _, one in der_values(n)) for n in parts[::-1])


def _attribute(der: bytes) -> str:
    (_, oid), (kind, value) = der_values(der)
    name = _dotted(oid)
    keyword = _KEYWORDS.get(name)
    if keyword is None or kind not in _TEXTS:
        whole = der[2 + len(oid) :]  # with its tag and length
        return f"{keyword or name}=#{whole.hex()}"
    return f"{keyword}={_escaped(_as_utf8(value))}"


def _as_utf8(value: bytes) -> str:
    r"""Bytes as Java's String reads them: never an error.

    Of half a character that is encoded by itself it makes one replacement, where Python makes one
    for each byte.

    >>> _as_utf8(b"a\xed\xa0\x80b\xff") == "a\ufffdb\ufffd"
    True
    """
    return _SURROGATE.sub(b"\xff", value).decode("utf-8", "replace")


def _dotted(oid: bytes) -> str:
    """The dotted form of an object identifier.

    >>> _dotted(bytes.fromhex("550403"))
    '2.5.4.3'
    """
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    r"""A value as text.

    >>> print(_escaped(' a,b\0 ') + '|')
    \ a\,b\00\ |
    """
    lead = len(text) - len(text.lstrip(" \r"))
    trail = len(text.rstrip(" \r"))
    parts = []
    for at, one in enumerate(text):
        if one == "\0":
            parts.append("\\00")
        elif one in _ESCAPED or not lead <= at < trail:
            parts.append(f"\\{one}")
        else:
            parts.append(one)
    return "".join(parts)
