"""Charts as SVG text: plain sequences in, one ``<svg>`` element out."""

from __future__ import annotations

import io
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from emulator.servers.own_folder import private_folder

# Otherwise matplotlib writes to the user's home, and warns where it cannot.
os.environ.setdefault("MPLCONFIGDIR", str(private_folder(os.getpid()) / "matplotlib"))

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "text.parse_math": False,  # names come from traces: a $ in them begins no formula
}
COLOURS: Final = ("#2b87a8", "#d1495b", "#b97e0e", "#66a182", "#8d6a9f", "#8a8f94")

_LEGEND_LETTERS: Final = 50
"""As wide as the axes, about."""


def _svg(figure: Figure, salt: str) -> str:
    """Render without metadata; ids are salted, for several charts share one document."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(
            out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)  # names of groups, the same in each chart
    text = text.replace("#000000", "currentColor")  # ink of the page, dark or light
    return text[text.index("<svg") :]


def _axes(title: str, x: str, y: str, height: float = 2.6) -> tuple[Figure, Any]:
    figure = Figure(figsize=(4.4, height))
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=9, wrap=True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _legend(axes: Any) -> None:
    """Below the axes, where it hides no line; a long name would make all letters smaller."""
    handles, names = axes.get_legend_handles_labels()
    names = [textwrap.fill(name, _LEGEND_LETTERS) for name in names]
    axes.legend(
        handles, names, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.18)
    )


def _logarithmic(axes: Any) -> None:
    """A logarithmic scale whose numbers are written out."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("")


@mpl.rc_context(_STYLE)
def curves(
    title: str,
    x: str,
    y: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    logarithmic: bool = False,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Points joined by lines, one line per name; a dotted upright at each of ``marks``."""
    figure, axes = _axes(title, x, y, height=3.2)
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(series)}
    for index, (name, points) in enumerate(series.items()):
        style = ("-", "--", "-.", ":")[index // len(COLOURS) % 4]
        xs, ys = [at for at, _ in points], [value for _, value in points]
        axes.plot(
            xs, ys, style, marker="o", markersize=3, label=name, color=colours[name], linewidth=1.1
        )
    for name, at in (marks or {}).items():
        axes.axvline(at, color=colours.get(name, COLOURS[-1]), linestyle=":", linewidth=0.9)
    if logarithmic and any(value > 0 for points in series.values() for _, value in points):
        _logarithmic(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    if series:
        _legend(axes)
    return _svg(figure, title)
