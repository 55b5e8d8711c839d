"""Rate, stall and bound as small pictures, with the predicted border; and what was predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from bench.analysis.sweep.conclusions import Conclusions
from bench.analysis.sweep.stalls import StallCell, StallGrid, StallPanel
from bench.lines import changes_a_second
from bench.predict.model import LEAST_S, SHARE
from bench.report import charts
from bench.report.blocks import Block, Note, Panel, PanelDot, Panels, table
from emulator.config.words import duration, several

_WIDE: Final = 260.0
_HIGH: Final = 190.0
"""Of the axes, as the template has them."""
_EDGE: Final = 1.6
"""The axes go so much farther than what was measured."""


def stall_panels(found: Conclusions) -> Iterable[Block]:
    """A picture for each stall, of every grid."""
    for grid in found.stalls:
        yield _picture(grid)
    if found.stalls:
        yield Note(
            "A circle is what was measured: the seconds in which some change waited for ZooKeeper, "
            "the median of its repeats; full where any waited. The dashed line is the predicted "
            "border: changes are predicted to wait in what is shaded, and nowhere else. "
            f"✗: measured is not what was predicted ({SHARE:.0%} or {LEAST_S * 1e3:g} ms)."
        )


def _picture(grid: StallGrid) -> Panels:
    rates = sorted({cell.rate for cell in grid.cells})
    bounds = sorted({cell.bound for cell in grid.cells})
    x, y = LogAxis(rates, _WIDE), LogAxis(bounds, _HIGH)
    change = "one partition" if grid.partitions == 1 else f"{grid.partitions:,} partitions"
    far = f", each request to ZooKeeper {grid.latency_ms:g} ms longer" if grid.latency_ms else ""
    far += f", each sync of its log {grid.sync_ms:g} ms" if grid.sync_ms else ""
    return Panels(
        f"Topics of {change} are created{far}: seconds in which some change waited",
        "changes due a second",
        "bound, records",
        [(x.at(rate), f"{rate:,g}") for rate in rates],
        [(_HIGH - y.at(bound), f"{bound:,}") for bound in bounds],
        [_panel(panel, x, y) for panel in grid.panels],
    )


def _panel(panel: StallPanel, x: LogAxis, y: LogAxis) -> Panel:
    border = [(x.at(rate), _HIGH - y.at(bound)) for rate, bound in panel.border]
    area = ""
    if border and panel.stall_s:
        area = _points([*border, (border[-1][0], _HIGH), (border[0][0], _HIGH)])
    elif border:
        # Without a stall what waits is right of the border: there rates are higher.
        area = _points([*border, (_WIDE, border[-1][1]), (_WIDE, border[0][1])])
    waits = sum(cell.middle_s > 0 for cell in panel.cells)
    held = sum(cell.holds for cell in panel.cells)
    said = several(len(panel.cells), "case")
    title = (
        f"ZooKeeper stalled for {duration(1e3 * panel.stall_s)}"
        if panel.stall_s
        else "ZooKeeper never stalled"
    )
    return Panel(
        title,
        f"in {waits} of {said} some change waited; {held} as predicted",
        area,
        _points(border),
        [_dot(cell, x, y) for cell in panel.cells],
    )


def _dot(cell: StallCell, x: LogAxis, y: LogAxis) -> PanelDot:
    return PanelDot(
        x.at(cell.rate),
        _HIGH - y.at(cell.bound),
        seconds(cell.middle_s),
        cell.middle_s > 0,
        cell.holds,
        f"{changes_a_second(cell.rate)}, bound {cell.bound:,}: measured "
        f"{', '.join(seconds(each) for each in cell.measured_s)} s; predicted "
        f"{seconds(cell.predicted_s)} s",
    )


def seconds(value: float) -> str:
    """Seconds as they fit a circle.

    >>> seconds(0.0), seconds(0.04), seconds(9.24), seconds(12.3), seconds(math.inf)
    ('0', '.04', '9.2', '12', '∞')
    """
    if math.isinf(value):
        return "∞"
    if not value or value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}".removeprefix("0")


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


class LogAxis:
    """Where values are on a logarithmic axis.

    Args:
        values: at least one, above 0.
        length: of the axis, in units.
    """

    def __init__(self, values: Sequence[float], length: float) -> None:
        self._low = math.log(min(values) / _EDGE)
        self._span = math.log(max(values) * _EDGE) - self._low
        self._length = length

    def at(self, value: float) -> float:
        """Units from its beginning."""
        return self._length * (math.log(max(value, 1e-9)) - self._low) / self._span


def predicted_beside_measured(found: Conclusions) -> Iterable[Block]:
    """Each case with a stall: what was predicted, and what was measured."""
    cells = [
        cell
        for grid in found.stalls
        for cell in grid.cells
        if cell.stall_s and math.isfinite(cell.predicted_s)
    ]
    if not cells or found.predictions is None:
        return
    right = sum(cell.holds for cell in cells)
    names = {True: "as predicted", False: "not as predicted"}
    yield charts.beside_a_diagonal(
        f"{right} of {several(len(cells), 'case')} as predicted",
        "predicted, s",
        "measured, s",
        {
            name: [
                (one.predicted_s, each)
                for one in cells
                for each in one.measured_s
                if one.holds is held
            ]
            for held, name in names.items()
        },
    )
    yield Note(f"Predictions: {found.predictions.says}.")
    yield from table(
        [
            {
                "rate_per_s": one.rate,
                "stall_s": one.stall_s,
                "bound, records": one.bound,
                "predicted_s": one.predicted_s,
                "measured_s": one.middle_s,
                "repeats": len(one.measured_s),
                "as predicted": one.holds,
            }
            for one in cells
        ]
    )
