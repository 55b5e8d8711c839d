"""``kraft-bridge load``: options, and what is printed."""

from __future__ import annotations

import enum
import functools
import json
import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.common import Json, SparkMaster, SparkTasks, checked_tasks, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.config.words import install
from emulator.io import log_output
from emulator.io.printable import sentence

if TYPE_CHECKING:
    from bench.load.session import LoadOutcome, LoadPlan


class Brokers(enum.StrEnum):
    """Which brokers get changes."""

    ALL = "all"
    ONE = "one"


_Brokers = Annotated[
    Brokers,
    typer.Option(
        help="'all' that forward changes; 'one' measures the channel of a single broker, which "
        "forwards one request at a time."
    ),
]


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
        int,
        typer.Option(
            min=1, max=100_000, help="About so many are kept; half as many changes at once."
        ),
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
    brokers: _Brokers = Brokers.ALL,
    client_id: Annotated[
        str, typer.Option(help="In every request and in the trace; unique among several loads.")
    ] = "kraft-bridge-load",
    trace: Annotated[
        str | None, typer.Option(help="Folder or URI for a trace of the requests (Parquet).")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Of the trace; the time of the start if not given.")
    ] = None,
    spark_master: SparkMaster = None,
    tasks: SparkTasks = None,
    *,
    as_json: Json = False,
) -> None:
    """Create, alter, grow and delete topics on any cluster, at times fixed beforehand.

    A change that is slow does not delay those after it, and its wait counts from when it was due.
    Exit code 1: a change failed.
    """
    try:
        from bench.load.session import LoadPlan
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    log_output.never_wait()
    _check_numbers({"--rate": rate, "--duration": duration, "--give-up": give_up})
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
        one_broker=brokers is Brokers.ONE,
    )
    run_id = run_id or time.strftime("%Y%m%d-%H%M%S")
    shares = _played(plan, trace, run_id, spark_master, checked_tasks(spark_master, tasks))
    raise typer.Exit(_shown(plan, shares, trace, as_json=as_json))


def _played(
    plan: LoadPlan, trace: str | None, run_id: str, master: str | None, tasks: int
) -> list[LoadOutcome]:
    if master is None:
        return _play(plan, trace, run_id)
    return _play_in_tasks(plan, trace, run_id, master, tasks)


def _play(plan: LoadPlan, trace: str | None, run_id: str) -> list[LoadOutcome]:
    """Run the load in this process."""
    from bench.load.session import UnreachableError, play
    from emulator.config.listeners import host_port
    from emulator.io.kafka_client import BROKER_S, no_broker_at
    from emulator.io.trace_file import TraceUnavailableError

    brokers = [host_port(one.strip()) for one in plan.bootstrap.split(",")]
    if problem := no_broker_at(brokers, BROKER_S):
        raise fail(f"--bootstrap-server: {problem}", ExitCode.UNREACHABLE)
    try:
        return [play(plan, trace, run_id, _print_line)]
    except UnreachableError as error:
        problem = f"--bootstrap-server {plan.bootstrap}: {error}"
        raise fail(problem, ExitCode.UNREACHABLE) from error
    except TraceUnavailableError as error:
        raise fail(f"--trace {trace}: {error}") from error
    except OSError as error:
        raise fail(sentence(error)) from error


def _play_in_tasks(
    plan: LoadPlan, trace: str | None, run_id: str, master: str, tasks: int
) -> list[LoadOutcome]:
    """Run it as barrier tasks of a Spark cluster."""
    from bench.load.session import UnreachableError, reach, take_part
    from bench.tasks.barrier import TasksFailedError, Work, run_together
    from emulator.io.trace_recording import from_anywhere
    from emulator.servers.java import JavaNotFoundError

    run = functools.partial(take_part, plan, from_anywhere(trace), run_id)
    try:
        return run_together(master, tasks, Work(functools.partial(reach, plan), run), _print_line)
    except TasksFailedError as error:
        unreachable = error.kind == UnreachableError.__name__
        raise fail(str(error), ExitCode.UNREACHABLE if unreachable else 1) from error
    except JavaNotFoundError as error:
        raise fail(str(error)) from error


def _shown(plan: LoadPlan, shares: list[LoadOutcome], trace: str | None, *, as_json: bool) -> int:
    """Print the figures; returns the exit code."""
    from bench.load.session import figures, text

    found = figures(plan, shares)
    typer.echo(
        json.dumps(stamped("load", found), indent=1) if as_json else text(found, plan.prefix)
    )
    lacks = [share.lacks for share in shares if share.lacks]
    for one in lacks:
        fail(f"--trace {trace}: {one}")
    return int(bool(found["failed"] or found["given_up"] or lacks))


def _print_line(line: str) -> None:
    log_output.write(f"{line}\n")


def _check_numbers(values: dict[str, float | None]) -> None:
    for name, value in values.items():
        if value is not None and math.isnan(value):
            raise fail(f"{name} must be a number", 2)


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
        # These names become names of folders and files of the trace.
        if not re.fullmatch(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,99}", name):
            raise fail(f"{option} {name!r}: letters, digits, '.', '_' and '-' only, at most 100", 2)
