"""``kraft-bridge <verb>``: with ``emulator.commands`` the top layer, which may import bench.

Data goes to stdout, progress and complaints to stderr. Exit codes: 0 good, 1 a check did not hold
or the work failed, 2 the command line or the configuration is wrong, or what was to be compared
cannot be read.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import Annotated
from warnings import filterwarnings

import typer

from emulator.commands.elect_leaders.command import elect_leaders
from emulator.commands.preflight import preflight
from emulator.config import load as config_module
from emulator.config import properties
from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.io.jaas_file import inlined
from wire.cli import app as wire_app

app = typer.Typer(
    name="kraft-bridge",
    help="Rehearse a Kafka migration from ZooKeeper to KRaft with your real brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
zk_app = typer.Typer(help="ZooKeeper: start one, dump a tree, compare it with a controller.")
log_app = typer.Typer(help="The metadata log.")
app.add_typer(wire_app, name="wire", help="Kafka's messages: show one, check recorded frames.")
app.command(name="elect-leaders")(elect_leaders)
app.command()(preflight)
app.add_typer(zk_app, name="zk")
app.add_typer(log_app, name="log")

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="A Kafka server.properties.")]
Override = Annotated[list[str] | None, typer.Option("-X", help="key=value, wins over the file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main() -> None:
    """Entry point: refuses ``python -O``, since assertions guard the invariants."""
    if not __debug__:
        sys.exit("kraft-bridge: do not run with python -O: assertions guard the invariants")
    # What kazoo has to say of each refused connection is said once, by the command that failed.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    filterwarnings("ignore", "No chroot path exists", UserWarning)
    threading.excepthook = _thread_died
    app()


def _thread_died(died: threading.ExceptHookArgs) -> None:
    """Kazoo's thread dies of a refused login, which the command reports by itself."""
    if not died.exc_type.__module__.startswith("kazoo."):
        threading.__excepthook__(died)


def fail(problem: str, code: int = 1) -> typer.Exit:
    """Say what is wrong on stderr; the caller raises the result."""
    typer.echo(f"kraft-bridge: {problem}", err=True)
    return typer.Exit(code)


def load_config(path: Path, overrides: list[str] | None) -> config_module.Config:
    """Read a properties file; warnings go to stderr, problems end the command with code 2."""
    try:
        raw = properties.parse(path.read_text(encoding="utf-8"), overrides or ())
        config, warnings = config_module.load(inlined(raw))
    except config_module.ConfigError as error:
        for problem in (*error.warnings, *error.problems):
            typer.echo(f"{path}: {problem}", err=True)
        raise typer.Exit(2) from error
    except (OSError, ValueError) as error:
        raise fail(f"{path}: {error}", 2) from error
    for warning in warnings:
        typer.echo(f"{path}: {warning}", err=True)
    return config


@app.command(name="format")
def format_command(
    config: ConfigFile,
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id", "-t", help="The cluster's id; for a migration that of /cluster/id."
        ),
    ],
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="First metadata.version, such as 3.9-IV0."),
    ] = None,
    overrides: Override = None,
    *,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Do nothing if already formatted.")
    ] = False,
) -> None:
    """Prepare a controller's log folder, as kafka-storage does."""
    from emulator.io import storage

    settings = load_config(config, overrides)
    try:
        text = storage.format_folder(
            settings, cluster_id, release_version, ignore_formatted=ignore_formatted
        )
    except storage.FormatError as error:
        raise fail(str(error)) from error
    typer.echo(text)


@app.command()
def controller(
    config: ConfigFile,
    overrides: Override = None,
    *,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")] = False,
) -> None:
    """Run a KRaft controller that migrates a ZooKeeper-mode cluster."""
    from emulator.io import process

    settings = load_config(config, overrides)
    raise typer.Exit(process.run_controller(settings, log_json=log_json))


@app.command()
def status(
    url: Annotated[
        str, typer.Option("--url", help="The controller's kraftbridge.metrics.port, http://…")
    ] = "http://127.0.0.1:9404",
    *,
    as_json: Json = False,
) -> None:
    """Say how far the migration is, who is missing, the lag, and whether one may still go back."""
    from rich.console import Console

    from emulator.commands import status as status_client

    try:
        body = status_client.fetch(url)
    except (OSError, ValueError) as error:
        raise fail(f"{url}/status: {error}") from error
    if as_json:
        typer.echo(body, nl=False)
    else:
        status_client.show(body, Console())


@app.command()
def plan(
    dump: Annotated[Path, typer.Option("--dump", help="A tree as zk dump printed it.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's server.properties.")
    ] = None,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="metadata.version, such as 3.9-IV0."),
    ] = None,
    overrides: Override = None,
    *,
    as_json: Json = False,
) -> None:
    """Say offline what a migration would copy from a dumped tree, and what it would refuse."""
    import msgspec
    from rich.console import Console

    from emulator.commands import plan_dump

    settings = None if config is None else load_config(config, overrides)
    try:
        found = plan_dump.plan(dump, settings, release_version)
    except plan_dump.PlanError as error:
        raise fail(str(error), 2) from error
    if as_json:
        typer.echo(msgspec.json.encode(plan_dump.as_json(found)).decode())
    else:
        plan_dump.show(found, Console())


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="A folder demo-<time> for all that is left is made in it.")
    ] = Path("out"),
    seconds: Annotated[float, typer.Option(min=30, help="Length of the load.")] = 60,
    rate: Annotated[float, typer.Option(min=1, help="Administrative changes per second.")] = 25,
) -> None:
    """Migrate a real cluster under load, judge, measure and report it (needs Java 17+)."""
    try:
        from bench.demo.run import run
        from bench.demo.stage import Options, new_folder
    except ImportError as error:
        raise fail(f"{error}; the demo needs: pip install 'kraft-bridge[spark,java]'") from error
    raise typer.Exit(run(Options(new_folder(out), seconds, rate)))


