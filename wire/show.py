"""Declarations for people: all APIs, one as a grid, its generated source, an annotated dump.

Every function returns a ``Table`` or text; ``wire.cli`` prints it.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

# Importing the packages declares everything there is to show.
import wire.messages
import wire.records  # noqa: F401 - declares every record
from wire.codegen.decoder import make_decoder
from wire.codegen.encoder import make_encoder
from wire.releases import RELEASES, broker_ranges, controller_ranges
from wire.schema import Field, Layout, Spec, declared_messages, layout
from wire.walk import Span, spans

TABLE_SCHEMA: Final = "wire-table/1"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header, as text for people or as JSON for programs."""

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    legend: str = ""

    def text(self) -> str:
        """Aligned columns."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        aligned = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        title = [self.title] if self.title else []
        legend = ["", self.legend] if self.legend else []
        return "\n".join([*title, *aligned, *legend]) + "\n"

    def json(self) -> str:
        """One object: the rows, each by column."""
        rows = [dict(zip(self.header, row, strict=True)) for row in self.rows]
        return json.dumps({"schema": TABLE_SCHEMA, "rows": rows}, indent=2) + "\n"


def find(name: str) -> type:
    """The declared class of a name; ``ElectLeaders`` stands for its request.

    Raises:
        KeyError: nothing of that name is declared; the text names what is alike.
    """
    known = {what.name.lower(): cls for cls, what in declared_messages().items()}
    wanted = name.lower()
    for candidate in (wanted, f"{wanted}request", f"{wanted}record"):
        if candidate in known:
            return known[candidate]
    alike = sorted(
        what.name for what in declared_messages().values() if wanted in what.name.lower()
    )
    names = [what.name for what in declared_messages().values()]
    near = {one.lower(): one for one in names}
    alike = alike or [near[one] for one in get_close_matches(wanted, near, n=3)]
    hint = f"; did you mean {' or '.join(alike[:3])}?" if alike else ""
    raise KeyError(f"no message {name}{hint}")


def apis() -> Table:
    """All APIs in key order: their versions, and what each release's listeners speak."""
    requests = [what for what in declared_messages().values() if what.kind == "request"]
    rows = [
        [
            str(what.key),
            what.name.removesuffix("Request"),
            _range((what.min_version, what.max_version)),
            "-" if what.flexible_from is None else f"{what.flexible_from}+",
            *(_spoken(what.key or 0, release) for release in RELEASES),
        ]
        for what in sorted(requests, key=lambda what: what.key or 0)
    ]
    legend = "c controller listener, b broker in KRaft mode, z broker in ZooKeeper mode"
    return Table(["key", "api", "versions", "flexible", *RELEASES], rows, legend=legend)


def _spoken(key: int, release: str) -> str:
    """Highest version by listener, listeners that agree together: ``cz17``."""
    listeners = {
        "c": controller_ranges(release),
        "b": broker_ranges(release, mode="kraft"),
        "z": broker_ranges(release, mode="zk"),
    }
    by_version: dict[int, str] = {}
    for letter, ranges in listeners.items():
        if key in ranges:
            high = ranges[key][1]
            by_version[high] = by_version.get(high, "") + letter
    return " ".join(f"{letters}{high}" for high, letters in by_version.items()) or "."


def _range(ends: tuple[int, int]) -> str:
    low, high = ends
    return str(low) if low == high else f"{low}-{high}"


def grid(cls: type, versions: Sequence[int] | None = None) -> Table:
    """One message: each field, its wire type, and the versions it exists in.

    ``x`` is a field, ``t3`` the tagged field 3, ``?`` says that null may stand there, ``.`` that
    there is no field.

    Raises:
        DeclarationError: no release has one of the versions.
    """
    what = declared_messages()[cls]
    chosen = list(what.versions if versions is None else versions)
    rows = _grid_rows([layout(cls, version) for version in chosen], "")
    number = "" if what.key is None else f"  {_number_word(what)} {what.key}"
    flexible = "never" if what.flexible_from is None else f"{what.flexible_from}+"
    title = f"{what.name}{number}  flexible {flexible}"
    return Table(["field", "type", *(f"v{version}" for version in chosen)], rows, title)


def _number_word(what: Spec) -> str:
    return {"record": "record type", "control": "control type"}.get(what.kind, "key")


def _grid_rows(layouts: Sequence[Layout | None], path: str) -> list[list[str]]:
    """Rows of one struct over all versions; None where the struct itself does not exist."""
    names: dict[str, Field] = {}
    for form in layouts:
        if form is not None:
            by_name = {f.name: f for f in (*form.fields, *form.tagged, *form.absent)}
            names.update({name: by_name[name] for name in form.order if name in by_name})
    rows: list[list[str]] = []
    for name, any_field in names.items():
        present = [None if form is None else _present(form, name) for form in layouts]
        cells = [_cell(entry) for entry in present]
        rows.append([path + name, _type(any_field), *cells])
        if any_field.group is not None:
            inner = [None if entry is None else entry.group for entry in present]
            rows += _grid_rows(inner, f"{path}{name}.")
    return rows


def _present(form: Layout, name: str) -> Field | None:
    return next((f for f in (*form.fields, *form.tagged) if f.name == name), None)


def _cell(entry: Field | None) -> str:
    if entry is None:
        return "."
    return ("x" if entry.tag is None else f"t{entry.tag}") + ("?" if entry.nullable else "")


def _type(entry: Field) -> str:
    name = entry.kind if entry.group is None else entry.group.cls.__name__
    return f"[]{name}" if entry.array else name


def source(cls: type, version: int) -> str:
    """The source generated for one version, decoder first.

    Raises:
        DeclarationError: no release has that version.
    """
    form = layout(cls, version)
    make_decoder(form)
    make_encoder(form)
    texts = [
        "".join(linecache.getlines(f"<wire {way} {form.name} v{version}>"))
        for way in ("decode", "encode")
    ]
    return "\n\n".join(texts)


def dump(cls: type, version: int, data: bytes) -> Table:
    """An annotated dump of the bytes of a message, one row per value.

    Raises:
        DecodeError: the bytes are not one; the text of the error names where they stop being one.
        DeclarationError: no release has that version.
    """
    rows = []
    for span in spans(layout(cls, version), data):
        raw = data[span.start : span.end]
        shown = raw.hex() if len(raw) <= 12 else f"{raw[:11].hex()}.."
        rows.append([str(span.start), shown, span.path or "-", span.what, _value(span)])
    return Table(["at", "bytes", "field", "is", "value"], rows)


def _value(span: Span) -> str:
    if isinstance(span.value, bytes):
        return f"{len(span.value)} bytes" if len(span.value) > 16 else span.value.hex()
    return repr(span.value)
