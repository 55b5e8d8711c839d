"""Functions for generated code: varints, struct caches by array length, tagged fields."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

COUNT_MAX: Final = 2**31 - 1
STRING_BYTES_MAX: Final = 32767
"""Kafka refuses longer strings in both directions, even if the length prefix allows them."""

_CACHED_LENGTHS: Final = 64
_CACHED_SHAPES: Final = 512
_SHAPE_LENGTH_MAX: Final = 127
"""From here on the length of an array takes two bytes."""


class MalformedError(Exception):
    """Generated code failed; ``wire.diagnose`` finds the cause and the place."""


class TooManyError(Exception):
    """The arrays of a message have more elements than the caller takes."""


def read_varint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte, 128 or more, was already read.

    Returns:
        The value and the position after it. Five bytes and 2**31 - 1 are the bounds, as lengths are
        int32 in Kafka.
    """
    value = first & 127
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise MalformedError
    if value > COUNT_MAX:
        raise MalformedError
    return value, position


def read_string_length(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Like ``read_varint``, for a compact string's length plus one."""
    value, position = read_varint(data, position, first)
    if value > STRING_BYTES_MAX + 1:
        raise MalformedError
    return value, position


def write_varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 512:
        return VARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string_length(value: int) -> bytes:
    """Encode a compact string's length plus one."""
    if value > STRING_BYTES_MAX + 1:
        raise MalformedError
    return write_varint(value)


VARINTS: Final = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(512)]


def write_tags(tags: Iterable[tuple[int, bytes | bytearray]]) -> bytes:
    """Encode a section of tagged fields, lowest number first."""
    ordered = sorted(tags, key=lambda tag: tag[0])
    if any(a[0] == b[0] for a, b in itertools.pairwise(ordered)):
        raise MalformedError
    out = bytearray(write_varint(len(ordered)))
    for number, payload in ordered:
        out += write_varint(number) + write_varint(len(payload)) + payload
    return bytes(out)


class Unpackers(dict[int, Callable[[bytes, int], tuple[Any, ...]]]):
    """``unpackers[n](data, position)`` reads ``n`` values of one struct code."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
        made = struct.Struct(f">{count}{self.code}").unpack_from
        if count <= _CACHED_LENGTHS:
            self[count] = made
        return made


class Packers(dict[int, Callable[..., bytes]]):
    """``packers[n](*values)`` writes ``n`` values of one struct code."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> Callable[..., bytes]:
        made = struct.Struct(f">{count}{self.code}").pack
        if count <= _CACHED_LENGTHS:
            self[count] = made
        return made


class ShapePackers(dict[tuple[int, ...], Callable[..., bytes] | None]):
    """One ``pack`` for a whole struct, by the lengths of its arrays; None if one is too long.

    ``parts`` holds struct codes; a part ``"*i"`` takes as many codes as the next array is long.
    """

    def __init__(self, parts: list[str]) -> None:
        super().__init__()
        self.parts = parts

    def __missing__(self, lengths: tuple[int, ...]) -> Callable[..., bytes] | None:
        if max(lengths) >= _SHAPE_LENGTH_MAX:
            return None
        left = iter(lengths)
        codes = [f"{next(left)}{p[1:]}" if p.startswith("*") else p for p in self.parts]
        made = struct.Struct(">" + "".join(codes)).pack
        if len(self) < _CACHED_SHAPES:
            self[lengths] = made
        return made
