"""``kraft-bridge controller``: run one controller until it is told to stop."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands import in_use
from emulator.commands.common import LogJson, LogLevel, Override, fail, load_config
from emulator.commands.exits import ExitCode


def controller(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="As --config.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A Kafka server.properties.")
    ] = None,
    overrides: Override = None,
    *,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Run a KRaft controller that migrates a ZooKeeper-mode cluster."""
    from emulator.io import log_output, process

    if (file is None) == (config is None):
        both = "" if file is None else f", not both {file} and {config}"
        raise fail(f"give one properties file: -c FILE{both}", ExitCode.WRONG)
    path = file or config
    assert path is not None, "one of the two"
    log_output.never_wait()
    settings = load_config(path, overrides)
    level, run = log_level, process.run_controller
    raise typer.Exit(
        in_use.run(partial(run, settings, file=path, log_json=log_json, log_level=level))
    )
