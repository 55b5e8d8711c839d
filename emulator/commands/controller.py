"""``kraft-bridge controller``: run one controller until it is told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands import in_use
from emulator.commands.common import ConfigFile, Override, load_config


def controller(
    config: ConfigFile,
    overrides: Override = None,
    *,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")] = False,
) -> None:
    """Run a KRaft controller that migrates a ZooKeeper-mode cluster."""
    from emulator.io import log_output, process

    log_output.never_wait()
    settings = load_config(config, overrides)
    raise typer.Exit(in_use.run(lambda: process.run_controller(settings, log_json=log_json)))
