"""``kraft-bridge load``: options, and what is printed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import Json, fail

if TYPE_CHECKING:
    from bench.load.session import LoadPlan


def load(  # noqa: PLR0917  # one option each
    bootstrap_server: Annotated[
        str, typer.Option(help="HOST:PORT,... of brokers (a listener without login or TLS).")
    ],
    rate: Annotated[
        float, typer.Option(min=0.001, max=100_000, help="Changes each second, all kinds together.")
    ],
    duration: Annotated[
        float | None,
        typer.Option(min=0.001, max=10_000_000, help="Seconds; until Ctrl-C if not given."),
    ] = None,
    topics: Annotated[
        int, typer.Option(min=1, max=100_000, help="About so many topics are kept.")
    ] = 40,
    replication_factor: Annotated[int, typer.Option(min=1, max=32_767, help="Of new topics.")] = 2,
    prefix: Annotated[str, typer.Option(help="Names of topics begin with it.")] = "load",
    seed: Annotated[int, typer.Option(help="Same seed, same answers: same changes.")] = 0,
    give_up: Annotated[
        float,
        typer.Option(min=0.1, max=3_600, help="Seconds after which a change counts as failed."),
    ] = 60.0,
    connections: Annotated[
        int, typer.Option(min=1, max=10_000, help="At most; a change waits for one to be free.")
    ] = 100,
    client_id: Annotated[
        str, typer.Option(help="In every request and in the trace; unique among several loads.")
    ] = "kraft-bridge-load",
    trace: Annotated[
        Path | None, typer.Option(help="Folder for a trace of the requests (Parquet).")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Of the trace; the time of the start if not given.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Create, alter, grow and delete topics on any cluster, at times fixed beforehand.

    A change that is slow does not delay those after it, and its wait counts from when it was due.
    Exit code 1: a change failed. 2: no broker can be reached, or an option is wrong.
    """
    try:
        from bench.load.session import LoadPlan
    except ImportError as error:
        raise fail(f"{error}; install it: pip install 'kraft-bridge[spark]'") from error
    for name, value in (("--rate", rate), ("--duration", duration), ("--give-up", give_up)):
        if value is not None and math.isnan(value):
            raise fail(f"{name} must be a number", 2)
    _check(bootstrap_server, prefix, {"--client-id": client_id, "--run-id": run_id or "-"})
    plan = LoadPlan(
        bootstrap_server,
        rate,
        duration,
        topics=topics,
        replication_factor=replication_factor,
        prefix=prefix,
        seed=seed,
        give_up_s=give_up,
        client_id=client_id,
        connections=connections,
    )
    raise typer.Exit(_play(plan, trace, run_id, as_json=as_json))


def _play(plan: LoadPlan, trace: Path | None, run_id: str | None, *, as_json: bool) -> int:
    """Run the load and print its figures; returns the exit code."""
    from bench.load.session import UnreachableError, play, text
    from emulator.io.trace_file import TraceFailedError, TraceUnavailableError

    try:
        found = play(plan, trace, run_id, lambda line: typer.echo(line, err=True))
    except UnreachableError as error:
        raise fail(f"--bootstrap-server {plan.bootstrap}: {error}", 2) from error
    except (TraceUnavailableError, TraceFailedError) as error:
        raise fail(f"--trace {trace}: {error}") from error
    except OSError as error:
        raise fail(str(error)) from error
    typer.echo(json.dumps(found, indent=1) if as_json else text(found, plan.prefix))
    return int(bool(found["failed"] or found["given_up"]))


def _check(bootstrap: str, prefix: str, names: dict[str, str]) -> None:
    import re

    from emulator.config.listeners import host_port

    for one in bootstrap.split(","):
        try:
            host_port(one.strip())
        except ValueError as error:
            raise fail(f"--bootstrap-server {bootstrap}: {error}", 2) from error
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", prefix):
        raise fail(f"--prefix {prefix!r}: letters, digits, '.', '_' and '-' only, at most 200", 2)
    for option, name in names.items():
        # They become names of folders and files of the trace.
        if not re.fullmatch(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,99}", name):
            raise fail(f"{option} {name!r}: letters, digits, '.', '_' and '-' only, at most 100", 2)
