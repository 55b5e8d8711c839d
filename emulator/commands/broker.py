"""``kraft-bridge broker``: run one broker that forwards by Envelope, until it is told to stop."""

from __future__ import annotations

import socket
from functools import partial

import typer

from emulator.commands import in_use
from emulator.commands.common import (
    BareFile,
    LogJson,
    LogLevel,
    NodeFile,
    Override,
    configured,
    one_file,
)


def broker(
    file: BareFile = None,
    config: NodeFile = None,
    overrides: Override = None,
    *,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Run a broker that answers from the metadata and forwards changes; it stores no records."""
    from emulator.config.broker import load_broker
    from emulator.io import broker_process, log_output

    log_output.never_wait()
    settings = configured(
        one_file(file, config), overrides, lambda raw: load_broker(raw, socket.getfqdn())
    )
    run = partial(broker_process.run_broker, settings, log_json=log_json, log_level=log_level)
    raise typer.Exit(in_use.run(run))
