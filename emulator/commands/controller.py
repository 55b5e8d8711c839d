"""``kraft-bridge controller``: run one controller until it is told to stop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

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
    from emulator.operations.next_steps import as_json, next_steps, verdict

    def advice(status: Mapping[str, Any], asked: str) -> tuple[str, list[dict[str, Any]]]:
        steps = next_steps(status, asked=asked)
        return verdict(status, steps), as_json(steps)

    log_output.never_wait()
    path = one_file(file, config)
    settings = load_config(path, overrides)
    level, run = log_level, process.run_controller
    raise typer.Exit(
        in_use.run(
            partial(run, settings, file=path, log_json=log_json, log_level=level, advice=advice)
        )
    )
