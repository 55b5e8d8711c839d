"""Reads a message field by field and reports positions, for errors and annotated dumps.

Slow and plain; it runs when generated code has already failed, or for a person. It accepts and
refuses exactly what generated code does (a law).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from wire.codegen.runtime import COUNT_MAX, STRING_BYTES_MAX
from wire.errors import DecodeError, TrailingBytesError
from wire.schema import FORMATS, Field, Layout


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``start`` to ``end`` hold the value of ``path``; ``what`` names the kind."""

    path: str
    what: str
    start: int
    end: int
    value: Any


@dataclass(slots=True)
class Walker:
    """A position in ``data`` and the path of the field being read."""

    layout: Layout
    data: bytes
    report: Callable[[Span], None] | None = None
    values_max: int | None = None
    """After so many values the walk gives up, and says so: a report may cost no more than this."""
    position: int = 0
    limit: int = 0
    values: int = 0
    parts: list[str] = field(default_factory=list)

    def walk(self) -> None:
        """Read the whole message.

        Raises:
            DecodeError: at the first byte that is wrong.
        """
        self.limit = len(self.data)
        self.struct(self.layout)
        if self.position != len(self.data):
            why = f"{len(self.data) - self.position} bytes left over"
            name, version = self.layout.name, self.layout.version
            raise TrailingBytesError(name, version, self.path(), self.position, why)

    def wrong(self, why: str, offset: int | None = None) -> DecodeError:
        """An error at the current position."""
        return DecodeError(
            self.layout.name,
            self.layout.version,
            self.path(),
            self.position if offset is None else offset,
            why,
        )

    def path(self) -> str:
        """The path of the field being read, in the form ``topics[3].name``."""
        return "".join(self.parts).removeprefix(".")

    @contextmanager
    def at(self, part: str) -> Iterator[None]:
        """Read one step further down."""
        self.parts.append(part)
        yield
        self.parts.pop()

    def span(self, what: str, start: int, value: Any) -> None:
        """Report what was just read."""
        if self.report is not None:
            self.report(Span(self.path(), what, start, self.position, value))

    def take(self, count: int, what: str) -> bytes:
        """Read ``count`` bytes."""
        left = self.limit - self.position
        if count > left:
            raise self.wrong(f"{what} needs {count} bytes, {max(left, 0)} are left")
        self.position += count
        return self.data[self.position - count : self.position]

    def fixed(self, code: str, what: str) -> Any:
        """Read one value of a struct code."""
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code), what))[0]

    def varint(self, what: str) -> int:
        """Read an unsigned varint of at most five bytes and 31 bits."""
        start = self.position
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1, what)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                if value > COUNT_MAX:
                    raise self.wrong(f"{what} {value} is above {COUNT_MAX}", start)
                return value
        raise self.wrong(f"{what} is a varint of more than 5 bytes", start)

    def length(self, entry: Field, classic: str, what: str) -> int:
        """Read a length or count; -1 for a null that is allowed."""
        start = self.position
        value = self.varint(what) - 1 if entry.compact else self.fixed(classic, what)
        if value < -1:
            raise self.wrong(f"{what} {value} is negative", start)
        if value == -1 and not entry.nullable:
            raise self.wrong("null where none may be", start)
        self.span(what, start, value)
        return int(value)

    def struct(self, layout: Layout) -> None:
        """Read every field of a struct and its tagged fields."""
        for entry in layout.fields:
            with self.at("." + entry.name):
                self.value(entry)
        if layout.flexible:
            self.tags(layout)

    def value(self, entry: Field) -> None:
        """Read one field."""
        if not entry.array:
            self.single(entry)
            return
        start = self.position
        count = self.length(entry, "i", "array count")
        if count < 0:
            return
        if count > self.limit - self.position:
            raise self.wrong(f"array count {count} is above the bytes left", start)
        if entry.kind in FORMATS and self.report is None:
            self.take(count * struct.calcsize(">" + FORMATS[entry.kind]), "array")
            return
        element = Field(
            entry.name, entry.kind, False, False, entry.compact, None, None, False, entry.group
        )
        for index in range(count):
            with self.at(f"[{index}]"):
                self.single(element)

    def single(self, entry: Field) -> None:
        """Read one value that is no array."""
        self.values += 1
        if self.values == self.values_max:
            raise self.wrong(f"wrong here or further on, {self.values} values were looked at")
        start = self.position
        if entry.kind in FORMATS:
            value = self.fixed(FORMATS[entry.kind], entry.kind)
            self.span(entry.kind, start, value)
        elif entry.kind == "struct":
            assert entry.group is not None
            if entry.nullable:
                present = self.fixed("b", "struct marker")
                self.span("struct marker", start, present)
                if present < 0:
                    return
            self.struct(entry.group)
        else:
            self.text_or_bytes(entry)

    def text_or_bytes(self, entry: Field) -> None:
        """Read a string, bytes or records."""
        text = entry.kind == "string"
        start = self.position
        count = self.length(entry, "h" if text else "i", f"{entry.kind} length")
        if count < 0:
            return
        if text and count > STRING_BYTES_MAX:
            raise self.wrong(f"string length {count} is above {STRING_BYTES_MAX}", start)
        start = self.position
        raw = self.take(count, entry.kind)
        if not text:
            self.span(entry.kind, start, raw)
            return
        try:
            self.span(entry.kind, start, raw.decode())
        except UnicodeDecodeError as bad:
            raise self.wrong("not UTF-8", start + bad.start) from None

    def tags(self, layout: Layout) -> None:
        """Read the section of tagged fields."""
        start = self.position
        count = self.varint("tag count")
        self.span("tag count", start, count)
        known = {entry.tag: entry for entry in layout.tagged}
        for _ in range(count):
            start = self.position
            tag = self.varint("tag number")
            size = self.varint("tag size")
            entry = known.get(tag)
            with self.at(f".{entry.name}" if entry else f".<tag {tag}>"):
                self.span("tag", start, (tag, size))
                self.tag(entry, size)

    def tag(self, entry: Field | None, size: int) -> None:
        """Read one tagged field of ``size`` bytes."""
        if size > self.limit - self.position:
            raise self.wrong(f"tag size {size} is above the bytes left")
        start = self.position
        if entry is None:
            self.span("unknown tag", start, self.take(size, "tag"))
            return
        self.value(entry)
        if self.position != start + size:
            raise self.wrong(f"tag of {size} bytes holds a value of {self.position - start}", start)


UNEXPLAINED: Final = "generated code refused what the walk accepts"


def spans(layout: Layout, data: bytes) -> list[Span]:
    """Every value of a message, in the order of its bytes.

    Raises:
        DecodeError: the bytes are not one whole message.
    """
    found: list[Span] = []
    Walker(layout, data, found.append).walk()
    return found
