"""``kraft-bridge zk start``: a real ZooKeeper on this machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import check_name, fail


def start(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Client port; 0 takes a free one.")
    ] = 2181,
    data: Annotated[Path, typer.Option(help="Where ZooKeeper keeps its data.")] = Path("zk-data"),
) -> None:
    """Run a real ZooKeeper 3.9.5 on 127.0.0.1 until interrupted.

    It needs Java 17 to 22 and the extra spark, whose jars hold ZooKeeper. It reads and writes
    FOLDER/data, which may be the copied dataDir of another ZooKeeper.
    """
    from emulator.servers.zookeeper import run_foreground

    check_name("--data", data)
    with socket.socket() as taken:
        # As ZooKeeper itself does: a port whose last connections are still closing is free.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", port))
        except OSError as error:
            raise fail(f"--port {port}: {error.strerror}") from error
    raise typer.Exit(run_foreground(data, port))
