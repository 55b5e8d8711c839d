"""``kraft-bridge fleet``: options, and what is printed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from emulator.commands.common import Override, fail
from emulator.config import properties
from emulator.io.fleet.waves import Wave, parse_wave
from emulator.io.jaas_file import inlined
from wire.releases import RELEASES

CALL_S: Final = 60.0
if TYPE_CHECKING:
    from emulator.io.fleet.fleet import FleetPlan
    from emulator.io.fleet.settings import FleetSettings
    from emulator.trace.rows import Row

DESCRIPTORS_EACH: Final = 8
"""Connections, and a listener, of one broker."""
SECONDS_MAX: Final = 10_000_000.0
RATE_MIN: Final = 0.000_001
RATE_MAX: Final = 1_000_000.0
"""Each second. Beyond it there is no time between two changes, and they would never end."""
COUNT_MAX: Final = 1_000_000


class IsrPolicy(StrEnum):
    """Who changes ISRs; the values of ``--isr``."""

    AUTO = "auto"
    MANUAL = "manual"


StartRate = Annotated[
    float | None,
    typer.Option(
        min=RATE_MIN, max=RATE_MAX, help="Brokers started each second; all at once if not given."
    ),
]
IsrChurnRate = Annotated[
    float,
    typer.Option(min=0, max=RATE_MAX, help="Changes of ISRs each second, by all brokers together."),
]
Isr = Annotated[
    IsrPolicy,
    typer.Option(
        help="auto: leaders change ISRs as brokers do. manual: they leave them to whoever sends "
        "AlterPartition in their name."
    ),
]
ListenerName = Annotated[
    str, typer.Option(help="Name of the brokers' listener, which is not encrypted.")
]
Epochs = Annotated[bool, typer.Option("--epochs", help="Say the broker epoch of registrations.")]
Patience = Annotated[
    float,
    typer.Option(
        min=0,
        max=SECONDS_MAX,
        help="Seconds until all must run, and until a shutdown must be granted.",
    ),
]


def fleet(  # noqa: PLR0917  # one option each
    brokers: Annotated[int, typer.Option(min=1, max=10_000, help="How many brokers.")],
    controller: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of a KRaft controller (with --zookeeper: to migrate to)."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="Connect string: the brokers are in ZooKeeper mode."),
    ] = None,
    cluster_id: Annotated[
        str | None, typer.Option(help="Of the cluster; asked for when not given.")
    ] = None,
    release: Annotated[str, typer.Option(help="Emulated Kafka release.")] = RELEASES[-1],
    first_id: Annotated[int, typer.Option(min=0, help="Id of the first broker.")] = 0,
    host: Annotated[str, typer.Option(help="Where the brokers listen.")] = "127.0.0.1",
    listener: ListenerName = "PLAINTEXT",
    start_rate: StartRate = None,
    topics: Annotated[int, typer.Option(min=0, max=COUNT_MAX, help="Topics to create.")] = 0,
    partitions: Annotated[
        int, typer.Option(min=1, max=COUNT_MAX, help="Partitions of each topic.")
    ] = 1,
    replication: Annotated[int, typer.Option(min=1, help="Replicas of each partition.")] = 3,
    isr_churn: IsrChurnRate = 0.0,
    isr: Isr = IsrPolicy.AUTO,
    seconds: Annotated[
        float, typer.Option(min=0, max=SECONDS_MAX, help="How long, after the topics.")
    ] = 10.0,
    wave: Annotated[
        list[str] | None,
        typer.Option(help="KIND@SECOND[:COUNT][/RATE]; KIND: restart, roll, die, revive."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses who dies.")] = 0,
    patience: Patience = 120.0,
    trace: Annotated[
        Path | None, typer.Option(help="Folder for a trace of requests and events (Parquet).")
    ] = None,
    overrides: Override = None,
    *,
    epochs: Epochs = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run many brokers in one process, as load for a controller, and say what they waited for.

    Ctrl-C and SIGTERM end it: the brokers leave first. Exit code 1: not all brokers came up, one
    did not end as it was asked to, or it was ended so.
    """
    from emulator.io.fleet.fleet import FleetPlan
    from emulator.io.fleet.settings import FleetSettings

    waves = _waves(wave or [])
    _check(controller, zookeeper, release, waves, seconds)
    if isr is IsrPolicy.MANUAL and isr_churn:
        raise fail("--isr manual: then --isr-churn has no leaders that change ISRs", 2)
    _descriptors(brokers)
    extra = _extra(overrides or [])
    if zookeeper is None:
        assert controller is not None
        cluster_id = cluster_id or _cluster_of(controller)
    elif controller is not None:
        _as_after_a_controller(zookeeper)
    manual = isr is IsrPolicy.MANUAL
    settings = FleetSettings(
        host, controller, zookeeper, cluster_id, release, extra, listener.upper(), manual
    )
    sizes = (topics, partitions, replication)
    plan = FleetPlan(
        brokers, first_id, start_rate, *sizes, isr_churn, seconds, waves, seed, patience, epochs
    )
    raise typer.Exit(_run(plan, settings, trace, as_json=as_json))


