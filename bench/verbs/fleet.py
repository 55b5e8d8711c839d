"""``kraft-bridge fleet``: options, and what is printed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from bench.verbs import before_a_fleet as before
from emulator.commands.common import Override, SparkMaster, SparkTasks, checked_tasks, fail
from emulator.commands.json_forms import stamped
from emulator.config.words import install
from emulator.io import log_output
from emulator.io.printable import sentence
from emulator.io.together import Alone
from wire.releases import RELEASES

if TYPE_CHECKING:
    from bench.verbs.fleet_share import FleetOutcome, FleetTask
    from emulator.io.fleet.fleet import FleetPlan
    from emulator.io.fleet.settings import FleetSettings

T = TypeVar("T")
SECONDS_MAX: Final = 10_000_000.0
RATE_MIN: Final = 0.000_001
RATE_MAX: Final = 1_000_000.0
"""Each second. Beyond it there is no time between two changes, and they would never end."""
COUNT_MAX: Final = 1_000_000


class IsrPolicy(StrEnum):
    """What changes ISRs; the values of ``--isr``."""

    AUTO = "auto"
    MANUAL = "manual"


StartRate = Annotated[
    float | None,
    typer.Option(
        min=RATE_MIN, max=RATE_MAX, help="Brokers started each second; all at once if not given."
    ),
]
TracePlace = Annotated[
    str | None,
    typer.Option("--trace", help="Folder or URI for a trace of requests and events (Parquet)."),
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
    trace: TracePlace = None,
    spark_master: SparkMaster = None,
    tasks: SparkTasks = None,
    overrides: Override = None,
    *,
    epochs: Epochs = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run many brokers, as load for a controller, and say what they waited for.

    Ctrl-C and SIGTERM end it: the brokers leave first; a second one ends it at once. Exit code 1:
    not all brokers came up or back, one did not end as it was asked to, or it was ended so.
    """
    from emulator.io.fleet.fleet import FleetPlan
    from emulator.io.fleet.settings import FleetSettings, WaveKind

    manual, waves = isr is IsrPolicy.MANUAL, before.waves_of(wave or [])
    before.check(controller, zookeeper, release, waves, seconds)
    if manual and isr_churn:
        raise fail("--isr manual: then --isr-churn has no leaders that change ISRs", 2)
    count = checked_tasks(spark_master, tasks)
    cluster_id = before.checked_cluster_id(cluster_id)
    if spark_master is None:
        before.check_descriptors(brokers)
    extra, name = before.overridden(overrides or []), before.listener_name(listener)
    settings = FleetSettings(host, controller, zookeeper, cluster_id, release, extra, name, manual)
    rolls = any(one.kind is WaveKind.ROLL for one in waves)
    settings = before.prepared(settings, range(first_id, first_id + brokers), rolls=rolls)
    sizes = (topics, partitions, replication)
    plan = FleetPlan(
        brokers, first_id, start_rate, *sizes, isr_churn, seconds, waves, seed, patience, epochs
    )
    task = _task(plan, settings, trace if spark_master is None else _from_anywhere(trace))
    done = _run(task) if spark_master is None else _run_in_tasks(task, spark_master, count)
    raise typer.Exit(_shown(task, done, as_json=as_json))


def _task(plan: FleetPlan, settings: FleetSettings, trace: str | None) -> FleetTask:
    from bench.verbs.fleet_share import FleetTask

    return FleetTask(plan, settings, trace, time.strftime("%Y%m%d-%H%M%S"))


def _from_anywhere(trace: str | None) -> str | None:
    from emulator.io.trace_recording import from_anywhere

    return from_anywhere(trace)


def _run(task: FleetTask) -> list[FleetOutcome]:
    """Run the fleet in this process."""
    from bench.verbs import fleet_share
    from emulator.config.load import ConfigError
    from emulator.io.fleet.fleet import FleetError
    from emulator.io.trace_file import TraceUnavailableError

    log_output.never_wait()
    alone = _Alone(_print_line)
    try:
        with alone.signals():
            return [_on_uvloop(lambda: fleet_share.take_part(task, alone))]
    except TraceUnavailableError as error:
        raise fail(f"--trace {task.trace}: {error}", 2) from error
    except (FleetError, OSError) as error:
        raise fail(sentence(error)) from error
    except ConfigError as error:
        raise fail("; ".join(error.problems), 2) from error
    except KeyboardInterrupt as error:
        raise fail("interrupted") from error


def _run_in_tasks(task: FleetTask, master: str, tasks: int) -> list[FleetOutcome]:
    """Run it as barrier tasks of a Spark cluster."""
    try:
        from bench.tasks.barrier import TasksFailedError, Work, run_together
    except ImportError as error:
        raise fail(f"{error}; {install('spark')}") from error
    from bench.verbs import fleet_share
    from emulator.servers.java import JavaNotFoundError

    if tasks > task.plan.brokers:
        raise fail(f"--tasks {tasks}: more than --brokers {task.plan.brokers}", 2)
    work = Work(
        functools.partial(fleet_share.prepare, task), functools.partial(fleet_share.take_part, task)
    )
    try:
        return run_together(master, tasks, work, _print_line)
    except TasksFailedError as error:
        raise fail(str(error), 2 if error.kind == "ConfigError" else 1) from error
    except JavaNotFoundError as error:
        raise fail(str(error)) from error


def _shown(task: FleetTask, outcomes: list[FleetOutcome], *, as_json: bool) -> int:
    """Print the figures; returns the exit code."""
    from emulator.io.fleet.results import text

    totals, *others = (outcome.totals for outcome in outcomes)
    for other in others:
        totals.add(other)
    found = totals.figures()
    mode = "KRaft mode" if task.settings.zookeeper is None else "ZooKeeper mode"
    as_text = json.dumps(stamped("fleet", found), indent=1) if as_json else text(found, mode)
    typer.echo(as_text)
    lacks = [outcome.lacks for outcome in outcomes if outcome.lacks]
    for one in lacks:
        fail(f"--trace {task.trace}: {one}")
    if any(outcome.interrupted for outcome in outcomes):
        raise fail("interrupted")
    return 1 if totals.failed or lacks else 0


def _print_line(line: str) -> None:
    log_output.write(f"{line}\n")


class _Alone(Alone):
    """SIGINT and SIGTERM stop the fleet, a second one at once; later ones change nothing."""

    _stop: Callable[[], object] | None = None
    _stopping = False

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
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
                signal.signal(number, signal.SIG_IGN if self._stopping else handler)

    def watch(self, stop: Callable[[], object]) -> None:
        """See Together; called on the loop on which ``stop`` is to run."""
        loop = asyncio.get_running_loop()

        def stop_soon() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop)

        self._stop = stop_soon

    def _came(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._stopping = True
        self._stop()


def _on_uvloop(run: Callable[[], Coroutine[None, None, T]]) -> T:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
