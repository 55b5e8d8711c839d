"""``kraft-bridge analyze``: a report from a trace, by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import Json, fail


def analyze(
    run: Annotated[
        list[str],
        typer.Argument(help="A trace, or folders of bench runs; paths, or URIs that Spark reads."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for report.html and its Parquet tables.")],
    master: Annotated[str | None, typer.Option(help="local[*], spark://host:7077 …")] = None,
    remote: Annotated[str | None, typer.Option(help="Spark Connect, sc://host:15002.")] = None,
    *,
    lag_p99_ms: Annotated[
        float, typer.Option(help="Of bench runs: the lag that the headline allows.", min=0.0)
    ] = 50.0,
    as_json: Json = False,
) -> None:
    """Analyse a trace with Spark: how long ZooKeeper blocked KRaft (needs [spark] and Java)."""
    try:
        from bench.report import analyze as report
    except ImportError as error:
        raise fail(f"{error}; install it: pip install 'kraft-bridge[spark]'") from error
    import msgspec
    from rich.console import Console

    from bench.analysis.read import TraceVersionError
    from bench.rig.java import JavaNotFoundError

    try:
        done = report.analyze(run, out, master, remote, lag_p99_ms)
    except (JavaNotFoundError, TraceVersionError, report.TraceUnreadableError, OSError) as error:
        raise fail(str(error)) from error
    if as_json:
        typer.echo(msgspec.json.encode(done, enc_hook=str).decode())
    else:
        report.print_summary(done, Console())