def _run(plan: FleetPlan, settings: FleetSettings, trace: Path | None, *, as_json: bool) -> int:
    """Run a fleet and print its figures; returns the exit code."""
    from emulator.config.load import ConfigError
    from emulator.io.clock import Clock
    from emulator.io.fleet.fleet import BrokerFleet, FleetError
    from emulator.io.fleet.results import FleetResults, text

    def say(line: str) -> None:
        typer.echo(line, err=True)

    def create(port: int, names: Sequence[str], partitions: int, replicas: int) -> None:
        _create_topics((settings.host, port), names, partitions, replicas)

    problem, interrupted = None, False
    with _trace(trace) as (row, flush):
        results = FleetResults(row, flush)

        async def run() -> None:
            fleet = BrokerFleet(
                plan, settings, clock=Clock(), say=say, results=results, create=create
            )
            await fleet.run()

        began_s, cpu_s = time.monotonic(), time.process_time()
        try:
            with _sigterm_is_sigint():
                _on_uvloop(run)
        except (FleetError, OSError) as error:
            problem = str(error)
        except ConfigError as error:
            raise fail("; ".join(error.problems), 2) from error
        except KeyboardInterrupt:
            problem, interrupted = "interrupted", True
        found = results.figures(time.monotonic() - began_s, time.process_time() - cpu_s)
    if problem is None or interrupted:
        mode = "KRaft mode" if settings.zookeeper is None else "ZooKeeper mode"
        typer.echo(json.dumps(found, indent=1) if as_json else text(found, mode))
    if problem is not None:
        raise fail(problem)
    return 1 if results.failed else 0


