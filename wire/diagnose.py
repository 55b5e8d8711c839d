"""Finds the cause and the place of a failure of generated code. Runs only after a failure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from wire.codegen.runtime import STRING_BYTES_MAX
from wire.errors import DecodeError, EncodeError
from wire.schema import FORMATS, Field, Layout
from wire.walk import UNEXPLAINED, Walker

VALUES_MAX: Final = 2_000
"""Invalid data may be as long as a frame; finding the place must not block the event loop."""


def decode_failure(layout: Layout, data: bytes, failure: Exception) -> DecodeError:
    """The error a decoder should raise for ``data`` that generated code refused."""
    try:
        Walker(layout, data, values_max=VALUES_MAX).walk()
    except DecodeError as error:
        return error
    return DecodeError(layout.name, layout.version, "", 0, f"{UNEXPLAINED}: {failure!r}")


def encode_failure(layout: Layout, message: object, failure: Exception) -> EncodeError:
    """The error an encoder should raise for an object that generated code refused."""
    for path, why in _objections(layout, message, ""):
        return EncodeError(layout.name, layout.version, path.removeprefix("."), why)
    return EncodeError(layout.name, layout.version, "", f"{type(failure).__name__}: {failure}")


def _objections(layout: Layout, obj: object, path: str) -> Iterator[tuple[str, str]]:
    """The problems of a struct, in order."""
    if not isinstance(obj, layout.cls):
        yield path, f"{type(obj).__name__} instead of {layout.cls.__name__}"
        return
    for entry in layout.absent:
        value = getattr(obj, entry.name)
        if not entry.ignorable and not _equal(value, entry.default_value()):
            yield f"{path}.{entry.name}", f"{value!r} has no field in this version"
    unknown = obj.unknown_tags  # type: ignore[attr-defined]  # every message has it
    if unknown and not layout.flexible:
        yield f"{path}.unknown_tags", "tagged fields have no place in this version"
    numbers = [tag for tag, _ in unknown] + [entry.tag for entry in layout.tagged]
    if len(set(numbers)) != len(numbers):
        yield f"{path}.unknown_tags", "a tag stands there twice or is a known one"
    for entry in (*layout.fields, *layout.tagged):
        yield from _field(entry, getattr(obj, entry.name), f"{path}.{entry.name}")


def _equal(value: Any, default: Any) -> bool:
    if isinstance(default, (list, tuple)) and isinstance(value, (list, tuple)):
        return list(value) == list(default)
    return bool(value == default)


def _field(entry: Field, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if value is None:
        if not entry.nullable:
            yield path, "null where none may be"
        return
    if not entry.array:
        yield from _single(entry, value, path)
        return
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        yield path, f"{type(value).__name__} instead of a sequence"
        return
    for index, item in enumerate(value):
        if item is None:
            yield f"{path}[{index}]", "null where none may be"
        else:
            yield from _single(entry, item, f"{path}[{index}]")


def _single(entry: Field, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if entry.group is not None:
        yield from _objections(entry.group, value, path)
    elif entry.kind == "string":
        if not isinstance(value, str):
            yield path, f"{type(value).__name__} instead of str"
            return
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            yield path, "not encodable as UTF-8"
            return
        if size > STRING_BYTES_MAX:
            yield path, f"string of {size} bytes, {STRING_BYTES_MAX} are allowed"
    elif entry.kind in {"bytes", "records", "uuid"}:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            yield path, f"{type(value).__name__} instead of bytes"
        elif entry.kind == "uuid" and len(value) != 16:
            yield path, f"uuid of {len(value)} bytes"
    else:
        try:
            struct.pack(">" + FORMATS[entry.kind], value)
        except struct.error as error:
            yield path, f"{value!r}: {error}"
