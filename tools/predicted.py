"""The kept rows of ``make predict`` as a table and a picture: ``make docs`` writes both.

Whatever is shown is computed from the rows: ``python -m bench.predict --publish`` keeps new ones.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.predict import copies
from bench.predict.cells import BLOCKS_S, KEPT, kept
from bench.predict.model import LEAST_S, OPERATION_S, SHARE
from tools import lags, speeds
from tools.kept import filled

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/benchmarks.md"
_SIZE: Final = 390
_LEFT: Final = 46
_TOP: Final = 44
_SIDE: Final = 320
_ZERO: Final = 40
"""Units of the picture from 0 to the first tick; from there on the axis is logarithmic."""
_TICKS: Final = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_STYLE: Final = """\
.ground { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, sans-serif }
.line { stroke: #8c959f; fill: none } .grid { stroke: #d8dee4 } .band { fill: #ddf4ff }
.held { fill: #0969da; fill-opacity: .65 } .missed { stroke: #cf222e; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
.band { fill: #12263f } .held { fill: #58a6ff } .missed { stroke: #ff7b72 }
}
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what it is, and the seconds in which some change waited."""

    rate: float
    stall_s: float
    bound: int
    predicted_s: float
    measured_s: float
    holds: bool


def cells(rows: list[dict[str, Any]]) -> list[Cell]:
    """The cells of kept rows, in the order of the table."""
    found = [
        Cell(
            one["row"]["rate_per_s"],
            one["row"]["frozen_s"],
            one["row"]["bound_records"],
            one["predicted"]["union_s"],
            one["measured"]["union_s"],
            one["holds"],
        )
        for one in rows
    ]
    return sorted(found, key=lambda one: (one.rate, one.stall_s, one.bound))


def page() -> Iterator[str]:
    """docs/benchmarks.md with the tables of the kept rows."""
    yield filled(PAGE.read_text(), {"predictions": both, **lags.TABLES, **speeds.TABLES})


def both() -> Iterator[str]:
    """Of the cells, and of the first copies."""
    yield from table()
    yield "\n"
    yield from of_copies()


def table() -> Iterator[str]:
    """What was predicted and measured, a line for each rate and stall."""
    file, found = kept()
    shown = cells(found.rows)
    held, block = sum(one.holds for one in shown), sum(one.measured_s >= BLOCKS_S for one in shown)
    yield (
        f"Predictions `{found.digest[:16]}` (sha256) of {len(found.predictions['cells'])} cells, "
        f"written before the first one from a run of its own{_assumed(found.predictions['speed'])};"
        f" {len(shown)} are measured: {_taken(found.rows)},\n[rows](rows/{file.name}); "
        "`make predict`. ZooKeeper is stopped under creations of topics of 10 partitions.\n"
        f"Seconds in which some change waited, predicted / measured: **{held} of {len(shown)} "
        f"cells within {SHARE:.0%} or {LEAST_S * 1e3:.0f} ms**,\n{block} of them "
        f"block for {BLOCKS_S:g} s or more; what missed is in bold.\n\n"
        "![Predicted and measured, a dot for each cell](pictures/predicted.svg)\n\n"
    )
    bounds = sorted({one.bound for one in shown})
    heads = " | ".join(f"bound {one:,}" for one in bounds)
    yield f"| changes/s | stall, s | {heads} |\n|---:|---:|{'---|' * len(bounds)}\n"
    for rate, stall_s in sorted({(one.rate, one.stall_s) for one in shown}):
        there = {one.bound: one for one in shown if (one.rate, one.stall_s) == (rate, stall_s)}
        texts = " | ".join(_cell(there.get(bound)) for bound in bounds)
        yield f"| {rate:g} | {stall_s:g} | {texts} |\n"


def _assumed(speed: Mapping[str, float]) -> str:
    """What of a speed was not measured, in words.

    >>> _assumed({"operation_s": 2e-05}), _assumed({"operation_s": OPERATION_S})
    ('', ' (the time of an operation, 15 µs, is assumed: its requests were too much alike)')
    """
    if speed["operation_s"] != OPERATION_S:
        return ""
    us = f"{OPERATION_S * 1e6:g} µs"
    return f" (the time of an operation, {us}, is assumed: its requests were too much alike)"


def of_copies() -> Iterator[str]:
    """The first copies that were predicted and measured, a line for each."""
    if not any(KEPT.glob(f"{copies.NAME}-*.jsonl")):
        yield "First copies are predicted and measured by the same command. **Not measured yet**.\n"
        return
    file, found = kept(name=copies.NAME)
    held = sum(one["holds"] for one in found.rows)
    sources = [f"{one['topics']:,} x {one['partitions']}" for one in found.predictions["from"]]
    yield (
        f"First copies: predictions `{found.digest[:16]}` of {len(found.predictions['cells'])}, "
        f"written before the first one from other copies ({' and '.join(sources)} topics x "
        f"partitions: their rows and traces); {len(found.rows)} are measured: "
        f"{_taken(found.rows)},\n[rows](rows/{file.name}). Seconds from the claim to dual write: "
        f"**{held} of {len(found.rows)} within {SHARE:.0%}**; what missed is in bold.\n\n"
        "| partitions | of one topic | predicted / measured, s |\n|---:|---:|---|\n"
    )
    shapes = [
        (one["row"]["topics_present"] * one["row"]["partitions_per_topic"], one)
        for one in found.rows
    ]
    for partitions, one in sorted(shapes, key=lambda each: (each[0], each[1]["case"])):
        text = f"{one['predicted']['seconds']:.2f} / {one['measured']['seconds']:.2f}"
        text = text if one["holds"] else f"**{text}**"
        yield f"| {partitions:,} | {one['row']['partitions_per_topic']} | {text} |\n"


def _taken(found: list[dict[str, Any]]) -> str:
    """When and from which code the rows were taken.

    >>> _taken([{"row": {"started_wall_ns": 0, "code": "0123456789ab"}}])
    '1 on 1970-01-01 (code 01234567)'
    """
    days = Counter(
        (
            datetime.fromtimestamp(one["row"]["started_wall_ns"] / 1e9, UTC).date(),
            one["row"]["code"],
        )
        for one in found
    )
    return ", ".join(
        f"{count} on {day} (code {code[:8]})" for (day, code), count in sorted(days.items())
    )


def _cell(one: Cell | None) -> str:
    if one is None:
        return ""
    text = f"{_seconds(one.predicted_s)} / {_seconds(one.measured_s)}"
    return text if one.holds else f"**{text}**"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value else "0"


def picture() -> Iterator[str]:
    """docs/pictures/predicted.svg."""
    yield from drawn(cells(kept()[1].rows))


def drawn(found: list[Cell]) -> Iterator[str]:
    """An SVG of predicted against measured; light or dark as the reader's machine is.

    Args:
        found: at least one cell.
    """
    most = max(max(one.predicted_s, one.measured_s) for one in found)
    ticks = [one for one in _TICKS if one < most]
    ticks.append(next(one for one in _TICKS if one >= most))
    axis = Axis(ticks[0], ticks[-1])
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE + 42}" role="img">\n'
        "<title>Seconds in which some change waited: predicted and measured</title>\n"
        f'<style>\n{_STYLE}</style>\n<rect class="ground" width="100%" height="100%"/>\n'
    )
    yield _polygon([*_edge(axis, -1), *reversed(_edge(axis, 1))], axis)
    for value in (0, *ticks):
        x, y = _LEFT + axis.at(value), _TOP + _SIDE - axis.at(value)
        yield f'<path class="grid" d="M{x:.1f} {_TOP}v{_SIDE}M{_LEFT} {y:.1f}h{_SIDE}"/>\n'
        yield _text(x, _TOP + _SIDE + 16, f"{value:g}", "middle")
        yield _text(_LEFT - 6, y + 4, f"{value:g}", "end")
    yield f'<path class="line" d="M{_LEFT} {_TOP + _SIDE}l{_SIDE} {-_SIDE}"/>\n'
    for one in found:
        yield _point(one, axis)
    if zeros := sum(not one.predicted_s and not one.measured_s for one in found):
        yield _text(_LEFT + 9, _TOP + _SIDE - 7, f"{zeros} of them", "start")
    held = sum(one.holds for one in found)
    yield _text(_LEFT, 16, "Seconds in which some change waited, measured ↑", "start")
    yield _text(
        _LEFT, 32, f"shaded: within {SHARE:.0%} or {LEAST_S:g} s: {held} of {len(found)}", "start"
    )
    yield _text(_LEFT + _SIDE, _TOP + _SIDE + 34, "predicted →", "end")
    yield _text(_LEFT, _TOP + _SIDE + 34, f"✕ missed: {len(found) - held}", "start")
    yield "</svg>\n"


@dataclass(frozen=True, slots=True)
class Axis:
    """Where seconds are: even up to the first tick, then logarithmic."""

    first: float
    last: float

    def at(self, value: float) -> float:
        """Units from the beginning."""
        if value <= self.first:
            return _ZERO * max(0.0, value) / self.first
        grown = math.log(min(value, self.last) / self.first) / math.log(self.last / self.first)
        return _ZERO + grown * (_SIDE - _ZERO)


def _edge(axis: Axis, side: int) -> list[tuple[float, float]]:
    """(predicted, measured) at one edge of what holds."""
    steps = 60
    low = [axis.first * number / 20 for number in range(20)]
    high = [
        axis.first * (axis.last / axis.first) ** (number / steps) for number in range(steps + 1)
    ]
    return [(one + side * max(SHARE * one, LEAST_S), one) for one in (*low, *high)]


def _polygon(points: list[tuple[float, float]], axis: Axis) -> str:
    places = " ".join(
        f"{_LEFT + axis.at(x):.1f},{_TOP + _SIDE - axis.at(y):.1f}" for x, y in points
    )
    return f'<polygon class="band" points="{places}"/>\n'


def _point(one: Cell, axis: Axis) -> str:
    x, y = _LEFT + axis.at(one.predicted_s), _TOP + _SIDE - axis.at(one.measured_s)
    name = (
        f"<title>{one.rate:g}/s, {one.stall_s:g} s, bound {one.bound:,}: "
        f"{_seconds(one.predicted_s)} / {_seconds(one.measured_s)}</title>"
    )
    if one.holds:
        return f'<circle class="held" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{name}</circle>\n'
    return f'<path class="missed" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10">{name}</path>\n'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>\n'
