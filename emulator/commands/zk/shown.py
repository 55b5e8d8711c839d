"""How a comparison that may write is printed, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.io.printable import printable, printable_json


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """What a comparison has found; ``differences``: pairs of path and kind."""

    dry_run: bool
    offset: int
    counts: Mapping[str, int]
    differences: Sequence[tuple[str, str]]
    refused: Mapping[str, str]
    """Path -> why ZooKeeper does not take it."""
    why: str
    """Why it has not come to its end; empty if it has."""


def print_outcome(
    found: ReconcileOutcome, *, as_json: bool, unended: ExitCode = ExitCode.FOUND
) -> None:
    """Print it.

    Raises:
        typer.Exit: always; ``unended`` is the code of one that has not come to its end.
    """
    if as_json:
        typer.echo(printable_json(msgspec.json.encode(to_json(found)).decode()))
    else:
        for path, kind in found.differences:
            typer.echo(printable(f"{kind:10} {path}"))
    if found.why:
        raise fail(found.why, unended)
    note = f"{counted(found.counts)}, compared up to offset {found.offset}"
    more = sum(found.counts.values()) - len(found.differences)
    if more > 0:
        note += f"; {more} of them are not listed"
    if sum(found.counts.values()):
        note += "; nothing was written" if found.dry_run else "; written to ZooKeeper"
    typer.echo(note, err=True)
    for path, cause in found.refused.items():
        left_out = f"left out, as ZooKeeper refuses it: {path}: {cause}"
        typer.echo(printable(left_out), err=True)
    differs = found.dry_run and any(found.counts.values())
    raise typer.Exit(ExitCode.FOUND if differs or found.refused else ExitCode.DONE)


def to_json(found: ReconcileOutcome) -> dict[str, object]:
    """One object of the form ``zk-reconcile``."""
    return stamped(
        "zk-reconcile",
        {
            "dry_run": found.dry_run,
            "offset": found.offset,
            "counts": {kind: count for kind, count in sorted(found.counts.items()) if count},
            "differences": [{"path": path, "kind": kind} for path, kind in found.differences],
            "refused": [{"path": path, "cause": cause} for path, cause in found.refused.items()],
            "failed": found.why,
        },
    )


def counted(counts: Mapping[str, int]) -> str:
    """How many znodes differ, in words.

    >>> counted({"extra": 2, "missing": 0}), counted({})
    ('2 znodes differ (2 extra)', 'no znode differs')
    """
    total = sum(counts.values())
    if not total:
        return "no znode differs"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    return f"{total} znode{'s' if total > 1 else ''} differ{'' if total > 1 else 's'} ({kinds})"
