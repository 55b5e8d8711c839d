"""``kraft-bridge demo``: migrate a real cluster under load and report it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import check_name, fail
from emulator.config.words import install


def demo(
    out: Annotated[
        Path,
        typer.Option(help="Traces, logs and the report go to demo-<time> in this folder."),
    ] = Path("out"),
    seconds: Annotated[
        float, typer.Option(min=30, max=86_400, help="Length of the load; its kills need so long.")
    ] = 60,
    rate: Annotated[
        float, typer.Option(min=1, max=100_000, help="Administrative changes per second.")
    ] = 10,
) -> None:
    """Migrate a real cluster under load, check it, write a report (needs Java 17 to 22)."""
    check_name("--out", out)
    try:
        from bench.demo.needs import NotHereError, look
        from bench.demo.run import run
        from bench.demo.stage import Options, new_folder
        from emulator.servers.jars import JarsMissingError
        from emulator.servers.java import JavaNotFoundError
    except ImportError as error:
        raise fail(f"{error}; {install('spark', 'java')}") from error
    try:
        look(Options(out, seconds, rate))
    except (NotHereError, JavaNotFoundError, JarsMissingError) as error:
        raise fail(str(error)) from error
    raise typer.Exit(run(Options(new_folder(out), seconds, rate)))
