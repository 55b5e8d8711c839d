"""What a report is made of, and the one template that all reports share.

Every text may come from a trace, so the template escapes all of them; only charts, which
``charts`` draws, are put in as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import jinja2

from bench.report.findings import Finding
from emulator.io.printable import printable_lines

_HIDDEN: Final = frozenset({"run_id", "accuracy"})
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("bench.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """An ``<svg>`` element of ``charts``."""

    kind: ClassVar[str] = "chart"
    svg: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column's name, and whether it holds words (not numbers)."""

    name: str
    word: bool


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of texts."""

    kind: ClassVar[str] = "table"
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]

    def cells(self, row: Sequence[str]) -> Iterator[tuple[TableColumn, str]]:
        """Each cell with its column."""
        return zip(self.columns, row, strict=True)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Shares between 0 and 1, by row and column; None: not measured."""

    kind: ClassVar[str] = "heat"
    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]


Block: TypeAlias = Note | Chart | ReportTable | HeatMap


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and what is below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)


def table(records: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Records as a table, its columns as in the first one; nothing where there are none."""
    if not records:
        return []
    names = [name for name in records[0] if name not in _HIDDEN]
    columns = [
        TableColumn(name, any(isinstance(record[name], str) for record in records))
        for name in names
    ]
    return [ReportTable(columns, [[shown(record[name]) for name in names] for record in records])]


def shown(value: Any) -> str:
    """A value as text.

    >>> shown(1234.5), shown(0.12345), shown(12345), shown(None), shown(True), shown(math.inf)
    ('1,234', '0.1235', '12,345', '-', 'yes', 'not done')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == math.inf:
        return "not done"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def render(title: str, findings: Sequence[Finding], sections: Sequence[ReportSection]) -> str:
    """One self-contained HTML document; no text in it turns the order of others around."""
    page = _TEMPLATES.get_template("page.html.j2")
    return printable_lines(page.render(title=title, findings=findings, sections=sections))
