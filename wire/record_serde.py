"""Records of the metadata log: record <-> the value of a log record.

A data record's value is a frame version 1, the record type and the record version, all varints,
then the body. A control record's key is a version 0 and the control type, its value the body at
version 0 without a frame.

Source: MetadataRecordSerde, AbstractApiMessageSerde, ControlRecordType, Kafka 3.9.
"""

from __future__ import annotations

from typing import Any, Final

from wire import codec
from wire.codegen.runtime import MalformedError, read_varint, write_varint
from wire.errors import DecodeError
from wire.schema import lookup, spec

FRAME_VERSION: Final = 1
CONTROL_VERSION: Final = 0
_SHORT: Final = 3
"""Bytes of a frame version, type and version that are all below 128, as all known ones are."""
_KNOWN: Final[dict[bytes, tuple[type, int]]] = {}
"""First bytes of values that were read -> the record type and version they mean."""
_HEADS: Final[dict[tuple[type, int], bytes]] = {}
"""The first bytes of values that were written."""


def encode_record(record: object, version: int) -> bytes:
    """Write a metadata record as the value of a log record.

    Raises:
        EncodeError: the version cannot carry the record.
    """
    return _head(type(record), version) + codec.encode(record, version)


def _head(cls: type, version: int) -> bytes:
    head = _HEADS.get((cls, version))
    if head is None:
        key = spec(cls).key
        assert key is not None, f"{cls.__name__} is no record"
        head = write_varint(FRAME_VERSION) + write_varint(key) + write_varint(version)
        _HEADS[cls, version] = head
    return head


def decode_record(value: bytes) -> tuple[Any, int]:
    """Read the value of a log record.

    Returns:
        The record and its version.

    Raises:
        DecodeError: another frame version, an unknown record type or version, or a body that is not
        one.
    """
    known = _KNOWN.get(value[:_SHORT])
    if known is not None:
        cls, version = known
        return codec.decode(cls, version, value[_SHORT:]), version
    cls, version, position = _what(value)
    if position == _SHORT:
        _KNOWN[value[:_SHORT]] = cls, version
    return codec.decode(cls, version, value[position:]), version


def _what(value: bytes) -> tuple[type, int, int]:
    """The class and version of a record's value, and where its body begins."""
    position = 0
    numbers: list[int] = []
    for name in ("frame version", "record type", "record version"):
        start = position
        try:
            number, position = value[position], position + 1
            if number > 127:
                number, position = read_varint(value, position, number)
        except (IndexError, MalformedError):
            raise DecodeError("MetadataRecord", -1, name, start, "no varint") from None
        numbers.append(number)
    frame, key, version = numbers
    if frame != FRAME_VERSION:
        raise DecodeError("MetadataRecord", -1, "frame version", 0, f"{frame} instead of 1")
    cls = lookup("record", key)
    if cls is None or version not in spec(cls).versions:
        raise DecodeError("MetadataRecord", version, "record type", 1, f"unknown type {key}")
    return cls, version, position


def encode_control(record: object) -> tuple[bytes, bytes]:
    """Write a control record as the key and the value of a log record.

    Raises:
        EncodeError: version 0 cannot carry the record.
    """
    key = spec(type(record)).key
    assert key is not None, f"{type(record).__name__} is no control record"
    return bytes(2) + key.to_bytes(2, "big"), codec.encode(record, CONTROL_VERSION)


def decode_control(key: bytes | None, value: bytes) -> Any:
    """Read the key and the value of a control record.

    Raises:
        DecodeError: the key is not one, the control type is unknown, or the value is not one.
    """
    if key is None or len(key) != 4:
        raise DecodeError("ControlRecord", 0, "key", 0, "a control record's key has 4 bytes")
    kind = int.from_bytes(key[2:], "big", signed=True)
    cls = lookup("control", kind)
    if cls is None:
        raise DecodeError("ControlRecord", 0, "key", 2, f"unknown control type {kind}")
    return codec.decode(cls, CONTROL_VERSION, value)
