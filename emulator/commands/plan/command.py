"""The command line of ``kraft-bridge plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import Json, Override, fail, load_config
from emulator.commands.exits import ExitCode
from emulator.io.printable import printable_json


def plan(
    dump: Annotated[Path, typer.Option("--dump", help="A tree as zk dump printed it.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's server.properties.")
    ] = None,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="metadata.version, such as 3.9-IV0."),
    ] = None,
    overrides: Override = None,
    *,
    as_json: Json = False,
) -> None:
    """Show what a migration would copy from a dumped tree and what it would refuse."""
    import msgspec
    from rich.console import Console

    from emulator.commands.plan import dumped

    settings = None if config is None else load_config(config, overrides)
    try:
        found = dumped.plan(dump, settings, release_version)
    except dumped.PlanError as error:
        raise fail(str(error), 2) from error
    if as_json:
        typer.echo(printable_json(msgspec.json.encode(dumped.as_json(found)).decode()))
    else:
        dumped.show(found, Console())
    raise typer.Exit(ExitCode.FOUND if found.refusals else ExitCode.DONE)
