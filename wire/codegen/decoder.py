"""Writes ``decode(b) -> object`` for one layout, or the same as a generator that works in slices.

Neighbouring fixed-width fields, and the first byte of a compact length after them, are read by one
``unpack_from``. Slices past the end are short without an exception, so the position is checked at
these places: before an array is sized, at the end of a tagged field, and at the end of the message.
Any exception means "malformed".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wire.codegen.runtime import Unpackers
from wire.codegen.shapes import shape_reader
from wire.codegen.source import NUMBERS, SLICE, Source, fits_shape, scalar_array, width
from wire.schema import FORMATS, Field, Layout


def make_decoder(
    layout: Layout, *, bounded: bool = False, sliced: bool = False
) -> Callable[..., Any]:
    """Compile the decoder of one (message, version).

    Args:
        layout: of the message.
        bounded: the decoder takes a second argument: the most structs, texts, ids and tagged fields
            that all arrays together may have; more raise ``TooManyError``.
        sliced: make a generator, which yields after each ``SLICE`` elements.
    """
    writer = _Decoder(layout, bounded, sliced)
    kind = f"{'sliced ' if sliced else ''}{'bounded ' if bounded else ''}decode"
    return writer.source.compile(f"<wire {kind} {layout.name} v{layout.version}>", "decode")


class _Decoder:
    def __init__(self, layout: Layout, bounded: bool, sliced: bool) -> None:
        self.source = Source("def decode(b, most):" if bounded else "def decode(b):")
        self.line = self.source.line
        self.bounded, self.sliced = bounded, sliced
        if sliced:
            self.source.begin_slices(1)
        self.line(1, "e = len(b)")
        self.line(1, "p = 0")
        value = self.struct(layout, 1)
        self.line(1, "if p != e: raise Malformed")
        self.line(1, f"return {value}")

    def counted(self, depth: int, count: str) -> None:
        """So many elements follow."""
        if self.bounded:
            self.line(depth, f"most -= {count}")
            self.line(depth, "if most < 0: raise TooMany")

    def flush(self, depth: int) -> None:
        """Read the pending run of fixed-width values."""
        run = self.source.run
        if not run:
            return
        codes = "".join(code for code, _ in run)
        if codes == "B":
            self.line(depth, f"{run[0][1]} = b[p]; p += 1")
        else:
            targets = ", ".join(name for _, name in run) + ("," if len(run) == 1 else "")
            unpack = self.source.struct_method(codes, "unpack_from")
            self.line(depth, f"{targets} = {unpack}(b, p); p += {width(codes)}")
        run.clear()

    def varint(self, depth: int, reader: str = "read_varint") -> str:
        name = self.source.name("n")
        self.source.run.append(("B", name))
        self.flush(depth)
        self.line(depth, f"if {name} > 127: {name}, p = {reader}(b, p, {name})")
        return name

    def classic_length(self, depth: int, code: str) -> str:
        name = self.source.name("n")
        self.source.run.append((code, name))
        self.flush(depth)
        return name

    def otherwise_null(self, depth: int, field: Field, target: str, length: str) -> None:
        """The branch taken when no value follows: null where allowed, malformed elsewhere."""
        if not field.nullable:
            self.line(depth, "else: raise Malformed")
        elif field.compact:
            self.line(depth, f"else: {target} = None")
        else:
            self.line(depth, f"elif {length} == -1: {target} = None")
            self.line(depth, "else: raise Malformed")

    def value(self, field: Field, depth: int) -> str:
        """Read one field; returns the name it is in (fixed-width ones: after the next flush)."""
        if field.array:
            return self.array(field, depth)
        return self.single(field, depth)

    def single(self, field: Field, depth: int) -> str:
        target = self.source.name("v")
        if field.kind in FORMATS:
            self.source.run.append((FORMATS[field.kind], target))
        elif field.kind == "struct":
            assert field.group is not None
            if not field.nullable:
                return self.struct(field.group, depth)
            flag = self.source.name("n")
            self.source.run.append(("b", flag))
            self.flush(depth)
            self.line(depth, f"if {flag} >= 0:")
            inner = self.struct(field.group, depth + 1)
            self.line(depth + 1, f"{target} = {inner}")
            self.line(depth, f"else: {target} = None")
        else:
            self.text_or_bytes(field, target, depth)
        return target

    def text_or_bytes(self, field: Field, target: str, depth: int) -> None:
        text = field.kind == "string"
        if field.compact:
            length = self.varint(depth, "read_string_length" if text else "read_varint")
            self.line(depth, f"if {length}:")
            self.line(depth + 1, f"q = p + {length} - 1")
        else:
            length = self.classic_length(depth, "h" if text else "i")
            self.line(depth, f"if {length} >= 0:")
            self.line(depth + 1, f"q = p + {length}")
        self.line(depth + 1, f"{target} = b[p:q]{'.decode()' if text else ''}; p = q")
        self.otherwise_null(depth, field, target, length)

    def array(self, field: Field, depth: int) -> str:
        target = self.source.name("v")
        if field.compact:
            count = self.varint(depth)
            self.line(depth, f"if {count}:")
            self.line(depth + 1, f"{count} -= 1")
        else:
            count = self.classic_length(depth, "i")
            self.line(depth, f"if {count} >= 0:")
        self.elements(field, target, count, depth + 1)
        self.otherwise_null(depth, field, target, count)
        return target

    def elements(self, field: Field, target: str, count: str, depth: int) -> None:
        """Read ``count`` elements into ``target``; every element takes at least one byte."""
        if scalar_array(field):
            code = FORMATS[field.kind]
            size = width(code)
            unpackers = self.source.let("unpackers_" + code.replace("?", "Z"), Unpackers(code))
            self.line(depth, f"q = p + {count}{f' * {size}' if size > 1 else ''}")
            self.line(depth, "if q > e: raise Malformed")
            if self.sliced:
                self.numbers(target, count, unpackers, size, depth)
                return
            self.line(depth, f"{target} = {unpackers}[{count}](b, p); p = q")
        elif field.kind == "uuid" and not self.sliced:
            self.line(depth, f"q = p + {count} * 16")
            self.line(depth, "if q > e: raise Malformed")
            self.counted(depth, count)
            self.line(depth, f"{target} = tuple([b[i:i + 16] for i in range(p, q, 16)]); p = q")
        else:
            self.line(depth, f"if {count} > e - p: raise Malformed")
            self.counted(depth, count)
            self.line(depth, f"{target} = []; {target}_append = {target}.append")
            if field.group is not None and fits_shape(field.group):
                self.alike(field.group, target, count, depth)
                return
            self.line(depth, f"for _ in range({count}):")
            if self.sliced:
                self.source.next_slice(depth + 1)
            element = Field(
                field.name, field.kind, False, False, field.compact, None, None, False, field.group
            )
            inner = self.single(element, depth + 1)
            self.flush(depth + 1)
            self.line(depth + 1, f"{target}_append({inner})")
            if field.kind != "struct":
                self.line(depth, f"{target} = tuple({target})")

    def numbers(self, target: str, count: str, unpackers: str, size: int, depth: int) -> None:
        """Read an array of numbers, many of them at a time."""
        read = f"{unpackers}[{NUMBERS}](b, p); p += {NUMBERS * size}; {count} -= {NUMBERS}; yield"
        self.line(depth, f"{target} = []")
        self.line(depth, f"while {count} > {NUMBERS}: {target} += {read}")
        self.line(
            depth, f"{target} += {unpackers}[{count}](b, p); {target} = tuple({target}); p = q"
        )

    def alike(self, group: Layout, target: str, count: str, depth: int) -> None:
        """Read one struct normally, then assume that the next ones have the same shape."""
        lengths: list[str] = []
        reader = self.source.let(self.source.name("shape"), shape_reader(group))
        self.line(depth, f"while {count}:")
        inner = self.struct(group, depth + 1, lengths)
        self.line(depth + 1, f"{target}_append({inner}); {count} -= 1")
        key = ", ".join(lengths) + ","
        self.line(depth + 1, f"if {count} > 1:")
        if not self.sliced:
            self.line(depth + 2, f"p, {count} = {reader}[{key}](b, p, e, {count}, {target}_append)")
            return
        some, rest = self.source.name("some"), self.source.name("rest")
        self.line(depth + 2, f"{some} = min({count}, {SLICE})")
        self.line(depth + 2, f"p, {rest} = {reader}[{key}](b, p, e, {some}, {target}_append)")
        self.line(depth + 2, f"{count} -= {some} - {rest}")
        self.source.next_slice(depth + 2, f"{some} - {rest}")

    def struct(self, layout: Layout, depth: int, lengths: list[str] | None = None) -> str:
        """Read one struct; ``lengths`` collects names that keep its arrays' raw lengths."""
        values: dict[str, str] = {}
        for field in layout.fields:
            if lengths is not None and field.array:
                kept = self.source.name("k")
                values[field.name] = self.kept_array(field, kept, depth)
                lengths.append(kept)
            else:
                values[field.name] = self.value(field, depth)
        if not layout.flexible:
            self.flush(depth)
            return self.build(layout, values, {})
        count = self.varint(depth)
        result = self.source.name("o")
        self.line(depth, f"if {count}:")
        tagged = self.tags(layout, count, depth + 1)
        self.line(depth + 1, f"{result} = {self.build(layout, values, tagged)}")
        self.line(depth, f"else: {result} = {self.build(layout, values, {})}")
        return result

    def kept_array(self, field: Field, kept: str, depth: int) -> str:
        target = self.source.name("v")
        count = self.varint(depth)
        self.line(depth, f"{kept} = {count}")
        self.line(depth, f"if {count}:")
        self.line(depth + 1, f"{count} -= 1")
        self.elements(field, target, count, depth + 1)
        self.otherwise_null(depth, field, target, count)
        return target

    def build(self, layout: Layout, values: dict[str, str], tagged: dict[str, str]) -> str:
        """The constructor call: positional, with defaults for what is not there."""
        known = {f.name: f for f in (*layout.fields, *layout.tagged, *layout.absent)}
        arguments: list[str] = []
        needed = 0
        for name in layout.order:
            given = values.get(name) or tagged.get(name)
            if given is None and name in known:
                arguments.append(self.source.default(known[name]))
            elif given is not None:
                arguments.append(given)
                needed = len(arguments)
        return f"{self.source.cls(layout)}({', '.join(arguments[:needed])})"

    def tags(self, layout: Layout, count: str, depth: int) -> dict[str, str]:
        """Read a section of tagged fields; returns the names its values are in."""
        found: dict[str, str] = {}
        tag, end, unknown = (self.source.name(stem) for stem in ("t", "z", "u"))
        self.counted(depth, count)
        self.line(depth, f"{unknown} = []")
        for field in layout.tagged:
            found[field.name] = self.source.name("v")
            self.line(depth, f"{found[field.name]} = {self.source.default(field)}")
        self.line(depth, f"for _ in range({count}):")
        if self.sliced:
            self.source.next_slice(depth + 1)
        for name in (tag, end):
            self.line(depth + 1, f"{name} = b[p]; p += 1")
            self.line(depth + 1, f"if {name} > 127: {name}, p = read_varint(b, p, {name})")
        self.line(depth + 1, f"{end} += p")
        self.line(depth + 1, f"if {end} > e: raise Malformed")
        word = "if"
        for field in layout.tagged:
            self.line(depth + 1, f"{word} {tag} == {field.tag}:")
            inner = self.value(field, depth + 2)
            self.flush(depth + 2)
            self.line(depth + 2, f"{found[field.name]} = {inner}")
            self.line(depth + 2, f"if p != {end}: raise Malformed")
            word = "elif"
        body = f"{unknown}.append(({tag}, b[p:{end}])); p = {end}"
        if layout.tagged:
            self.line(depth + 1, f"else: {body}")
        else:
            self.line(depth + 1, body)
        self.line(depth, f"{unknown} = tuple({unknown})")
        found["unknown_tags"] = unknown
        return found
