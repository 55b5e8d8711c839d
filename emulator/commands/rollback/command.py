"""The command line of ``kraft-bridge rollback``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import Json, OnlyPlan, checked_plan, fail
from emulator.commands.exits import ExitCode
from emulator.io.printable import printable_json

if TYPE_CHECKING:
    from emulator.operations.rollback.course import Course, Wanted

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="More files for -c, as in -c *.properties.", show_default=False),
]
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="server.properties of each controller, and of brokers; the login is of the first.",
    ),
]
ZooKeeperHosts = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        help="host:port[,…][/chroot]; default: zookeeper.connect of the first -c.",
    ),
]
LogDirs = Annotated[
    list[Path] | None,
    typer.Option("--log-dir", help="A controller's folder; default: log.dirs of its -c."),
]
BrokerFolders = Annotated[
    list[Path] | None,
    typer.Option("--broker-folder", help="A folder of a broker, whose meta.properties is read."),
]


def rollback(
    files: Files = None,
    zookeeper: ZooKeeperHosts = None,
    configs: Configs = None,
    log_dirs: LogDirs = None,
    broker_folders: BrokerFolders = None,
    *,
    dry_run: OnlyPlan = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only planned.")] = False,
    clear: Annotated[
        bool,
        typer.Option(
            "--clear",
            help="Once back in ZooKeeper mode, delete /migration and /kraft_bridge, for a second "
            "attempt.",
        ),
    ] = False,
    stopped: Annotated[
        bool,
        typer.Option("--stopped", help="I have stopped the controllers that cannot be asked."),
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on although changes are lost.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            max=100_000,
            help="Seconds for the controllers to write what is missing, and again to end.",
        ),
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Go back to ZooKeeper mode, from every phase before the migration is finalised.

    Without --yes nothing is changed: it prints the phase, what keeps the cluster from going back
    (code 1), what would be lost, and each step with its cost. With --yes it waits until ZooKeeper
    has every change, stops the controllers of this machine by SIGTERM (and waits for those that you
    stop elsewhere), deletes /controller, and prints how long the cluster had no controller. If it
    was interrupted, run it again.
    """
    from rich.console import Console

    from emulator.commands.rollback import show
    from emulator.operations.rollback.course import Wanted

    checked_plan(dry_run=dry_run, yes=yes)
    if (accept_loss or clear) and not yes:
        raise fail("--accept-loss and --clear need --yes", ExitCode.WRONG)
    wanted = Wanted(accept_loss=accept_loss, stopped=stopped, clear=clear)
    course = _run(
        zookeeper,
        [*(configs or ()), *(files or ())],
        log_dirs or [],
        broker_folders or [],
        wanted if yes else None,
        Wanted(stopped=stopped),
        timeout,
    )
    if as_json:
        typer.echo(printable_json(show.to_json(course, acted=yes)))
    else:
        show.show(course, Console(), acted=yes)
    raise typer.Exit(ExitCode.FOUND if course.refused or course.failed else ExitCode.DONE)


def _run(  # noqa: PLR0917 - as the command line
    zookeeper: str | None,
    files: list[Path],
    log_dirs: list[Path],
    broker_folders: list[Path],
    wanted: Wanted | None,
    planned: Wanted,
    timeout_s: float,
) -> Course:
    """Plan, or do it if something is ``wanted``."""
    from emulator.commands.preflight import inputs
    from emulator.commands.rollback.acting import LiveRollback
    from emulator.commands.rollback.looking import Given, Looker
    from emulator.commands.zk.client import Connector
    from emulator.io.tls import TlsError
    from emulator.operations.rollback import course
    from emulator.servers import zk_dump

    try:
        hosts, security = inputs.ensemble(zookeeper, files, online=True)
        if not hosts:
            raise fail("needs --zookeeper, or a -c file with zookeeper.connect", 2)
        properties = [inputs.read_properties(one) for one in files]
        connect = Connector(security)
        looker = Looker(Given(hosts, properties, log_dirs, broker_folders), connect)
        creator_only = any(one.flag("zookeeper.set.acl") for one in properties)
        with LiveRollback(
            looker,
            hosts,
            connect,
            properties,
            timeout_s,
            creator_only,
            _print_line,
            stopped=planned.stopped,
        ) as world:
            return (
                course.plan(world, planned)[1]
                if wanted is None
                else course.roll_back(world, wanted)
            )
    except inputs.PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except (zk_dump.UnreadableError, TlsError) as error:
        raise fail(connect.why or str(error), ExitCode.UNREACHABLE) from error


def _print_line(text: str) -> None:
    typer.echo(text, err=True)
