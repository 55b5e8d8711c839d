"""The fast path for arrays of structs of the same shape.

Partitions of one topic mostly have arrays of the same lengths. After one struct was read, each of
the next ones is read by one ``unpack_from`` made for exactly these lengths; the length bytes are
checked afterwards, and the first struct that differs ends the fast path. It is 1.25x to 1.6x faster
on large arrays, and has no effect on small messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from wire.codegen.source import Source
from wire.schema import FORMATS, Layout

_SHAPES_MAX: Final = 64
_LENGTHS_MAX: Final = 127
"""The largest raw length that is one byte."""

Run: TypeAlias = Callable[[bytes, int, int, int, Callable[[Any], None]], tuple[int, int]]
"""(data, position, end, structs left, append) -> (position, structs left)"""


def _stop(data: bytes, position: int, end: int, left: int, append: Callable[[Any], None]) -> Any:
    del data, end, append
    return position, left


class shape_reader(dict[tuple[int, ...], Run]):  # noqa: N801 (reads as a function where it is used)
    """Readers of one struct by the raw lengths (count plus one) of its arrays."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout

    def __missing__(self, lengths: tuple[int, ...]) -> Run:
        if len(self) >= _SHAPES_MAX or max(lengths) > _LENGTHS_MAX:
            return _stop
        self[lengths] = _compile(self.layout, lengths)
        return self[lengths]


def _compile(layout: Layout, lengths: tuple[int, ...]) -> Run:
    codes, targets, checks, values = "", [], [], {}
    left = iter(lengths)
    for field in layout.fields:
        code = FORMATS[field.kind]
        if not field.array:
            codes += code
            targets.append(field.name)
            values[field.name] = field.name
            continue
        length = next(left)
        parts = [f"{field.name}_{i}" for i in range(length - 1)]
        codes += f"B{length - 1}{code}"
        targets += [f"{field.name}_n", *parts]
        checks.append(f"{field.name}_n == {length}")
        values[field.name] = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    codes += "B"
    targets.append("tags_n")
    checks.append("tags_n == 0")
    source = Source("def run(b, p, e, left, append):")
    known = {f.name: f for f in (*layout.fields, *layout.absent)}
    arguments = [
        values.get(name) or source.default(known[name]) for name in layout.order if name in known
    ]
    size = struct.calcsize(">" + codes)
    source.line(1, f"while left and p + {size} <= e:")
    source.line(2, f"{', '.join(targets)} = {source.struct_method(codes, 'unpack_from')}(b, p)")
    source.line(2, f"if not ({' and '.join(checks)}): break")
    source.line(2, f"append({source.cls(layout)}({', '.join(arguments)}))")
    source.line(2, f"p += {size}; left -= 1")
    source.line(1, "return p, left")
    shape = "x".join(str(length - 1) for length in lengths)
    made: Run = source.compile(f"<wire shape {layout.name} v{layout.version} {shape}>", "run")
    return made
