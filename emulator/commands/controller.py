"""``kraft-bridge controller``: run one controller until it is told to stop."""

from __future__ import annotations

from functools import partial

import typer

from emulator.commands import in_use
from emulator.commands.common import ConfigFile, LogJson, LogLevel, Override, load_config


def controller(
    config: ConfigFile,
    overrides: Override = None,
    *,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Run a KRaft controller that migrates a ZooKeeper-mode cluster."""
    from emulator.io import log_output, process

    log_output.never_wait()
    settings = load_config(config, overrides)
    run = partial(process.run_controller, settings, log_json=log_json, log_level=log_level)
    raise typer.Exit(in_use.run(run))
