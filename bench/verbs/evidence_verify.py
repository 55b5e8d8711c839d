"""``kraft-bridge evidence verify``: whether what a rehearsal has left is as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.io.printable import printable, sentence


def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of a rehearsal.", show_default=False)],
    last: Annotated[
        str, typer.Option("--hash", help="The last hash, as the rehearsal has printed it.")
    ] = "",
) -> None:
    """Say whether a rehearsal's folder was changed, and go or no-go from its rows.

    Without --hash it shows only that the folder agrees with itself. Exit code 1: it does not.
    """
    from bench.rehearsal.evidence import verified

    try:
        found = verified(folder, last.strip().lower())
    except OSError as error:
        raise fail(sentence(error), ExitCode.UNREACHABLE) from error
    for one in found.problems:
        typer.echo(printable(f"WRONG: {one}"))
    if found.problems:
        raise typer.Exit(ExitCode.FOUND)
    typer.echo(f"{found.verdict}: from {found.rows} rows and {found.files} files, none was changed")
    if not last:
        typer.echo(
            f"the last hash is {found.hash}; without --hash this proves only that the folder "
            "agrees with itself"
        )
