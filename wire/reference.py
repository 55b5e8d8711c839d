"""The executable specification: declarations interpreted by ``construct``, rule by rule.

It is the readable specification of the codec. It is simple on purpose and slow; laws hold it
equal to generated code on every message and version, for what it accepts and for what it refuses.

Source: the protocol guide's primitive types; KIP-482 for compact lengths and tagged fields; Kafka
3.9.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import construct as c

from wire.schema import Field, Layout

COUNT_MAX: Final = 2**31 - 1
STRING_BYTES_MAX: Final = 32767

FIXED: Final[dict[str, c.Construct]] = {
    "bool": c.ExprAdapter(c.Int8ub, lambda n, _: n != 0, lambda b, _: int(bool(b))),
    "int8": c.Int8sb,
    "int16": c.Int16sb,
    "uint16": c.Int16ub,
    "int32": c.Int32sb,
    "uint32": c.Int32ub,
    "int64": c.Int64sb,
    "float64": c.Float64b,
    "uuid": c.Bytes(16),
}


class UnsignedVarint(c.Construct):  # type: ignore[misc]  # construct has no types
    """Seven bits a byte, lowest first; the high bit says that more follow. At most 31 bits."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte: int = c.stream_read(stream, 1, path)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                if value > COUNT_MAX:
                    raise c.RangeError(f"varint {value}", path=path)
                return value
        raise c.RangeError("varint of more than 5 bytes", path=path)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        left = obj
        while left > 127:
            c.stream_write(stream, bytes([left & 127 | 128]), 1, path)
            left >>= 7
        c.stream_write(stream, bytes([left]), 1, path)
        return obj


VARINT: Final = UnsignedVarint()


class Length(c.Construct):  # type: ignore[misc]  # construct has no types
    """A length: a varint one above it in flexible versions, else int16 or int32. Null is -1."""

    def __init__(self, entry: Field, classic: c.Construct) -> None:
        super().__init__()
        self.entry = entry
        self.classic = classic

    def _parse(self, stream: Any, context: Any, path: str) -> int | None:
        compact = self.entry.compact
        coded = (VARINT if compact else self.classic)._parse(stream, context, path)
        length: int = coded - 1 if compact else coded
        if length >= 0:
            return length
        if length < -1 or not self.entry.nullable:
            raise c.RangeError(f"length {length}", path=path)
        return None

    def _build(self, obj: int | None, stream: Any, context: Any, path: str) -> int | None:
        if obj is None and not self.entry.nullable:
            raise c.RangeError("null where none may be", path=path)
        length = -1 if obj is None else obj
        if self.entry.compact:
            VARINT._build(length + 1, stream, context, path)
        else:
            self.classic._build(length, stream, context, path)
        return obj


class Sized(c.Construct):  # type: ignore[misc]  # construct has no types
    """A string, bytes or records: a length, then as many bytes."""

    def __init__(self, entry: Field) -> None:
        super().__init__()
        self.text = entry.kind == "string"
        self.length = Length(entry, c.Int16sb if self.text else c.Int32sb)

    def _parse(self, stream: Any, context: Any, path: str) -> str | bytes | None:
        size = self.length._parse(stream, context, path)
        if size is None:
            return None
        if self.text and size > STRING_BYTES_MAX:
            raise c.RangeError(f"string of {size} bytes", path=path)
        raw: bytes = c.stream_read(stream, size, path)
        return raw.decode() if self.text else raw

    def _build(self, obj: str | bytes | None, stream: Any, context: Any, path: str) -> Any:
        raw = obj.encode() if isinstance(obj, str) else obj
        if self.text and raw is not None and len(raw) > STRING_BYTES_MAX:
            raise c.RangeError(f"string of {len(raw)} bytes", path=path)
        self.length._build(None if raw is None else len(raw), stream, context, path)
        if raw is not None:
            c.stream_write(stream, raw, len(raw), path)
        return obj


class Array(c.Construct):  # type: ignore[misc]  # construct has no types
    """A count, then as many elements; structs become a list, anything else a tuple."""

    def __init__(self, entry: Field, element: c.Construct) -> None:
        super().__init__()
        self.count = Length(entry, c.Int32sb)
        self.element = element
        self.collect: Callable[[Any], Any] = list if entry.kind == "struct" else tuple

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        count = self.count._parse(stream, context, path)
        if count is None:
            return None
        parse = self.element._parsereport
        return self.collect([parse(stream, context, f"{path}[{i}]") for i in range(count)])

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.count._build(None if obj is None else len(obj), stream, context, path)
        for i, item in enumerate(obj or ()):
            self.element._build(item, stream, context, f"{path}[{i}]")
        return obj