@app.command()
def analyze(
    trace: Annotated[str, typer.Argument(help="The trace: a folder, or a URI that Spark reads.")],
    out: Annotated[Path, typer.Option(help="Folder for report.html and the Parquet behind it.")],
    master: Annotated[str | None, typer.Option(help="local[*], spark://host:7077 …")] = None,
    remote: Annotated[str | None, typer.Option(help="Spark Connect, sc://host:15002.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Say how much ZooKeeper blocked KRaft: analyse a trace with Spark (needs [spark], Java)."""
    try:
        from bench.report import analyze as report
    except ImportError as error:
        raise fail(f"{error}; install it: pip install 'kraft-bridge[spark]'") from error
    import msgspec
    from rich.console import Console

    from bench.analysis.read import TraceVersionError
    from bench.rig.java import JavaNotFoundError

    try:
        done = report.analyze(trace, out, master, remote)
    except (JavaNotFoundError, TraceVersionError, report.TraceUnreadableError, OSError) as error:
        raise fail(str(error)) from error
    if as_json:
        typer.echo(msgspec.json.encode(done, enc_hook=str).decode())
    else:
        report.print_summary(done, Console())


@zk_app.command(name="start")
def zk_start(
    port: Annotated[int, typer.Option(help="Client port; 0 takes a free one.")] = 2181,
    data: Annotated[Path, typer.Option(help="Where ZooKeeper keeps its data.")] = Path("zk-data"),
) -> None:
    """Run an embedded real ZooKeeper 3.9.5 (needs Java 17+) until interrupted."""
    from bench.rig.zookeeper import run_foreground

    raise typer.Exit(run_foreground(data, port))


Ensemble = Annotated[
    str, typer.Option("--zookeeper", help="host:port[,…][/chroot]; else as --config says.")
]
SecuredBy = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Properties that say how to log in to ZooKeeper."),
]


def _ensemble(
    zookeeper: str, config: Path | None, overrides: list[str] | None
) -> tuple[str, ZooKeeperSecurity]:
    """Where ZooKeeper is and how to log in to it."""
    from emulator.commands import zookeeper_client

    try:
        configured, security = zookeeper_client.settings(config, overrides or ())
    except (OSError, ValueError) as error:
        raise fail(f"{config or '-X'}: {error}", 2) from error
    if not (zookeeper or configured):
        raise fail("say --zookeeper host:port, or --config with zookeeper.connect", 2)
    return zookeeper or configured, security


@zk_app.command(name="dump")
def zk_dump(
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    *,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Print SCRAM keys, passwords and tokens too.")
    ] = False,
) -> None:
    """Print the whole tree as JSON; secrets are left out unless asked for."""
    import msgspec

    from bench.rig.zk_dump import UnreadableError, dump
    from emulator.commands import zookeeper_client
    from emulator.io.tls import TlsError

    hosts, security = _ensemble(zookeeper, config, overrides)
    connect = zookeeper_client.Connector(security)
    try:
        tree = dump(hosts, with_secrets=with_secrets, connect=connect)
    except (UnreadableError, TlsError) as error:
        because = f"ZooKeeper at {hosts}: {connect.why}" if connect.why else str(error)
        raise fail(because) from error
    typer.echo(msgspec.json.format(msgspec.json.encode(tree), indent=1))


@zk_app.command(name="diff")
def zk_diff(
    log_dir: Annotated[Path, typer.Option("--log-dir", help="The controller's folder.")],
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    *,
    as_json: Json = False,
) -> None:
    """Compare ZooKeeper's tree with a controller's metadata; exit 1 names every differing znode."""
    import msgspec

    from emulator.commands import offline

    try:
        hosts, security = _ensemble(zookeeper, config, overrides)
        found, note = offline.compare(hosts, log_dir, security)
    except offline.OfflineError as error:
        raise fail(str(error), 2) from error
    typer.echo(note, err=True)
    for difference in found:
        if as_json:
            row = {
                "path": difference.path,
                "kind": difference.kind,
                "zookeeper": _text(difference.have),
                "controller": _text(difference.want),
            }
            typer.echo(msgspec.json.encode(row).decode())
        else:
            typer.echo(f"{difference.kind:10} {difference.path}")
    raise typer.Exit(1 if found else 0)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


@log_app.command(name="dump")
def log_dump(
    log_dir: Annotated[Path, typer.Option("--log-dir", help="The controller's folder.")],
) -> None:
    """Print every record of a controller's metadata log, one JSON object a line."""
    import msgspec

    from emulator.commands import offline

    try:
        _meta, raft = offline.open_log(log_dir)
        for record in offline.dump_records(raft):
            typer.echo(msgspec.json.encode(record).decode())
    except offline.OfflineError as error:
        raise fail(str(error), 2) from error


if __name__ == "__main__":
    main()
