"""The command line of ``kraft-bridge preflight``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

UNREADABLE = 3
"""Exit code when nothing could be read; 2 means that there are blockers."""


def preflight(
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            help="host:port[,…][/chroot]; default: zookeeper.connect of the first -c.",
        ),
    ] = None,
    dump: Annotated[Path | None, typer.Option(help="A tree as zk dump printed it.")] = None,
    configs: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            "-c",
            help="server.properties of controllers and brokers; the login is taken from the first.",
        ),
    ] = None,
    identities: Annotated[
        list[str] | None,
        typer.Option("--identity", help="scheme:id the controller will have in ZooKeeper."),
    ] = None,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if there are warnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check what would block a migration: exit 2 with a blocker, 3 if nothing was read."""
    from rich.console import Console

    from bench.rig import zk_dump
    from emulator.commands.preflight import inputs, show
    from emulator.commands.zk.client import Connector
    from emulator.io.tls import TlsError
    from emulator.preflight import report as judging

    if dump is not None and zookeeper is not None:
        raise _cannot("--zookeeper and --dump exclude each other")
    if strange := [one for one in identities or () if ":" not in one]:
        raise _cannot(f"--identity {strange[0]}: not scheme:id, such as sasl:kafka")
    files = configs or []
    connect: Connector | None = None
    try:
        hosts, security = inputs.ensemble(zookeeper, files)
        if dump is not None:
            survey = inputs.offline(dump, files)
        elif hosts:
            connect = Connector(security)
            tree = zk_dump.dump(hosts, with_secrets=True, connect=connect)
            survey = inputs.live(hosts, tree, files, connect)
        else:
            raise _cannot("needs --zookeeper, --dump, or a -c file that says zookeeper.connect")
    except (inputs.PreflightError, zk_dump.UnreadableError, TlsError) as error:
        raise _cannot(connect.why if connect and connect.why else str(error)) from error
    known = {*(identities or ()), *(one for one in security.identities if ":" in one)}
    report = judging.run(replace(survey, identities=frozenset(known)))
    if as_json:
        typer.echo(show.to_json(report).decode())
    else:
        show.show(report, Console())
    raise typer.Exit(report.exit_code(strict=strict))


def _cannot(problem: str) -> typer.Exit:
    typer.echo(f"kraft-bridge: preflight: {problem}", err=True)
    return typer.Exit(UNREADABLE)
