"""What the pictures of a run are drawn from: plain numbers on one wall clock, as JSON."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.analysis.quorum import QUORUM
from bench.report.beside import Beside, RunEvent
from bench.report.findings import Record, Tables, bounds_of, is_controller
from emulator.io.printable import printable
from emulator.trace.distribution import enough

_LETTERS: Final = 60
EVENTS: Final = 99
"""So many have room in a picture."""
_SYNC_MARKS: Final = ("dot", "square", "diamond", "up")
_COLOURS: Final = ("done", "lag", "server", "due")
_SECOND_NS: Final = 1e9


def picture(tables: Tables, beside: Beside) -> dict[str, Any]:
    """The series of one run; times are seconds since 1970, values ms, records or a number.

    Args:
        tables: of this run alone.
        beside: what was written beside the trace.
    """
    kinds: defaultdict[str, list[Record]] = defaultdict(list)
    for row in sorted(tables["timeline"], key=lambda row: row["wall_ns"]):
        kinds[row["kind"]].append(row)
    lag = _lag(tables["lag_chart"])
    events = [
        {"t": _s(one.wall_ns), "n": number, "what": printable(one.what)}
        for number, one in enumerate(events_of(tables, beside)[:EVENTS], 1)
    ]
    times = [
        *(event["t"] for event in events),
        *(time for one in lag for time in one["t"]),
        *(_s(row["wall_ns"]) + row["ms"] / 1e3 for row in tables["timeline"]),
        *(_s(row["wall_ns"]) for row in tables["timeline"]),
    ]
    due = [_s(row["wall_ns"]) for row in kinds["due"]]
    answered = [_s(row["wall_ns"]) for name in ("done", "refused") for row in kinds[name]]
    return {
        "from": min(times, default=0.0),
        "to": max(times, default=1.0),
        "load": [min(due) - 1, max([*due, *answered]) + 1] if due else None,
        "events": events,
        "changes": _marks(kinds, {"change": ("done", "done", "dot"), "given up": _GIVEN_UP}),
        "rates": _rates(kinds),
        "lag": lag,
        "bounds": _bounds(tables) if lag else [],
        "blocked": [
            [_s(row["wall_ns"]), _s(row["wall_ns"] + 1e6 * row["ms"])] for row in kinds["blocked"]
        ],
        "multis": _multis(kinds),
        "syncs": _syncs(kinds, tables["leaders"]),
        "percentiles": _percentiles(tables["percentiles"]),
    }


_GIVEN_UP: Final = ("given up, after so long", "up", "cross")


def as_json(found: Mapping[str, Any]) -> str:
    """As a page holds it: no text ends the element that it lies in, or is no ASCII."""
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _s(wall_ns: float) -> float:
    return round(wall_ns / _SECOND_NS, 3)


def short_name(text: str) -> str:
    """A name of the trace, as a picture has room for it."""
    shown = printable(text)
    return shown if len(shown) <= _LETTERS else f"{shown[: _LETTERS - 1]}…"


def _series(name: str, rows: Sequence[Record], colour: str, mark: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": short_name(name),
        "colour": colour,
        "t": [_s(row["wall_ns"]) for row in rows],
        "v": [_short(row["ms"]) for row in rows],
    }
    return found | ({"mark": mark} if mark else {})


def _short(value: float) -> float:
    """Four digits are more than a pixel shows; 0 has no place on a logarithmic axis."""
    return float(f"{max(value, 1e-3):.4g}")


def _marks(
    kinds: Mapping[str, Sequence[Record]], shown: Mapping[str, tuple[str, str, str]]
) -> list[dict[str, Any]]:
    return [
        _series(name, kinds[kind], colour, mark)
        for kind, (name, colour, mark) in shown.items()
        if kinds.get(kind)
    ]


def _rates(kinds: Mapping[str, Sequence[Record]]) -> list[dict[str, Any]]:
    """Of all clients together, 0 where nothing was."""
    counts: dict[str, defaultdict[int, int]] = {}
    slices = [row for kind in ("due", "done", "refused") for row in kinds.get(kind, ())]
    if not slices:
        return []
    length_s = max(row["slice_s"] for row in slices)
    length = round(length_s * _SECOND_NS)
    for kind in ("due", "done", "refused"):
        counts[kind] = defaultdict(int)
        for row in kinds.get(kind, ()):
            counts[kind][row["wall_ns"]] += row["count"]
    begin, end = min(row["wall_ns"] for row in slices), max(row["wall_ns"] for row in slices)
    walls = range(begin, end + 2 * length, length)
    looks = {
        "due": ("due", "due", "dashed"),
        "done": ("done", "done", "whole"),
        "refused": ("given up", "up", "dotted"),
    }
    return [
        {
            "name": name,
            "colour": colour,
            "dash": dash,
            "t": [_s(wall) for wall in walls],
            "v": [round(counts[kind][wall] / length_s, 3) for wall in walls],
        }
        for kind, (name, colour, dash) in looks.items()
        if kind != "refused" or counts[kind]
    ]


def _lag(rows: Sequence[Record]) -> list[dict[str, Any]]:
    """Of the quorum, where several led; else of each controller."""
    together = [row for row in rows if row["process"] == QUORUM] or rows
    by: defaultdict[str, list[Record]] = defaultdict(list)
    for row in sorted(together, key=lambda row: row["wall_ns"]):
        by[row["process"]].append(row)
    return [
        {
            "name": short_name("records behind" if len(by) == 1 else f"records behind, {process}"),
            "colour": _COLOURS[(1 + at) % len(_COLOURS)],
            "dash": ("whole", "dashed", "dotted")[at % 3],
            "t": [_s(row["wall_ns"]) for row in found],
            "v": [row["lag_records"] for row in found],
        }
        for at, (process, found) in enumerate(sorted(by.items()))
    ]


def _bounds(tables: Tables) -> list[dict[str, Any]]:
    for row in tables["lag_summary"]:
        bound, hard = bounds_of(tables, row["run_id"], row["process"])
        if bound:
            lines = [
                {"v": 0.75 * bound, "name": "changes go on: 75 %", "dash": "dotted"},
                {"v": bound, "name": f"changes wait: {bound:,}", "dash": "dashed"},
            ]
            if hard:
                name = f"deletions and brokers wait: {hard:,}"
                lines.append({"v": hard, "name": name, "dash": "whole"})
            return [line | {"colour": "bad"} for line in lines]
    return []


def _multis(kinds: Mapping[str, Sequence[Record]]) -> list[dict[str, Any]]:
    shown = {
        "multi": ("multi answered after", "done", "dot"),
        "lost multi": ("multi refused or lost", "up", "cross"),
    }
    found = _marks(kinds, shown)
    rows = [*kinds.get("multi", ()), *kinds.get("lost multi", ())]
    if rows:
        # Little's law: the time of all by the length of the slice is how many were in flight.
        flight = [{**row, "ms": row["sum_ms"] / (1e3 * row["slice_s"])} for row in rows]
        ordered = sorted(flight, key=lambda row: float(row["wall_ns"]))
        line = _series("in flight, mean (right)", ordered, "lag")
        found.append(line | {"scale": "flight", "dash": "dotted", "plain": True})
    return found


def _syncs(
    kinds: Mapping[str, Sequence[Record]], leaders: Sequence[Record]
) -> list[dict[str, Any]]:
    """Of leaders: what is committed is a follower's wait for the next answer, not for its disk."""
    by: defaultdict[str, list[Record]] = defaultdict(list)
    for row in kinds.get("sync", ()):
        if any(
            led["process"] == row["process"] and led["first_ns"] <= row["wall_ns"] <= led["last_ns"]
            for led in leaders
        ):
            by[row["process"]].append(row)
    most = sorted(by, key=lambda process: -len(by[process]))[: len(_SYNC_MARKS)]
    found = [
        _series(f"log sync, {process}", by[process], _COLOURS[at], _SYNC_MARKS[at])
        for at, process in enumerate(sorted(most))
    ]
    if stalls := kinds.get("stall"):
        found.append(_series("event loop stalled", stalls, "up", "cross"))
    return found


