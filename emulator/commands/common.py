"""Shared by the verbs: options, reading the configuration, printing a failure."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import typer

from emulator.commands import configuration
from emulator.commands.exits import ExitCode
from emulator.config import load as config_module
from emulator.io.printable import printable, printable_lines

T = TypeVar("T")
_MASTER: Final = re.compile(
    r"local(\[([1-9]\d{0,4}|\*)(,[1-9]\d*)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://\S+"
)

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="A Kafka server.properties.")]
NodeFile = Annotated[Path | None, typer.Option("--config", "-c", help="A Kafka server.properties.")]
BareFile = Annotated[
    Path | None, typer.Argument(help="A Kafka server.properties, as with -c.", show_default=False)
]
Override = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="Overrides the file; may be given several times."),
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        help="local[2], spark://HOST:PORT …: share the work out among barrier tasks of Spark."
    ),
]
SparkTasks = Annotated[
    int | None,
    typer.Option(min=1, max=1_000, help="With --spark-master: how many tasks; 2 if not given."),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")]
LogLevel = Annotated[
    Literal["trace", "debug", "info", "warning", "error"],
    typer.Option(help="Lines below it are left out; trace: each event and effect of the node."),
]
AlwaysJson = Annotated[bool, typer.Option("--json", help="What it prints is always JSON.")]
OnlyPlan = Annotated[bool, typer.Option("--dry-run", help="Change nothing; so without --yes too.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def fail(problem: str, code: int = ExitCode.FOUND) -> typer.Exit:
    """Print an error to stderr; the caller raises the result."""
    typer.echo(f"kraft-bridge: {printable_lines(problem)}", err=True)
    return typer.Exit(code)


def columns() -> int:
    """In how many columns a terminal wraps; 0: standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def check_name(option: str, path: Path) -> None:
    """Exit with code 2 if a folder's name is no text: servers and pages are to name it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise fail(f"{option} {path}: not a name in UTF-8", ExitCode.WRONG) from None


def checked_plan(*, dry_run: bool, yes: bool) -> None:
    """Exit with code 2 if a line asks for both."""
    if dry_run and yes:
        raise fail("--dry-run and --yes exclude each other", ExitCode.WRONG)


def one_file(named: Path | None, config: Path | None) -> Path:
    """The file of a node: with or without ``-c``, as Kafka's own start takes it."""
    if named is not None and config is not None:
        why = f"two properties files are given, {named} and -c {config}: a node has one"
        raise fail(why, ExitCode.WRONG)
    file = config or named
    if file is None:
        raise fail("a properties file is missing: -c FILE", ExitCode.WRONG)
    return file


def load_config(path: Path, overrides: list[str] | None) -> config_module.Config:
    """Read a controller's properties file; see :func:`configured`."""
    return configured(path, overrides, config_module.load)


def configured(
    path: Path,
    overrides: list[str] | None,
    load: Callable[[Mapping[str, str]], tuple[T, tuple[str, ...]]],
) -> T:
    """Read a properties file; warnings go to stderr, problems end the command with code 2."""
    config, warnings = configuration.read(path, overrides or (), load)
    for line in warnings:
        typer.echo(printable(line), err=True)
    if config is None:
        raise typer.Exit(2)
    return config


def checked_tasks(master: str | None, tasks: int | None) -> int:
    """How many tasks are asked for; 1 without Spark."""
    if master is None:
        if tasks is not None:
            raise fail("--tasks needs --spark-master", 2)
        return 1
    check_master("--spark-master", master)
    return tasks or 2


def check_master(option: str, master: str) -> None:
    """Exit with code 2 unless Spark knows such a master; its launcher would print a stack."""
    if not _MASTER.fullmatch(master):
        raise fail(f"{option} {master!r}: local[2], local[*], spark://HOST:PORT, yarn, k8s://…", 2)
