"""Charts of a sweep, as what a page draws them from: every repeat, their median, its interval."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench.analysis.sweep.conclusions import OURS
from bench.analysis.sweep.one_run import Run
from bench.load.figures import interval
from bench.predict.model import LEAST_S, SHARE
from bench.report.blocks import Chart
from bench.report.picture import as_json, short_name

_COLOURS: Final = ("done", "due", "lag", "server")
"""Of what is compared: none is the colour of what is bad."""
_MISSED: Final = "up"
_MARKS: Final = ("dot", "cross", "square", "diamond", "up")
_DASHES: Final = ("whole", "dashed", "dotted")


def repeats(runs: Sequence[Run], value: Callable[[Run], float | None]) -> dict[float, list[float]]:
    """The values of all repeats by their rate, from the lowest; infinite: not carried out.

    A rate that is no number is left out: rows may hold anything.
    """
    at: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        found = value(run)
        if run.rate is not None and math.isfinite(run.rate) and found is not None:
            at[run.rate].append(found)
    return dict(sorted(at.items()))


def by_rate(
    title: str,
    y: str,
    series: Mapping[str, Mapping[float, Sequence[float]]],
    *,
    logarithmic: bool,
    knees: Mapping[str, tuple[float, float | None]],
) -> Chart:
    """Repeats as marks, their median as a line, the interval of the median as a band.

    Args:
        title: what is shown.
        y: its unit.
        series: by the name of a sweep: values by rate.
        logarithmic: the axis of values.
        knees: by the name of a sweep: its knee is from here to there (None: or later).
    """
    shown = []
    # Ours first, so that it has the same colour and mark on every page.
    names = sorted(series, key=lambda name: not name.startswith(OURS))
    for index, (name, values) in enumerate((name, series[name]) for name in names):
        finite = {
            rate: [each for each in found if math.isfinite(each)] for rate, found in values.items()
        }
        medians = {
            rate: statistics.median(found)
            for rate, found in values.items()
            if found and math.isfinite(statistics.median(found))
        }
        bands = {rate: interval(found) for rate, found in finite.items() if rate in medians}
        dots = [(rate, each) for rate, found in finite.items() for each in found]
        line = _line(index, name, list(medians.items()), dots)
        line["band"] = [[rate, *found] for rate, found in bands.items() if found is not None]
        knee = knees.get(name, ())
        line["knee"] = list(knee) if all(at is None or math.isfinite(at) for at in knee) else []
        shown.append(line)
    return _chart(title, "changes due a second", y, shown, logarithmic=logarithmic)


def points(
    title: str, x: str, y: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> Chart:
    """Marks alone: what one thing does by another."""
    shown = [
        _line(index, name, [], [each for each in found if all(map(math.isfinite, each))])
        for index, (name, found) in enumerate(series.items())
    ]
    return _chart(title, x, y, shown, logarithmic=False)


def beside_a_diagonal(
    title: str, x: str, y: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> Chart:
    """Marks of what was measured by what was predicted; the band is what counts as equal.

    Args:
        title: what is shown.
        x: of what was predicted, with its unit, s.
        y: the same of what was measured.
        series: by a name: (predicted, measured); names without any are left out, and all behind
            the first are of what was not as predicted.
    """
    known = {name: found for name, found in series.items() if found}
    most = max((max(each) for found in known.values() for each in found), default=1.0) or 1.0
    steps = [most * at / 20 for at in range(21)]
    line = _line(2, "equal", [(at, at) for at in steps], [])
    # What was measured is within SHARE of itself, or LEAST_S, of what was predicted.
    line["band"] = [
        [at, max(0.0, min(at - LEAST_S, at / (1 + SHARE))), max(at + LEAST_S, at / (1 - SHARE))]
        for at in steps
    ]
    del line["mark"]  # its sign is the line
    shown = [line, *(_line(at, name, [], found) for at, (name, found) in enumerate(known.items()))]
    for one in shown[2:]:
        one["colour"] = _MISSED
    return _chart(title, x, y, shown, logarithmic=False)


def _line(
    index: int,
    name: str,
    line: Sequence[tuple[float, float]],
    dots: Sequence[tuple[float, float]],
) -> dict[str, Any]:
    return {
        "name": short_name(name),
        "colour": _COLOURS[index % len(_COLOURS)],
        "mark": _MARKS[index % len(_MARKS)],
        "dash": _DASHES[index // len(_COLOURS) % len(_DASHES)],
        "line": [list(each) for each in line],
        "dots": [list(each) for each in dots],
    }


def _chart(
    title: str, x: str, y: str, series: Sequence[Mapping[str, Any]], *, logarithmic: bool
) -> Chart:
    data = {"x": x, "y": y, "log": logarithmic, "series": series}
    return Chart(title, f"{y} by {x}", as_json(data))
