"""The command line of ``kraft-bridge preflight``."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.commands.exits import ExitCode
from emulator.io.printable import printable_json

if TYPE_CHECKING:
    from emulator.operations.preflight.survey import Survey

ZooKeeperHosts = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        help="host:port[,…][/chroot]; default: zookeeper.connect of the first -c.",
    ),
]
Dump = Annotated[Path | None, typer.Option(help="A tree as zk dump printed it.")]
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="server.properties of controllers and brokers; the login is taken from the first.",
    ),
]
Targets = Annotated[
    list[Path] | None,
    typer.Option("--target", help="server.properties that a node is to have in KRaft mode."),
]
ControllerDirs = Annotated[
    list[Path] | None,
    typer.Option("--controller-dir", help="A controller's formatted folder."),
]
TargetRelease = Annotated[
    str, typer.Option(help="4.0 to 4.4, or 4.x: report also what that release refuses.")
]
Identities = Annotated[
    list[str] | None,
    typer.Option("--identity", help="scheme:id the controller will have in ZooKeeper."),
]


Connects = Annotated[
    bool,
    typer.Option(
        "--connect", help="Connect to each voter's and broker's listener from this machine."
    ),
]
LogsIn = Annotated[
    bool, typer.Option("--login", help="With --connect: log in too, over verified TLS only.")
]


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="More files for -c or --target, as in -c *.properties.", show_default=False
    ),
]


def preflight(
    files: Files = None,
    *,
    zookeeper: ZooKeeperHosts = None,
    dump: Dump = None,
    configs: Configs = None,
    targets: Targets = None,
    controller_dirs: ControllerDirs = None,
    target_release: TargetRelease = "",
    identities: Identities = None,
    connect: Connects = False,
    login: LogsIn = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 if there are warnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    as_sarif: Annotated[
        bool, typer.Option("--sarif", help="Print SARIF 2.1.0 instead of text.")
    ] = False,
) -> None:
    """Check what would block a migration; blockers are exit code 1."""
    from importlib.util import find_spec

    from rich.console import Console

    from emulator.commands.preflight import inputs, sarif
    from emulator.config.zookeeper import identity
    from emulator.operations.preflight import release4
    from emulator.operations.preflight import report as judging
    from emulator.operations.preflight.stage import standing

    if dump is not None and zookeeper is not None:
        raise _cannot("--zookeeper and --dump exclude each other")
    if login and not connect:
        raise _cannot("--login needs --connect")
    if as_json and as_sarif:
        raise _cannot("--json and --sarif exclude each other")
    if strange := [one for one in identities or () if ":" not in one]:
        raise _cannot(f"--identity {strange[0]}: not scheme:id, such as sasl:kafka")
    if target_release and release4.parsed(target_release) is None:
        releases = ", ".join(release4.RELEASES)
        raise _cannot(f"--target-release {target_release}: one of {releases}, or 4.x")
    present, future = _given(configs or [], targets or [], files or [])
    survey = _tree(zookeeper, dump, present)
    mark = standing(survey).mark
    shown = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
    try:
        survey = replace(
            survey,
            targets=[inputs.read_properties(one) for one in future],
            folders=[inputs.read_folder(one, shown) for one in controller_dirs or ()],
            target_release=target_release,
            identities=survey.identities
            | {identity(*one.split(":", 1)) for one in identities or ()},
            decodes=find_spec("cryptography") is not None,
        )
    except inputs.PreflightError as error:
        raise _cannot(str(error)) from error
    if connect:
        survey = replace(survey, **_connected(survey, present, login=login))
    report = judging.run(survey)
    asked = _line(zookeeper, dump, present, future, controller_dirs, target_release, identities)
    asked += f"{' --connect' if connect else ''}{' --login' if login else ''}"
    if as_json:
        typer.echo(printable_json(sarif.to_json(report, asked).decode()))
    elif as_sarif:
        names = [*(x.name for x in survey.all_files), *(x.name for x in survey.folders)]
        typer.echo(printable_json(sarif.to_sarif(report, names).decode()))
    else:
        sarif.show(report, Console(), asked)
    raise typer.Exit(report.exit_code(strict=strict))


def _connected(survey: Survey, files: list[Path], *, login: bool) -> dict[str, Any]:
    """Members of the survey that connections show: the listeners, and the way to ZooKeeper."""
    from emulator.commands.preflight import connecting, inputs
    from emulator.operations.preflight.reaching import addresses
    from emulator.operations.preflight.survey import Probes

    began = datetime.now(UTC)
    tried = connecting.connect_to(addresses(survey), login=login)
    if survey.round_trips is not None:
        return {"probes": Probes(tried, began)}
    trips, why = inputs.round_trips(files)
    return {"probes": Probes(tried, began, why), "round_trips": trips}


def _line(  # noqa: PLR0917 - as the command line
    zookeeper: str | None,
    dump: Path | None,
    present: list[Path],
    future: list[Path],
    folders: list[Path] | None,
    target_release: str,
    identities: list[str] | None,
) -> str:
    """The options that say what was looked at, to be typed again; a digest's password is none."""
    from emulator.config.zookeeper import identity

    given: list[tuple[str, object]] = [("-c", one) for one in present]
    given += [("--target", one) for one in future]
    given += [("--controller-dir", one) for one in folders or ()]
    given += [("--identity", identity(*one.split(":", 1))) for one in identities or ()]
    given += [("--zookeeper", zookeeper), ("--dump", dump), ("--target-release", target_release)]
    return " ".join(f"{option} {quote(str(value))}" for option, value in given if value)