class Nullable(c.Construct):  # type: ignore[misc]  # construct has no types
    """A struct behind a byte: below 0 there is none."""

    def __init__(self, inner: c.Construct) -> None:
        super().__init__()
        self.inner = inner

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        marker = c.Int8sb._parse(stream, context, path)
        return None if marker < 0 else self.inner._parse(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        c.Int8sb._build(-1 if obj is None else 1, stream, context, path)
        if obj is not None:
            self.inner._build(obj, stream, context, path)
        return obj


class Group(c.Struct):  # type: ignore[misc]  # construct has no types
    """The fields of a struct in order; in flexible versions tagged ones after them, by number."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(*(entry.name / value(entry) for entry in layout.fields))
        self.layout = layout
        self.tagged = {entry.tag: (entry, value(entry)) for entry in layout.tagged}

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        parsed = super()._parse(stream, context, path)
        found = {entry.name: parsed[entry.name] for entry in self.layout.fields}
        if self.layout.flexible:
            found |= self.parse_tags(stream, context, path)
        return self.layout.cls(**found)

    def parse_tags(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        """The tagged fields that are there, and the unknown ones as they are."""
        found: dict[str, Any] = {}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(VARINT._parse(stream, context, path)):
            tag = VARINT._parse(stream, context, path)
            size = VARINT._parse(stream, context, path)
            payload: bytes = c.stream_read(stream, size, path)
            if tag in self.tagged:
                entry, part = self.tagged[tag]
                found[entry.name] = whole(part, payload, f"{path}.{entry.name}")
            else:
                unknown.append((tag, payload))
        return {**found, "unknown_tags": tuple(unknown)}

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        for entry in self.layout.absent:
            if not entry.ignorable and differs(getattr(obj, entry.name), entry.default_value()):
                raise c.ValidationError(f"{entry.name} has no field", path=path)
        fields = {entry.name: getattr(obj, entry.name) for entry in self.layout.fields}
        super()._build(fields, stream, context, path)
        if self.layout.flexible:
            self.build_tags(obj, stream, context, path)
        elif obj.unknown_tags:
            raise c.ValidationError("tagged fields have no place", path=path)
        return obj

    def build_tags(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        """Tagged fields that are not the default, and the unknown ones, lowest number first."""
        tags = list(obj.unknown_tags)
        for tag, (entry, part) in self.tagged.items():
            if differs(getattr(obj, entry.name), entry.default_value()):
                tags.append((tag, part.build(getattr(obj, entry.name))))
        if len({tag for tag, _ in tags}) < len(tags):
            raise c.ValidationError("a tag stands there twice", path=path)
        VARINT._build(len(tags), stream, context, path)
        for tag, payload in sorted(tags):
            VARINT._build(tag, stream, context, path)
            VARINT._build(len(payload), stream, context, path)
            c.stream_write(stream, payload, len(payload), path)


def differs(value: Any, default: Any) -> bool:
    """Whether a value is not the default; an empty tuple is an empty list."""
    if isinstance(value, tuple) and isinstance(default, list):
        return list(value) != default
    if isinstance(value, list) and isinstance(default, tuple):
        return tuple(value) != default
    return bool(value != default)


def value(entry: Field) -> c.Construct:
    """The construct of one field."""
    if entry.group is not None:
        group = Group(entry.group)
        single: c.Construct = Nullable(group) if entry.nullable and not entry.array else group
    elif entry.kind in FIXED:
        single = FIXED[entry.kind]
    else:
        single = Sized(not_null(entry) if entry.array else entry)
    return Array(entry, single) if entry.array else single


def not_null(entry: Field) -> Field:
    """An element of an array: the array may be null, the element may not."""
    return Field(entry.name, entry.kind, False, False, entry.compact, None, None, False, None)


def whole(part: c.Construct, data: bytes, path: str) -> Any:
    """Parse bytes to the last one."""
    stream = io.BytesIO(data)
    parsed = part.parse_stream(stream)
    if stream.tell() != len(data):
        raise c.TerminatedError("bytes left over", path=path)
    return parsed


def decode(layout: Layout, data: bytes) -> Any:
    """Decode one whole message.

    Raises:
        ConstructError, UnicodeDecodeError: the bytes are not one.
    """
    return whole(Group(layout), data, layout.name)


def encode(layout: Layout, message: object) -> bytes:
    """Encode one message.

    Raises:
        ConstructError, AttributeError, TypeError: the version cannot carry it.
    """
    built: bytes = Group(layout).build(message)
    return built