def _create_topics(
    broker: tuple[str, int], names: Sequence[str], partitions: int, replicas: int
) -> None:
    from emulator.commands.admin_client import Connection, TooOldError
    from emulator.io.fleet.fleet import FleetError, NoControllerYetError
    from wire import messages as m
    from wire.errors import ErrorCode, named

    kind = m.CreateTopicsRequest
    topics = [
        kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        for name in names
    ]
    try:
        with contextlib.closing(Connection(*broker, CALL_S)) as client:
            answer = client.call(kind(topics=topics, timeout_ms=int(CALL_S * 1_000)))
    except (OSError, TooOldError) as error:
        raise FleetError(f"topics cannot be created: {error}") from error
    for topic in answer.topics:
        if topic.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            why = topic.error_message or named(topic.error_code)
            later = topic.error_code in {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
            raise (NoControllerYetError if later else FleetError)(
                f"topic {topic.name} cannot be created: {why}"
            )


def _as_after_a_controller(zookeeper: str) -> None:
    """Create ``/controller_epoch`` if it is not there.

    The brokers are never the ZooKeeper controller. So a cluster of these brokers alone has none,
    and a migration is refused where no controller was ever elected.
    """
    from kazoo.exceptions import KazooException, NodeExistsError
    from kazoo.handlers.threading import KazooTimeoutError

    from emulator.commands.zk.client import client

    try:
        found = client(zookeeper)
        try:
            found.start()
            found.create("/controller_epoch", b"1", makepath=True)
            typer.echo("/controller_epoch created: no controller was ever elected here", err=True)
        except NodeExistsError:
            pass
        finally:
            found.stop()
            found.close()
    except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
        why = error or type(error).__name__
        raise fail(f"--zookeeper {zookeeper}: {why}", 2) from error


@contextlib.contextmanager
def _sigterm_is_sigint() -> Iterator[None]:
    """SIGTERM ends the fleet as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _on_uvloop(run: Callable[[], Coroutine[None, None, None]]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _check(
    controller: str | None,
    zookeeper: str | None,
    release: str,
    waves: tuple[Wave, ...],
    seconds: float,
) -> None:
    from emulator.io.fleet.waves import WaveKind

    if controller is None and zookeeper is None:
        raise fail("--controller (KRaft mode), --zookeeper (ZooKeeper mode) or both (migration)", 2)
    if release not in RELEASES:
        raise fail(f"--release is one of {', '.join(RELEASES)}, not {release}", 2)
    late = [one for one in waves if one.at_s > seconds]
    if late:
        wave = late[0]
        raise fail(f"--wave {wave.kind.value}@{wave.at_s:g} is after --seconds {seconds:g}", 2)
    if controller is None and any(one.kind is WaveKind.ROLL for one in waves):
        raise fail("a roll to KRaft mode needs --controller", 2)


def _waves(texts: list[str]) -> tuple[Wave, ...]:
    try:
        return tuple(parse_wave(text) for text in texts)
    except ValueError as error:
        raise fail(f"--wave {error}", 2) from error


def _extra(overrides: list[str]) -> dict[str, str]:
    try:
        return inlined(properties.parse("", overrides))
    except (OSError, ValueError) as error:
        raise fail(f"-X {error}", 2) from error


def _descriptors(brokers: int) -> None:
    from emulator.io import descriptors

    possible = descriptors.for_connections() // DESCRIPTORS_EACH
    if brokers > possible:
        raise fail(
            f"--brokers {brokers}: this process has descriptors for {possible}; raise the limit "
            "(ulimit -n)"
        )


def _cluster_of(controller: str) -> str:
    """Ask a KRaft controller for the id of its cluster."""
    from emulator.commands.admin_client import Connection, TooOldError
    from emulator.config.listeners import host_port
    from wire import messages as m

    try:
        one = host_port(controller.split(",", maxsplit=1)[0])
        with contextlib.closing(Connection(one.host, one.port, 5.0)) as client:
            answer = client.call(m.DescribeClusterRequest(endpoint_type=2), lowest=1)
    except (OSError, TooOldError, ValueError) as error:
        raise fail(f"--controller {controller}: {error}", 2) from error
    if answer.error_code or not answer.cluster_id:
        raise fail("the controller does not tell the id of its cluster: give --cluster-id", 2)
    found: str = answer.cluster_id
    return found


@contextlib.contextmanager
def _trace(
    folder: Path | None,
) -> Iterator[tuple[Callable[[Row], None], Callable[[], None]]]:
    """What takes a row, and what hands the rows over; None: nothing is recorded."""
    from importlib import metadata

    from emulator.io.trace_file import TraceFailedError, TraceFile, TraceUnavailableError
    from emulator.trace.rows import SCHEMA_VERSION, RunRow

    if folder is None:
        yield (lambda _row: None), (lambda: None)
        return
    run_id = time.strftime("%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = TraceFile(folder, run_id, "fleet")
    except (TraceUnavailableError, OSError) as error:
        raise fail(f"--trace {folder}: {error}", 2) from error

    def append(row: Row) -> None:
        # A broker must not end because of the trace; the next flush ends the run.
        with contextlib.suppress(TraceFailedError):
            file.append(row)

    append(
        RunRow(
            schema_version=SCHEMA_VERSION,
            monotonic_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            host=socket.gethostname(),
            product_version=metadata.version("kraft-bridge"),
            release="fleet",
            parameters="{}",
        )
    )
    try:
        yield append, file.flush
    finally:
        try:
            file.close()
        except TraceFailedError as error:
            raise fail(f"--trace {folder}: {error}") from error
