"""``kraft-bridge controller``: run one controller until it is told to stop."""

from __future__ import annotations

from functools import partial

import typer

from emulator.commands import in_use
from emulator.commands.common import (
    BareFile,
    LogJson,
    LogLevel,
    NodeFile,
    Override,
    load_config,
    one_file,
)


def controller(
    file: BareFile = None,
    config: NodeFile = None,
    overrides: Override = None,
    *,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Run a KRaft controller that migrates a ZooKeeper-mode cluster."""
    from emulator.io import log_output, process

    log_output.never_wait()
    settings = load_config(one_file(file, config), overrides)
    run = partial(process.run_controller, settings, log_json=log_json, log_level=log_level)
    raise typer.Exit(in_use.run(run))
