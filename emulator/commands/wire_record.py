"""``kraft-bridge wire record``: record what clients and a Kafka server say to each other."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import fail
from emulator.config.listeners import HostPort, host_fault, host_port
from emulator.io.printable import sentence

if TYPE_CHECKING:
    from emulator.io.recorder import Route


def record(
    listen: Annotated[list[str], typer.Option("--listen", help="HOST:PORT; port 0: a free one.")],
    to: Annotated[list[str], typer.Option("--to", help="HOST:PORT, one per --listen.")],
    out: Annotated[Path, typer.Option("--out", help="A folder without a recording.")],
) -> None:
    """Pass on connections and record each request with its answer, until Ctrl-C.

    A client follows the addresses that brokers advertise: they must be those of --listen.
    """
    from emulator.io import log_output
    from emulator.io.recorder import Recorder, RecordingFolder

    log_output.never_wait()
    routes = _routes(listen, to)
    try:
        folder = RecordingFolder(out)
    except FileExistsError as error:
        raise fail(f"{out}: there is a recording; name another folder", 2) from error
    except OSError as error:
        raise fail(sentence(error), 2) from error

    def ready(bound: Sequence[HostPort]) -> None:
        for at, route in zip(bound, routes, strict=True):
            log_output.write(f"recording {at} -> {route.to} into {out}; Ctrl-C ends it\n")

    async def work() -> None:
        recorder = Recorder(folder, lambda text: log_output.write(f"{text}\n"))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, recorder.stop)
        await recorder.run(routes, ready)

    failure: OSError | None = None
    try:
        asyncio.run(work())
    except OSError as error:
        failure = error
    try:
        folder.close()
    except OSError as error:
        failure = failure or error
    typer.echo(f"pairs={folder.pairs} withheld={folder.withheld}")
    if failure is not None:
        with contextlib.suppress(OSError):
            if not folder.pairs:
                (out / "wire.jsonl").unlink()
        raise fail(sentence(failure))


def _routes(listen: list[str], to: list[str]) -> list[Route]:
    """Where to listen and whom to pass it on to; what cannot be ends the command with code 2."""
    from emulator.io.recorder import Route

    if len(listen) != len(to):
        raise fail("one --to for each --listen", 2)
    try:
        routes = [Route(host_port(a), host_port(b)) for a, b in zip(listen, to, strict=True)]
    except ValueError as error:
        raise fail(str(error), 2) from error
    for one in (each for route in routes for each in route):
        if host_fault(one.host) is not None:
            raise fail(f"{one.host!r} is no name of a host", 2)
    loop = next((a for a, b in routes if a in {to for _, to in routes}), None)
    if loop is not None:
        raise fail(f"{loop} is a --listen and a --to: it would connect to itself for ever", 2)
    return routes
