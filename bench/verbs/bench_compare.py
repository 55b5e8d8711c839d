"""``kraft-bridge bench compare``: two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import fail
from emulator.config.words import install
from emulator.io.printable import sentence

if TYPE_CHECKING:
    from bench.runs.compare import Change
    from bench.runs.row import BenchRow


def compare(
    before: Annotated[Path, typer.Argument(help="Folder of the older run: of one scenario.")],
    after: Annotated[Path, typer.Argument(help="Folder of the newer run.")],
    tolerance: Annotated[
        float, typer.Option(min=0, max=100, help="0.2: up to 20 % worse is no regression.")
    ] = 0.2,
    relative: Annotated[
        str | None,
        typer.Option(help="A target by whose values the others are divided, round by round."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report to this file, its verdict first.")
    ] = None,
    *,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Take rows of all source code, not of the newest.")
    ] = False,
) -> None:
    """Compare two runs. Exit code 1: something became worse; 2: nothing can be compared."""
    from bench.runs.compare import FEWEST, NothingInCommonError, changes, not_compared

    rows = [_rows(folder, any_code=any_code) for folder in (before, after)]
    for line in not_compared(rows[0], rows[1]):
        typer.echo(f"not compared: {line}", err=True)
    try:
        found_changes = changes(rows[0], rows[1], tolerance=tolerance, relative=relative)
    except NothingInCommonError as error:
        raise fail(str(error), 2) from error
    for change in found_changes:
        typer.echo(change.line())
    worse = [change for change in found_changes if change.regressed]
    unsure = sum(change.regressed is None for change in found_changes)
    typer.echo(f"{len(worse)} of {len(found_changes)} measures became worse")
    if html is not None:
        _report(html, found_changes, (before, after), rows, (tolerance, relative))
    if unsure:
        few = f"of {unsure} it cannot be said: a run has fewer than {FEWEST} rows of them"
        typer.echo(few, err=True)
    raise typer.Exit(1 if worse else 2 if unsure == len(found_changes) else 0)


def _report(
    html: Path,
    found: list[Change],
    folders: tuple[Path, Path],
    rows: list[list[BenchRow]],
    how: tuple[float, str | None],
) -> None:
    try:
        from bench.report.compared import ComparedRun, compare_page
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    from bench.runs.compare import not_compared

    older, newer = (
        ComparedRun(str(folder), each) for folder, each in zip(folders, rows, strict=True)
    )
    page = compare_page(found, (older, newer), not_compared(*rows), *how)
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise fail(f"--html {sentence(error)}") from error
    typer.echo(f"report {html}")


def _rows(folder: Path, *, any_code: bool) -> list[BenchRow]:
    """Rows of a run; of several states of the source code, those of the newest row's."""
    from bench.runs.store import Store

    found = Store(folder, any_code=True).rows()
    if not found:
        raise fail(f"{folder}: no rows are there", 2)
    rows = found if any_code else [row for row in found if row.code == found[-1].code]
    if len(rows) < len(found):
        left = len(found) - len(rows)
        of = "of other source code or another Python"
        typer.echo(f"{folder}: {left} rows {of} are left out", err=True)
    busy = sum(row.others_cores is not None and not row.quiet for row in rows)
    if busy:
        typer.echo(
            f"{folder}: {busy} of {len(rows)} rows were taken while other processes were busy",
            err=True,
        )
    return rows
