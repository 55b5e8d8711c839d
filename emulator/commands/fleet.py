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

from emulator.commands import before_a_fleet as before
from emulator.commands.common import Override, fail
from wire.releases import RELEASES

if TYPE_CHECKING:
    from emulator.io.fleet.fleet import BrokerFleet, FleetPlan
    from emulator.io.fleet.settings import FleetSettings
    from emulator.trace.rows import Row

CALL_S: Final = 60.0
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

    Ctrl-C and SIGTERM end it: the brokers leave first; a second one ends it at once. Exit code 1:
    not all brokers came up or back, one did not end as it was asked to, or it was ended so.
    """
    from emulator.io.fleet.fleet import FleetPlan
    from emulator.io.fleet.settings import FleetSettings
    from emulator.io.fleet.waves import WaveKind

    manual, waves = isr is IsrPolicy.MANUAL, before.waves_of(wave or [])
    before.check(controller, zookeeper, release, waves, seconds)
    if manual and isr_churn:
        raise fail("--isr manual: then --isr-churn has no leaders that change ISRs", 2)
    cluster_id = before.checked_cluster_id(cluster_id)
    before.check_descriptors(brokers)
    extra, name = before.overridden(overrides or []), before.listener_name(listener)
    settings = FleetSettings(host, controller, zookeeper, cluster_id, release, extra, name, manual)
    rolls = any(one.kind is WaveKind.ROLL for one in waves)
    settings = before.prepared(settings, range(first_id, first_id + brokers), rolls=rolls)
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
    signals = _Signals()
    with signals.taken(), _trace(trace) as (row, flush):
        results = FleetResults(row, flush)

        async def run() -> bool:
            fleet = BrokerFleet(
                plan, settings, clock=Clock(), say=say, results=results, create=create
            )
            signals.stop(fleet)
            await fleet.run()
            return fleet.stopped

        began_s, cpu_s = time.monotonic(), time.process_time()
        try:
            interrupted = _on_uvloop(run)
        except (FleetError, OSError) as error:
            problem = str(error)
        except ConfigError as error:
            raise fail("; ".join(error.problems), 2) from error
        except KeyboardInterrupt:
            interrupted = True
        problem = "interrupted" if interrupted else problem
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


class _Signals:
    """SIGINT and SIGTERM stop a fleet, a second one at once; later ones change nothing."""

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None
        self._told = False

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take them, if this is the thread that gets them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._came) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                # One more must not cut off what is printed at the end.
                signal.signal(number, signal.SIG_IGN if self._told else handler)

    def stop(self, fleet: BrokerFleet) -> None:
        """Stop this one, which runs on the loop of the caller."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(fleet.stop)

        self._stop = stop

    def _came(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._told = True
        self._stop()


def _on_uvloop(run: Callable[[], Coroutine[None, None, bool]]) -> bool:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


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
