"""Principals from certificates: names of every kind of value, printed by us and by the JDK."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from emulator.net.distinguished_name import name_of
from emulator.servers.java_tools import java

NAMES: Final = 20_000
OIDS: Final = [
    *(bytes([0x55, 0x04, number]) for number in (3, 6, 7, 8, 9, 10, 11, 5, 12, 42, 43, 46)),
    bytes.fromhex("0992268993f22c640119"),  # DC
    bytes.fromhex("0992268993f22c640101"),  # UID
    bytes.fromhex("2a864886f70d010901"),  # emailAddress
    bytes.fromhex("883703"),
]
KINDS: Final = [0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E]
OTHERS: Final = [0x12, 0x1C, 0x04, 0x02, 0x1A]
SIGNS: Final = [*' ,=+<>#;"\\\r\n\t\0\x1b\x7f', "ü", "\u2028", "\U0001f600", "\u202e"]
BYTES: Final = [0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xA0, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, 0x90, 0x9F]


def tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, *([size] if size < 0x80 else [0x82, size >> 8, size & 0xFF])]) + content


def value(draw: random.Random) -> bytes:
    """Text of several encodings, or bytes of none."""
    match draw.randrange(4):
        case 0:
            return bytes(draw.choice([*BYTES, *b"ab, "]) for _ in range(draw.randrange(7)))
        case 1:
            return bytes(draw.randrange(256) for _ in range(draw.randrange(7)))
        case _:
            text = "".join(draw.choice([*SIGNS, *"abc"]) for _ in range(draw.randrange(7)))
            return text.encode(draw.choice(["utf-8", "utf-8", "utf-16-be"]), "surrogatepass")


def attribute(draw: random.Random) -> bytes:
    kind = draw.choice(OTHERS if draw.randrange(8) == 0 else KINDS)
    return tlv(0x30, tlv(0x06, draw.choice(OIDS)) + tlv(kind, value(draw)))


def name(draw: random.Random) -> bytes:
    """The inside of a name: some relative names of one or two attributes each."""
    parts = range(draw.randrange(4))
    return b"".join(
        tlv(0x31, b"".join(sorted({attribute(draw) for _ in range(draw.choice([1, 1, 1, 2]))})))
        for _ in parts
    )


def test_names_of_drawn_bytes_are_printed_alike(compile_java: Callable[..., Path]) -> None:
    classes = compile_java([Path(__file__).with_name("NameOracle.java")], [])
    draw = random.Random(27)
    names = [name(draw) for _ in range(NAMES)]
    asked = b"\n".join(base64.b64encode(tlv(0x30, one)) for one in names)
    answers = java([classes], "NameOracle", stdin=asked).decode().splitlines()
    assert len(answers) == NAMES
    judged = 0
    for der, answer in zip(names, answers, strict=True):
        if answer != "!":
            judged += 1
            assert name_of(der) == base64.b64decode(answer).decode(), der.hex()
    assert judged > NAMES // 2
