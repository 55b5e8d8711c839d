"""``kraft-bridge zk start``: a real ZooKeeper on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def start(
    port: Annotated[int, typer.Option(help="Client port; 0 takes a free one.")] = 2181,
    data: Annotated[Path, typer.Option(help="Where ZooKeeper keeps its data.")] = Path("zk-data"),
) -> None:
    """Run an embedded real ZooKeeper 3.9.5 (needs Java 17+) until interrupted."""
    from bench.rig.zookeeper import run_foreground

    raise typer.Exit(run_foreground(data, port))