def _given(
    configs: list[Path], targets: list[Path], more: list[Path]
) -> tuple[list[Path], list[Path]]:
    """Present and target files. A shell's ``*.properties`` after an option gives more of its kind.

    Given to both options, which kind a file is of follows from its content.
    """
    from emulator.commands.preflight import inputs

    if more and not configs and not targets:
        raise _cannot(
            f"{more[0]}: -c is missing, for a node's file as it is, or --target, for its KRaft mode"
        )
    if more and configs and targets:
        try:
            kraft = [one for one in more if inputs.read_properties(one).is_kraft_broker]
        except inputs.PreflightError as error:
            raise _cannot(str(error)) from error
        return configs + [one for one in more if one not in kraft], targets + kraft
    return (configs + more, targets) if configs else (configs, targets + more)


def _tree(zookeeper: str | None, dump: Path | None, files: list[Path]) -> Survey:
    """The tree and the present files, with the login that the first of them names."""
    from emulator.commands.preflight import inputs
    from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector
    from emulator.io.tls import TlsError
    from emulator.servers import zk_dump

    connect: Connector | None = None
    closed: list[str] = []
    try:
        hosts, security = inputs.ensemble(zookeeper, files, online=dump is None)
        if dump is not None:
            survey = inputs.offline(dump, files)
        elif hosts:
            connect = Connector(security)
            tree = zk_dump.dump(
                hosts,
                with_secrets=True,
                timeout_s=CONNECT_TIMEOUT_S,
                connect=connect,
                closed=closed,
            )
            survey = inputs.live(hosts, tree, files, connect)
        else:
            raise _cannot("needs --zookeeper, --dump, or a -c file with zookeeper.connect")
    except inputs.PreflightError as error:
        raise _cannot(str(error)) from error
    except (zk_dump.UnreadableError, TlsError) as error:
        why = connect.why if connect and connect.why else str(error)
        raise _cannot(why, ExitCode.UNREACHABLE) from error
    mine = {one for one in security.identities if ":" in one}
    theirs = inputs.logins(files)
    return replace(
        survey,
        identities=theirs,
        closed=frozenset(closed),
        closed_to=", ".join(sorted(mine)) if mine == theirs else "",
    )


def _cannot(problem: str, code: ExitCode = ExitCode.WRONG) -> typer.Exit:
    typer.echo(f"kraft-bridge: preflight: {problem}", err=True)
    return typer.Exit(code)
