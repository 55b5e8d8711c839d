"""``kraft-bridge bench compare``: two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import fail


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
) -> None:
    """Compare two runs. Exit code 1: something became worse; 2: nothing can be compared."""
    from bench.runs.compare import NothingInCommonError, changes
    from bench.runs.store import Store

    rows = []
    for folder in (before, after):
        found = Store(folder, any_code=True).rows()
        if not found:
            raise fail(f"{folder}: no rows are there", 2)
        rows.append(found)
    try:
        found_changes = changes(rows[0], rows[1], tolerance=tolerance, relative=relative)
    except NothingInCommonError as error:
        raise fail(str(error), 2) from error
    for change in found_changes:
        typer.echo(change.line())
    worse = [change for change in found_changes if change.regressed]
    typer.echo(f"{len(worse)} of {len(found_changes)} measures became worse")
    raise typer.Exit(int(bool(worse)))
