"""What a report is made of, and the one template that all reports share.

Every text may come from a trace, so the template escapes all of them; only data of pictures, as
``picture.as_json`` leaves them, are put in as they are.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from typing import Any, ClassVar, Final, TypeAlias

import jinja2
from markupsafe import Markup, escape

from bench.report.findings import Finding
from emulator.io.printable import printable_lines

_HIDDEN: Final = frozenset({"run_id", "accuracy"})
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("bench.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
_CODE: Final = re.compile(r"\n?`([^`]+)`")


def code(text: str) -> Markup:
    r"""A text in which what stands between backticks is shown as code; all of it is escaped.

    A command that is a line of its own stays one, and is broken between words only.

    >>> print(code("see `zk diff` <b>"))
    see <code>zk diff</code> &lt;b&gt;
    >>> print(code("type:\n`zk diff`\nthen"))
    type:<code class="line"><span>zk</span> <span>diff</span></code>
    then
    """
    found, last = Markup(""), 0
    for one in _CODE.finditer(text):
        line = one[0].startswith("\n")
        words = Markup(" ").join(map(Markup("<span>{}</span>").format, one[1].split()))
        shown = Markup('<code class="line">{}</code>') if line else Markup("<code>{}</code>")
        found += escape(text[last : one.start()]) + shown.format(words if line else one[1])
        last = one.end()
    return found + escape(text[last:])


_TEMPLATES.filters["code"] = code


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of ``charts``, drawn from ``data``: JSON that ends no element."""

    kind: ClassVar[str] = "chart"
    title: str
    says: str
    data: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column's name, and whether it holds words (not numbers)."""

    name: str
    word: bool


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of texts. ``stacked``: on a narrow screen a row is a list, each cell behind its name."""

    kind: ClassVar[str] = "table"
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    stacked: bool = False

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


@dataclass(frozen=True, slots=True)
class PanelDot:
    """One case in a panel. ``full``: changes waited; ``held``: as predicted; ``words``: of it."""

    x: float
    y: float
    text: str
    full: bool
    held: bool
    words: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several small pictures with the same axes; places are units of its view box.

    ``area``, ``border``: points of what is predicted, as SVG takes them; empty: none is near.
    """

    title: str
    words: str
    area: str
    border: str
    dots: Sequence[PanelDot]


@dataclass(frozen=True, slots=True)
class Panels:
    """Panels beside each other. ``x``, ``y``: what the axes are."""

    kind: ClassVar[str] = "panels"
    title: str
    x: str
    y: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Strip:
    """A line of figures with a picture; places in percent of the axis.

    ``mark``: good, bad, full, open or empty. ``band``: what is noise.
    """

    name: str
    cells: Sequence[str]
    dots: Sequence[float]
    band: tuple[float, float] | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Strips:
    """Lines under one axis. ``columns``: headings of name and cells; ``axis``: of the picture."""

    kind: ClassVar[str] = "strips"
    columns: Sequence[str]
    axis: str
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[Strip]


Block: TypeAlias = Note | Chart | ReportTable | HeatMap | Panels | Strips


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and what is below it. ``folded``: shown when somebody opens it."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to one question.

    ``state``: ``good``, ``bad``, ``full``: something limits, which is no fault; ``open``: it is not
    known. ``short``: a sentence for the verdict; empty: it says nothing. ``sure``: how certain it
    is.
    """

    question: str
    word: str
    state: str
    text: str
    short: str
    sure: str = ""


_HEADINGS: Final[Mapping[str, str]] = {
    "api": "request",
    "samples": "counted",
    "seen": "seen by",
    "mean_ms": "mean, ms",
    "p999_ms": "p99.9, ms",
    "max_ms": "longest, ms",
    "not_done": "given up",
    "not_done_ms": "given up after, ms",
    "ops": "operations",
    "zk_ms": "in ZooKeeper, ms",
    "ms_per_op": "ms an operation",
    "records_per_multi": "records a multi",
    "ops_per_multi": "operations a multi",
    "union_ms": "something waited, ms",
    "total_ms": "all waits together, ms",
    "timed_out_operations": "gave up waiting",
    "unexplained_share": "not explained",
    "behind_share": "time behind",
    "rate_per_s": "changes due a second",
    "achieved_per_s": "changes done a second",
    "us_per_partition": "\u00b5s a partition",
    "r_squared": "R\u00b2",
    "longest_ms": "longest, ms",
}
_UNITS: Final = (("_per_s", " a second"), ("_ms", ", ms"), ("_us", ", \u00b5s"), ("_s", ", s"))


def heading(name: str) -> str:
    """A column as a person reads it, with its unit.

    >>> heading("lag_p99_low_ms"), heading("p999_ms"), heading("low_per_s")
    ('lag p99 low, ms', 'p99.9, ms', 'low a second')
    """
    if name in _HEADINGS:
        return _HEADINGS[name]
    for end, unit in _UNITS:
        if name.endswith(end):
            return name.removesuffix(end).replace("_", " ") + unit
    return name.replace("_", " ")


def table(records: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Records as a table, its columns as in the first one; nothing where there are none.

    Instants of a clock that no person reads (``*_ns``) are left out.
    """
    if not records:
        return []
    names = [name for name in records[0] if name not in _HIDDEN and not name.endswith("_ns")]
    columns = [
        TableColumn(heading(name), any(isinstance(record[name], str) for record in records))
        for name in names
    ]
    return [ReportTable(columns, [[_cell(record, name) for name in names] for record in records])]


def _cell(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if name.endswith("_share") and isinstance(value, float) and math.isfinite(value):
        return f"{value:.2%}"
    return shown(value)


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


def render(
    title: str,
    findings: Sequence[Finding],
    sections: Sequence[ReportSection],
    verdict: str = "",
    *,
    about: str = "",
    answers: Sequence[Answer] = (),
) -> str:
    """The document of several runs; no text in it turns the order of others around.

    Args:
        title: of the document.
        findings: in reading order, below what is not folded.
        sections: first those that are not folded.
        verdict: the sentence that the page begins with; none: its title.
        about: the line above it; none: the title.
        answers: the cards below it.
    """
    values = {
        "title": title,
        "about": about or title,
        "findings": findings,
        "open": [one for one in sections if not one.folded],
        "folded": [one for one in sections if one.folded],
        "verdict": verdict,
        "answers": answers,
    }
    return render_page("page.html.j2", values)


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """A document with its scripts and styles, which are all that it may use."""
    files = resources.files("bench.report") / "templates"
    texts = {
        "css": [(files / name).read_text() for name in ("uPlot.min.css", "report.css")],
        "js": [(files / name).read_text() for name in ("uPlot.iife.min.js", "pictures.js")],
    }
    inline: dict[str, str] = {}
    for name, (library, own) in texts.items():
        inline[name] = f"{library}\n{own}"
        inline[f"{name}_digest"] = b64encode(sha256(inline[name].encode()).digest()).decode()
    return printable_lines(_TEMPLATES.get_template(template).render({**values, **inline}))