def _percentiles(rows: Sequence[Record]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    looks = {
        "client": ("at the client, from when it was due", "done", "whole"),
        "controller": ("in the controller", "lag", "dashed"),
    }
    for seen, (name, colour, dash) in looks.items():
        # The longest, which the table has too, is no percentile; a give-up is shown in any case.
        points = [
            (_nines(row), row["ms"])
            for row in rows
            if row["seen"] == seen
            and (not math.isfinite(row["ms"]) or enough(row["samples"], 1 - row["beyond"]))
        ]
        points = sorted(dict(points).items())
        done = [(at, value) for at, value in points if math.isfinite(value)]
        up = [at for at, value in points if not math.isfinite(value)]
        if done:
            line = {"t": [at for at, _ in done], "v": [_short(value) for _, value in done]}
            found.append({"name": name, "colour": colour, "dash": dash, **line})
        shortest = [row["censored_ms"] for row in rows if row["seen"] == seen]
        if up and shortest and shortest[0]:
            line = {"t": up, "v": [_short(shortest[0])] * len(up)}
            found.append({"name": "given up: longer than", "colour": "up", "mark": "up", **line})
    return found


def _nines(row: Record) -> float:
    """How many nines: 1 is p90, 2 is p99; the longest lies where one sample is beyond."""
    beyond = row["beyond"] or 1 / max(2, row["samples"])
    return float(f"{-math.log10(beyond):.4g}")


def events_of(tables: Tables, beside: Beside) -> list[RunEvent]:
    """What happened, by the trace and by what was written beside it, in order."""
    found = [*beside.events, *_of_lives(tables), *_of_load(tables)]
    return sorted(found, key=lambda one: one.wall_ns)


def _of_lives(tables: Tables) -> Iterable[RunEvent]:
    ended = {row["process"] for row in tables["missing"] if row["why"] == "no end"}
    for row in tables["lives"]:
        if row["first_ns"] is not None and is_controller(row["process"]):
            yield RunEvent(row["first_ns"], f"{row['process']} starts")
        if row["last_ns"] is not None and row["process"] in ended:
            yield RunEvent(row["last_ns"], f"{row['process']}: nothing more in its trace")
    for row in tables["leaders"]:
        text = f"{row['process']} leads, epoch {row['leader_epoch']}"
        yield RunEvent(row["first_ns"], text)
    multis = [row["wall_ns"] for row in tables["timeline"] if row["kind"] == "multi"]
    if multis:
        yield RunEvent(min(multis), "first write to ZooKeeper")


def _of_load(tables: Tables) -> Iterable[RunEvent]:
    due = [row["wall_ns"] for row in tables["timeline"] if row["kind"] in {"change", "given up"}]
    if due:
        yield RunEvent(min(due), "first change due")
        yield RunEvent(max(due), "last change due")
