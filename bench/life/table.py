"""The rows of a life and the table that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.record import Proof


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart of a server, and what clients waited for meanwhile."""

    server: str
    change: str
    """Such as ``migrating to kraft``."""
    seconds: float
    """Until every replica was in sync again."""
    record_s: float
    """Longest wait for an acknowledgement."""
    change_s: float | None
    """Longest wait for an administrative change; None: none was answered meanwhile."""


@dataclass(slots=True)
class PhaseRow:
    """The figures of one phase."""

    release: str
    phase: str
    seconds: float = 0.0
    restarts: list[Restart] = field(default_factory=list)
    record_s: float = 0.0
    """Longest wait for an acknowledgement of a record."""
    change_s: float | None = None
    """Longest wait for an administrative change to be carried out."""
    nobody_s: float = 0.0
    """Seconds without a controller."""
    lag_records: int = 0
    """Longest lag of ZooKeeper, in records that change something."""
    lag_ms: int = 0
    records: int = 0
    """Acknowledged since the life began."""
    changes: int = 0
    """Carried out in this phase."""
    checks: list[str] = field(default_factory=list)
    """What held, with figures."""
    wrong: list[str] = field(default_factory=list)
    """What did not hold, with figures."""
    unjudged: list[str] = field(default_factory=list)
    """What was slower than it should be, with what else this machine did."""
    cut: int = 0
    """How often the phase was begun before and cut."""


_HEAD: Final = (
    "release",
    "phase",
    "seconds",
    "restarts",
    "longest wait for a record, s",
    "for a change, s",
    "without a controller, s",
    "longest lag",
    "checks",
)


def table(rows: Sequence[PhaseRow]) -> list[str]:
    """Lines of a table in Markdown, one for each phase."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---|" + "---:|" * (len(_HEAD) - 3) + "---|"]
    return lines + ["| " + " | ".join(_cells(row)) + " |" for row in rows]


def _cells(row: PhaseRow) -> list[str]:
    held = f"{len(row.checks)} held"
    if row.unjudged:
        held += f", {len(row.unjudged)} not judged"
    return [
        row.release,
        row.phase,
        f"{row.seconds:.0f}",
        str(len(row.restarts)),
        f"{row.record_s:.2f}",
        "-" if row.change_s is None else f"{row.change_s:.2f}",
        f"{row.nobody_s:.1f}",
        f"{row.lag_records} records, {row.lag_ms} ms",
        f"{len(row.wrong)} FAILED, {held}" if row.wrong else held,
    ]


def restarts(rows: Sequence[PhaseRow]) -> list[str]:
    """Lines of a table of every restart."""
    lines = [
        "| release | phase | server | change | seconds | a record waited, s | a change waited, s |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for row in rows:
        for one in row.restarts:
            change = "-" if one.change_s is None else f"{one.change_s:.2f}"
            lines.append(
                f"| {row.release} | {row.phase} | {one.server} | {one.change} "
                f"| {one.seconds:.1f} | {one.record_s:.2f} | {change} |"
            )
    return lines


PROVES: Final[dict[str, tuple[str, ...]]] = {
    "to-kraft": ("A01", "F01", "M05"),
    "from-kraft": ("B02", "F04", "M05", "Y02", "Y03"),
    "rollback": ("A05", "B01", "G03", "G09"),
    "copying": ("B01", "G03", "G09"),
    "again": ("B06",),
    "roll": ("A01", "F01", "F02", "F05", "M05", "Y02"),
    "finalise": ("G01", "G02"),
}
"""Phase -> the rows of tests/requirements.toml that it proves."""


def proofs(rows: Sequence[PhaseRow]) -> list[Proof]:
    """What the rows prove, for the record of the run."""
    return [
        Proof(
            f"life {row.release} {row.phase}",
            PROVES[row.phase],
            "real broker",
            "failed" if row.wrong else "passed",
        )
        for row in rows
        if row.phase in PROVES
    ]
