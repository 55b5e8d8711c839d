"""Writes ``encode(o) -> bytes`` for one layout, or one that returns pieces, also in slices.

Neighbouring fixed-width fields, a zero for "no tagged fields" included, are written by one
``pack``. A value that has no field at this version raises unless it is the default or the field is
ignorable. Any exception means "cannot be encoded"; ``wire.diagnose`` finds the cause and the place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wire.codegen.runtime import Packers, ShapePackers
from wire.codegen.source import Source, fits_shape, scalar_array
from wire.constant import Constant
from wire.schema import EMPTY, FORMATS, Field, Layout

_NULL = {"struct": b"\xff", "string": b"\xff\xff"}
_NULL_WIDE = b"\xff\xff\xff\xff"


def make_encoder(
    layout: Layout, *, sliced: bool = False, pieces: bool = False
) -> Callable[[Any], Any]:
    """Compile the encoder of one (message, version).

    Args:
        layout: of the message.
        sliced: make a generator, which yields after each ``SLICE`` elements.
        pieces: return a list of byte strings, in which the bytes of each ``Constant`` are a piece
            of their own and not copied.
    """
    writer = _Encoder(layout, sliced, pieces)
    kind = f"{'sliced ' if sliced else ''}encode{' in pieces' if pieces else ''}"
    return writer.source.compile(f"<wire {kind} {layout.name} v{layout.version}>", "encode")


class _Encoder:
    def __init__(self, layout: Layout, sliced: bool, pieces: bool) -> None:
        self.source = Source("def encode(o):")
        self.line = self.source.line
        self.sliced = sliced
        self.cuts = pieces
        """Whether a piece may end here: not inside of what is put together later."""
        if sliced:
            self.source.begin_slices(1)
        self.line(1, "p = []; w = bytearray()" if pieces else "w = bytearray()")
        self.struct(layout, "o", 1)
        self.line(1, "p.append(w); return p" if pieces else "return bytes(w)")

    def flush(self, depth: int) -> None:
        """Write the pending run of fixed-width values."""
        run = self.source.run
        if run:
            pack = self.source.struct_method("".join(code for code, _ in run), "pack")
            self.line(depth, f"w += {pack}({', '.join(value for _, value in run)})")
            run.clear()

    def struct(self, layout: Layout, obj: str, depth: int) -> None:
        """Write one struct; nothing is pending afterwards."""
        self.absent(layout, obj, depth)
        for field in layout.fields:
            self.value(field, f"{obj}.{field.name}", depth)
        self.end(layout, obj, depth)

    def absent(self, layout: Layout, obj: str, depth: int) -> None:
        """Refuse a value that this version has no field for."""
        wrong = [
            self.differs(field, f"{obj}.{field.name}")
            for field in layout.absent
            if not field.ignorable
        ]
        if not layout.flexible:
            wrong.append(f"{obj}.unknown_tags")
        if wrong:
            self.line(depth, f"if {' or '.join(wrong)}: raise Malformed")

    def differs(self, field: Field, value: str) -> str:
        """An expression that is true when a value is not the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default in ([], ()):
            # None is not an empty array; Kafka counts it as a value of its own.
            return f"({value} is None or len({value}))" if field.nullable else f"len({value})"
        if field.default is EMPTY:
            assert field.group is not None
            name = "default_" + field.group.cls.__name__
            return f"{value} != {self.source.let(name, field.group.cls())}"
        return f"{value} != {field.default!r}"

    def end(self, layout: Layout, obj: str, depth: int) -> None:
        """Write the section of tagged fields, if this version has one."""
        if not layout.flexible:
            self.flush(depth)
            return
        if not layout.tagged:
            self.source.run.append(("B", "0"))
            self.flush(depth)
            self.line(depth, f"if {obj}.unknown_tags: w[-1:] = write_tags({obj}.unknown_tags)")
            return
        self.flush(depth)
        cuts, self.cuts = self.cuts, False
        tags, kept = self.source.name("t"), self.source.name("w")
        self.line(depth, f"{tags} = {obj}.unknown_tags")
        self.line(depth, f"{kept} = w")
        for field in layout.tagged:
            value = f"{obj}.{field.name}"
            self.line(depth, f"if {self.differs(field, value)}:")
            self.line(depth + 1, "w = bytearray()")
            self.value(field, value, depth + 1)
            self.flush(depth + 1)
            self.line(depth + 1, f"{tags} = (*{tags}, ({field.tag}, w)); w = {kept}")
        self.cuts = cuts
        self.line(depth, f"if {tags}: w += write_tags({tags})")
        self.line(depth, "else: w.append(0)")

    def value(self, field: Field, expression: str, depth: int) -> None:
        """Write one field from an expression."""
        if field.kind in FORMATS and not field.array:
            self.fixed(field, expression, depth)
            return
        name = self.source.name("v")
        self.flush(depth)
        self.line(depth, f"{name} = {expression}")
        if field.nullable:
            null = b"\0" if field.compact else _NULL_WIDE
            if not field.array:
                null = _NULL["struct"] if field.kind == "struct" else null
                null = _NULL["string"] if field.kind == "string" and not field.compact else null
            self.line(depth, f"if {name} is None: w += {null!r}")
            self.line(depth, "else:")
            depth += 1
        if field.array:
            self.array(field, name, depth)
        elif field.kind == "struct":
            assert field.group is not None
            if field.nullable:
                self.line(depth, "w.append(1)")
            self.struct(field.group, name, depth)
        else:
            self.text_or_bytes(field, name, depth)

    def fixed(self, field: Field, expression: str, depth: int) -> None:
        if field.kind == "uuid":
            name = self.source.name("v")
            self.line(depth, f"{name} = {expression}")
            self.line(depth, f"if len({name}) != 16: raise Malformed")
            expression = name
        self.source.run.append((FORMATS[field.kind], expression))

    def length(self, field: Field, count: str, depth: int) -> None:
        """Write a length or a count that is not null."""
        text = field.kind == "string" and not field.array
        if field.compact:
            slow = "write_string_length" if text else "write_varint"
            self.line(depth, f"w += VARINTS[{count} + 1] if {count} < 511 else {slow}({count} + 1)")
        else:
            pack = self.source.struct_method("h" if text else "i", "pack")
            self.line(depth, f"w += {pack}({count})")

    def text_or_bytes(self, field: Field, name: str, depth: int) -> None:
        if field.kind == "string":
            self.line(depth, f"{name} = {name}.encode()")
        count = self.source.name("n")
        self.line(depth, f"{count} = len({name})")
        self.length(field, count, depth)
        self.line(depth, f"w += {name}")

    def array(self, field: Field, name: str, depth: int) -> None:
        group = field.group
        if group is None or fits_shape(group):
            self.elements(field, name, depth)
            return
        # A struct with texts: many messages may share such an array, and its bytes.
        constant, known = self.source.let("Constant", Constant), self.source.name("k")
        begin = self.source.name("b")
        version = group.version
        self.line(depth, f"{known} = {name}.encoded if type({name}) is {constant} else None")
        made, cuts = f"{known}[{version}]", self.cuts
        cut = f"p += (w, {made}); w = bytearray()"
        put = cut if cuts else f"w += {made}"
        self.line(depth, f"if {known} and {version} in {known}: {put}")
        self.line(depth, "else:")
        self.line(depth + 1, f"{begin} = len(w)")
        self.cuts = False
        self.elements(field, name, depth + 1)
        self.cuts = cuts
        self.line(depth + 1, f"if {known} is not None:")
        # A million partitions have 50 MB: each copy counts.
        self.line(depth + 2, f"{made} = bytes(memoryview(w)[{begin}:])")
        if cuts:
            self.line(depth + 2, f"del w[{begin}:]; {cut}")

    def elements(self, field: Field, name: str, depth: int) -> None:
        """Write the length of an array, and its elements."""
        count = self.source.name("n")
        self.line(depth, f"{count} = len({name})")
        self.length(field, count, depth)
        if scalar_array(field):
            code = FORMATS[field.kind]
            packers = self.source.let("packers_" + code.replace("?", "Z"), Packers(code))
            self.line(depth, f"if {count}: w += {packers}[{count}](*{name})")
            return
        if field.kind == "uuid":
            self.line(depth, f"if any([len(i) != 16 for i in {name}]): raise Malformed")
            self.line(depth, f"w += b''.join({name})")
            return
        item = self.source.name("i")
        self.line(depth, f"for {item} in {name}:")
        if self.sliced:
            self.source.next_slice(depth + 1)
        if field.group is None:
            element = Field(
                field.name, field.kind, False, False, field.compact, None, None, False, None
            )
            self.text_or_bytes(element, item, depth + 1)
        elif fits_shape(field.group):
            self.alike(field.group, item, depth + 1)
        else:
            self.struct(field.group, item, depth + 1)

    def alike(self, group: Layout, item: str, depth: int) -> None:
        """Write a struct of fixed fields and short arrays by one ``pack`` made for its lengths."""
        self.absent(group, item, depth)
        parts, arguments, lengths = [], [], []
        for field in group.fields:
            code = FORMATS[field.kind]
            if not field.array:
                if field.kind == "uuid":
                    self.line(depth, f"if len({item}.{field.name}) != 16: raise Malformed")
                parts.append(code)
                arguments.append(f"{item}.{field.name}")
                continue
            name, count = self.source.name("v"), self.source.name("n")
            self.line(depth, f"{name} = {item}.{field.name}; {count} = len({name})")
            parts += ["B", "*" + code]
            arguments += [f"{count} + 1", f"*{name}"]
            lengths.append(count)
        shapes = self.source.let(self.source.name("shape"), ShapePackers([*parts, "B"]))
        pack = self.source.name("f")
        self.line(depth, f"{pack} = {shapes}[{', '.join(lengths)},]")
        self.line(depth, f"if {pack}: w += {pack}({', '.join([*arguments, '0'])})")
        self.line(depth, "else:")
        for field in group.fields:
            self.value(field, f"{item}.{field.name}", depth + 1)
        self.source.run.append(("B", "0"))
        self.flush(depth + 1)
        self.line(depth, f"if {item}.unknown_tags: w[-1:] = write_tags({item}.unknown_tags)")
