"""``kraft-bridge analyze``: a report from a trace, by Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import Json, check_master, check_name, fail
from emulator.commands.exits import ExitCode
from emulator.config.words import install
from emulator.io.printable import sentence

if TYPE_CHECKING:
    from bench.report.verdict import Threshold


def _thresholds(texts: list[str], run: list[str]) -> list[Threshold]:
    from bench.report.verdict import threshold

    if texts and len(run) > 1:
        raise fail("--fail-if takes one trace", ExitCode.WRONG)
    try:
        return [threshold(text) for text in texts]
    except ValueError as error:
        raise fail(f"--fail-if {error}", ExitCode.WRONG) from error


def _check_where(master: str | None, remote: str | None) -> None:
    if master is not None:
        check_master("--master", master)
    if remote is not None:
        if master is not None:
            raise fail("--master and --remote exclude each other", 2)
        if not re.fullmatch(r"local(\[([1-9]\d{0,4}|\*)\])?|sc://[^/\s]+(/\S*)?", remote):
            shown = remote.partition(";")[0]  # a parameter may be a token
            raise fail(f"--remote {shown!r}: sc://HOST:15002, or local[2] to start one", 2)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise fail(f"--conf {text!r}: spark.KEY=VALUE", ExitCode.WRONG)
    return key, value


Lag = Annotated[
    float, typer.Option(help="Of bench runs: the lag that the headline allows.", min=0.0)
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Go on while the trace grows, until Ctrl-C.")
]
UntilIdle = Annotated[
    float | None,
    typer.Option(help="With --follow: end when no row came for so many s."),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        help="Of a trace: end with 1 if so, such as 'blocked_share>0.01'; may be repeated."
    ),
]
TablesPlace = Annotated[
    str | None, typer.Option(help="Folder or URI for the tables that all workers see.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]


def analyze(
    run: Annotated[
        list[str],
        typer.Argument(help="A trace, or folders of bench runs; paths, or URIs that Spark reads."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for report.html and its Parquet tables.")],
    master: Annotated[str | None, typer.Option(help="local[*], spark://host:7077 …")] = None,
    remote: Annotated[str | None, typer.Option(help="Spark Connect, sc://host:15002.")] = None,
    *,
    lag_p99_ms: Lag = 200.0,
    follow: Follow = False,
    every: Annotated[float, typer.Option(help="With --follow: s between two looks.", min=0.1)] = 10,
    until_idle: UntilIdle = None,
    fail_if: FailIf = None,
    tables: TablesPlace = None,
    conf: Settings = None,
    as_json: Json = False,
) -> None:
    """Analyse a trace with Spark: how long ZooKeeper blocked KRaft (needs [spark] and Java)."""
    check_name("--out", out)
    _check_where(master, remote)
    settings = dict(_setting(each) for each in conf or ())
    if follow and (len(run) > 1 or remote is not None):
        raise typer.BadParameter("--follow takes one trace, and no --remote")
    thresholds = _thresholds(fail_if or [], run)
    try:
        from bench.report import analyze as report
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    from rich.console import Console

    from bench.analysis.reach import SparkUnavailableError
    from bench.analysis.read import TraceError
    from emulator.servers.java import JavaNotFoundError

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        if follow:
            done = report.follow(
                run[0],
                out,
                master,
                tables=tables,
                settings=settings,
                every_s=every,
                idle_s=until_idle,
                on_state=lambda live: errors.print(str(live)),
                fail_if=thresholds,
            )
        else:
            done = report.analyze(
                run,
                out,
                master,
                remote,
                lag_p99_ms,
                tables=tables,
                settings=settings,
                fail_if=thresholds,
            )
    except report.NoSuchTraceError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except (JavaNotFoundError, TraceError, SparkUnavailableError, OSError) as error:
        raise fail(sentence(error)) from error
    if as_json:
        typer.echo(json.dumps(done.summary(), allow_nan=False))
    else:
        report.print_summary(done, Console())
    if any(one.crossed for one in done.thresholds):
        raise typer.Exit(ExitCode.FOUND)
