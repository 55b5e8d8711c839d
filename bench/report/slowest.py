"""What the slowest change of a run waited for, and why some changes have no parts, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bench.analysis.limits import PARTS
from bench.report.findings import NOT_CLOSED, Record, Tables, is_controller, wall_of
from emulator.config.words import duration, several

_WAITED: Final = {
    "client": "at the client, before it was sent",
    "broker": "at the broker or on the way",
    "queue": "in the queue of the controller",
    "blocked": "for ZooKeeper",
    "commit": "for its commit in the log",
    "answer": "for its answer",
}
_MOSTLY: Final = 0.5
_LOST_NS: Final = 1e9
"""Rows of up to so long are not in a trace that its controller did not close."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """The slowest change that was carried out.

    ``waited``: how long and where, after its time and a colon. ``brief``: the same in a few words.
    ``part``: where it waited longest, of ``PARTS``. ``changes``: that waited while another
    controller took over, if it did; else 0.
    """

    ms: float
    waited: str
    brief: str
    part: str = ""
    changes: int = 0


def slowest(tables: Tables) -> Slowest | None:
    """Of one run; None: its trace holds no load, or is of an earlier analysis."""
    for row in tables.get("slowest", ()):
        moved, changes = _moved(tables, row)
        parts = {part: row[f"{part}_ms"] for part in PARTS if row[f"{part}_ms"] is not None}
        most = max(parts, key=lambda part: parts[part], default=None)
        if most is None:
            text = "for what it waited is not known, as the trace lacks the controllers' side"
            waited, brief = f"{text}{moved and f'; {moved}'}", "for what is not known"
        else:
            where = _WAITED[most]
            waited = f"{duration(parts[most])} of it {where}{moved and f', {moved}'}"
            brief = where
        brief = "for a new leading controller" if moved else brief
        return Slowest(row["ms"], waited, brief, most or "", changes if most else 0)
    return None


def _moved(tables: Tables, row: Record) -> tuple[str, int]:
    """Whether the leading controller changed during most of a change: in words, and of how many.

    Empty, 0: it did not. The changes are those that were due and not answered meanwhile.
    """
    begin, end = row["wall_ns"], row["wall_ns"] + 1e6 * row["ms"]
    led = sorted(tables["leaders"], key=lambda one: int(one["leader_epoch"]))
    for before, after in pairwise(led):
        meanwhile = min(end, after["first_ns"]) - max(begin, before["last_ns"])
        if meanwhile >= _MOSTLY * (end - begin):
            changes = sum(
                one["count"]
                for one in tables["timeline"]
                if one["kind"] in {"change", "given up"}
                and one["wall_ns"] < after["first_ns"]
                and one["wall_ns"] + 1e6 * one["ms"] > before["last_ns"]
            )
            return f"while {_name(after)} took over from {_name(before)}", changes
    return "", 0


def _name(row: Record) -> str:
    """A controller, whichever life of it."""
    return str(row["process"]).partition(" life ")[0]


def untraced(tables: Tables, lacking: int) -> str:
    """Why so many changes have no parts: a sentence, empty if none lacks them."""
    if lacking <= 0:
        return ""
    rows = [row for row in tables.get("untraced", ()) if not row.get("changed_nothing")]
    idle = len(tables.get("untraced", ())) - len(rows)
    found = [f"{idle:,} changed nothing, so no record was written"] if idle else []
    known = idle
    for process, at in _not_closed(tables):
        if near := sum(_under_way(row, at) for row in rows):
            known += near
            was = "was" if near == 1 else "were"
            found.append(
                f"{near:,} {was} under way at the end of the trace of {process}, which was not "
                "closed, so up to 1 s may be missing"
            )
    if (rest := lacking - known) > 0:
        found.append(f"why of {rest:,} is not known" if found else "why is not known")
    return f"Of {several(lacking, 'change')} it lacks the controllers' side: {'; '.join(found)}"


def _not_closed(tables: Tables) -> Iterable[tuple[str, float]]:
    """Controllers whose trace was not closed, and the last instant in the trace of each."""
    for row in tables["missing"]:
        at = wall_of(tables, row)
        if row["why"] == NOT_CLOSED and is_controller(row["process"]) and at is not None:
            yield _name(row), at


def _under_way(row: Record, at: float) -> bool:
    return bool(row["sent_wall_ns"] <= at + _LOST_NS and row["done_wall_ns"] >= at)
