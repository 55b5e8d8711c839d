"""``kraft-bridge wire``: look at declarations, check recordings."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from wire import show as text
from wire.check import check as check_recordings
from wire.errors import DeclarationError, DecodeError
from wire.follow import follow, recording_of, shown
from wire.schema import spec

app = typer.Typer(no_args_is_help=True, help="Kafka's messages: declarations and recordings.")

EXIT_USAGE = 2
CHECK_SCHEMA = "wire-check/1"
FOLLOW_S = 0.1
"""How often a recording is looked at for more."""


@app.command()
def show(
    message: Annotated[
        str | None,
        typer.Argument(help="FetchRequest, TopicRecord, ElectLeaders; all APIs if left out."),
    ] = None,
    version: Annotated[int | None, typer.Option(help="The newest if left out.")] = None,
    source: Annotated[bool, typer.Option("--source", help="The generated code.")] = False,
    hex_: Annotated[
        str | None, typer.Option("--hex", help="Bytes of a message body, to be annotated.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Tables as JSON.")] = False,
    followed: Annotated[
        Path | None,
        typer.Option("--follow", help="Pairs of a recording, and those that come, until Ctrl-C."),
    ] = None,
) -> None:
    """Show all APIs, one message as a version grid, its generated source, or an annotated dump.

    With --follow the pairs of a recording, those of MESSAGE only if it is given.
    """
    if followed is not None:
        if source or version is not None or hex_ is not None:
            raise _fail("--follow goes with MESSAGE and --json only")
        _follow(followed, message, as_json=as_json)
        return
    if message is None:
        _print(text.apis(), as_json=as_json)
        return
    try:
        cls = text.find(message)
        chosen = spec(cls).max_version if version is None else version
        if hex_ is not None:
            _print(text.dump(cls, chosen, bytes.fromhex(hex_)), as_json=as_json)
        elif source:
            typer.echo(text.source(cls, chosen), nl=False)
        else:
            _print(text.grid(cls, None if version is None else [version]), as_json=as_json)
    except DecodeError as error:
        raise _fail(str(error), 1) from None
    except (KeyError, ValueError, DeclarationError) as error:
        raise _fail(str(error.args[0])) from None


def _fail(problem: str, code: int = EXIT_USAGE) -> typer.Exit:
    """Print an error to stderr; the caller raises the result."""
    typer.echo(f"kraft-bridge: {problem}", err=True)
    return typer.Exit(code)


def _follow(path: Path, api: str | None, *, as_json: bool) -> None:
    wanted = None if api is None else api.lower().removesuffix("request")
    if wanted is not None:
        try:
            text.find(wanted)
        except KeyError as error:
            raise _fail(str(error.args[0])) from None

    def wait() -> bool:
        time.sleep(FOLLOW_S)
        return True

    if not recording_of(path).exists():
        typer.echo(f"waiting for {recording_of(path)}", err=True)
    try:
        for number, line in enumerate(follow(path, wait), 1):
            try:
                one = shown(line)
            except ValueError as error:
                typer.echo(f"{path}: line {number} is {error}", err=True)
                continue
            if wanted is None or one.is_about(wanted):
                typer.echo(one.json() + "\n" if as_json else one.text(), nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _fail(f"{path}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _print(table: text.Table, *, as_json: bool) -> None:
    typer.echo(table.json() if as_json else table.text(), nl=False)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Recordings (JSON lines).")],
    as_json: Annotated[bool, typer.Option("--json", help="The counts as JSON.")] = False,
) -> None:
    """Decode every recorded frame and write it again from its fields alone."""
    try:
        checked = check_recordings(files)
    except ValueError as error:
        raise _fail(str(error)) from None
    for failure in checked.failures:
        typer.echo(failure, err=True)
    counts = {
        "frames": checked.frames,
        "decoded": checked.decoded,
        "identical": checked.identical,
    }
    line = " ".join(f"{name}={count}" for name, count in counts.items())
    typer.echo(json.dumps({"schema": CHECK_SCHEMA, **counts}) if as_json else line)
    if not checked.passed:
        raise typer.Exit(1)
