"""Lines of Python being written, and the names they refer to."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any, Final

from wire.codegen import runtime
from wire.schema import EMPTY, FORMATS, ZERO_UUID, Field, Layout

SLICE: Final = 1_000
"""Elements after which a sliced codec yields: one or two milliseconds."""
NUMBERS: Final = 100_000
"""Numbers of one array that it reads at once: about a millisecond."""


class Source:
    """One function under construction: lines, names, a run of fixed-width values still pending."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {
            "Malformed": runtime.MalformedError,
            "TooMany": runtime.TooManyError,
            "VARINTS": runtime.VARINTS,
            "read_varint": runtime.read_varint,
            "read_string_length": runtime.read_string_length,
            "write_varint": runtime.write_varint,
            "write_string_length": runtime.write_string_length,
            "write_tags": runtime.write_tags,
        }
        self.run: list[tuple[str, str]] = []
        self._count = 0

    def line(self, depth: int, text: str) -> None:
        """Add one line at an indentation depth."""
        self.lines.append("    " * depth + text)

    def name(self, stem: str) -> str:
        """A name not used so far."""
        self._count += 1
        return f"{stem}{self._count}"

    def begin_slices(self, depth: int) -> None:
        """Count what the slice may still take; a function without an array yields nowhere."""
        self.line(depth, f"left = {SLICE}")
        self.line(depth, "if 0: yield")

    def next_slice(self, depth: int, count: str = "1") -> None:
        """Yield after so many more elements, if the slice is over."""
        self.line(depth, f"left -= {count}")
        self.line(depth, f"if left < 0: left = {SLICE}; yield")

    def let(self, name: str, value: object) -> str:
        """Bind a global name of the generated code, once per distinct name."""
        self.names.setdefault(name, value)
        return name

    def struct_method(self, codes: str, method: str) -> str:
        """The bound ``pack`` or ``unpack_from`` of a precompiled struct."""
        name = f"{method}_{codes.replace('?', 'Z')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def cls(self, layout: Layout) -> str:
        """The class of a struct."""
        return self.let(layout.cls.__name__, layout.cls)

    def default(self, field: Field) -> str:
        """An expression for a fresh default."""
        if field.default is EMPTY:
            assert field.group is not None
            return f"{self.cls(field.group)}()"
        if field.default is ZERO_UUID:
            return self.let("ZERO_UUID", ZERO_UUID)
        return repr(field.default)

    def compile(self, filename: str, function: str) -> Callable[..., Any]:
        """Compile, register with ``linecache`` (tracebacks show the lines), return the function."""
        text = "\n".join(self.lines) + "\n"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)  # noqa: S102 (our own source)
        made: Callable[..., Any] = self.names[function]
        return made


def width(codes: str) -> int:
    """Bytes of big-endian struct codes."""
    return struct.calcsize(">" + codes)


def scalar_array(field: Field) -> bool:
    """Whether a field is an array that one ``struct`` call can read or write."""
    return field.array and field.kind in FORMATS and field.kind != "uuid"


def fits_shape(layout: Layout) -> bool:
    """Whether a struct is fixed-width fields and arrays of them, compact, without known tags."""
    arrays = 0
    for field in layout.fields:
        if scalar_array(field) and not field.nullable:
            arrays += 1
        elif field.array or field.kind not in FORMATS:
            return False
    return layout.flexible and arrays > 0 and not layout.tagged
