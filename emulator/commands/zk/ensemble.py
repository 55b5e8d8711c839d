"""The ZooKeeper that a verb reads, and its login."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import fail
from emulator.config.zookeeper import ZooKeeperSecurity, connect_string
from emulator.io.printable import sentence

Ensemble = Annotated[
    str,
    typer.Option(
        "--zookeeper", help="host:port[,…][/chroot]; default: zookeeper.connect of --config."
    ),
]
SecuredBy = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Properties with the login to ZooKeeper."),
]


def ensemble(
    zookeeper: str, config: Path | None, overrides: list[str] | None
) -> tuple[str, ZooKeeperSecurity]:
    """The connect string and the login."""
    from emulator.commands.zk import client

    try:
        configured, security = client.settings(config, overrides or ())
    except OSError as error:
        raise fail(sentence(error), 2) from error
    except ValueError as error:
        raise fail(f"{config or '-X'}: {error}", 2) from error
    hosts = zookeeper or configured
    if not hosts:
        raise fail("give --zookeeper host:port, or --config with zookeeper.connect", 2)
    try:
        connect_string(hosts)
    except ValueError as error:
        raise fail(f"{hosts} is not host:port[,…][/chroot]: {error}", 2) from error
    return hosts, security
