"""Declarations for people: all APIs, one as a grid, its generated source, an annotated dump.

Every function returns text; ``wire.cli`` prints it.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence

# Importing the packages declares everything there is to show.
import wire.messages
import wire.records  # noqa: F401
from wire.codegen.decoder import make_decoder
from wire.codegen.encoder import make_encoder
from wire.releases import RELEASES, broker_ranges, controller_ranges
from wire.schema import Field, Layout, Spec, declared_messages, layout
from wire.walk import Span, Walker


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
    raise KeyError(f"no message {name}" + (f"; there is {', '.join(alike)}" if alike else ""))


def apis() -> str:
    """All APIs in key order: their versions, and what each release's listeners speak."""
    requests = sorted(
        (what for what in declared_messages().values() if what.kind == "request"),
        key=lambda what: what.key or 0,
    )
    rows = [["key", "api", "versions", "flexible", *RELEASES]]
    for what in requests:
        assert what.key is not None
        rows.append(
            [
                str(what.key),
                what.name.removesuffix("Request"),
                _range((what.min_version, what.max_version)),
                "-" if what.flexible_from is None else f"{what.flexible_from}+",
                *(_spoken(what.key, release) for release in RELEASES),
            ]
        )
    legend = "c controller listener, b broker in KRaft mode, z broker in ZooKeeper mode"
    return f"{_table(rows)}\n\n{legend}\n"


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


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def grid(cls: type) -> str:
    """One message: each field, its wire type, and the versions it exists in.

    ``x`` is a field, ``t3`` the tagged field 3, ``?`` says that null may stand there, ``.`` that
    there is no field.
    """
    what = declared_messages()[cls]
    versions = what.versions
    layouts = [layout(cls, version) for version in versions]
    rows = [["", "", *(f"v{version}" for version in versions)]]
    rows += _grid_rows(layouts, 1)
    number = "" if what.key is None else f"  {_number_word(what)} {what.key}"
    flexible = "never" if what.flexible_from is None else f"{what.flexible_from}+"
    return f"{what.name}{number}  flexible {flexible}\n{_table(rows)}\n"


def _number_word(what: Spec) -> str:
    return {"record": "record type", "control": "control type"}.get(what.kind, "key")


def _grid_rows(layouts: Sequence[Layout | None], depth: int) -> list[list[str]]:
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
        rows.append(["  " * depth + name, _type(any_field), *cells])
        if any_field.group is not None:
            inner = [None if entry is None else entry.group for entry in present]
            rows += _grid_rows(inner, depth + 1)
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


def dump(cls: type, version: int, data: bytes) -> str:
    """What stands where in the bytes of a message, one line per value.

    Raises:
        DecodeError: the bytes are not one; the text of the error names where they stop being one.
        DeclarationError: no release has that version.
    """
    found: list[Span] = []
    Walker(layout(cls, version), data, found.append).walk()
    rows = [["at", "bytes", "field", "is", "value"]]
    for span in found:
        raw = data[span.start : span.end]
        shown = raw.hex() if len(raw) <= 12 else f"{raw[:11].hex()}.."
        rows.append([str(span.start), shown, span.path or "-", span.what, _value(span)])
    return _table(rows) + "\n"


def _value(span: Span) -> str:
    if isinstance(span.value, bytes):
        return f"{len(span.value)} bytes" if len(span.value) > 16 else span.value.hex()
    return repr(span.value)
