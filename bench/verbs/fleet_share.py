"""What one process of a fleet does: all of it, or a share in a barrier task of Spark."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.verbs import before_a_fleet
from emulator.io.clock import Clock
from emulator.io.fleet.fleet import BrokerFleet, FleetError, FleetPlan, NoControllerYetError
from emulator.io.fleet.results import FleetResults, FleetTotals
from emulator.io.fleet.settings import FleetSettings
from emulator.io.kafka_client import Connection, TooOldError
from emulator.io.together import Share, Together
from emulator.io.trace_file import run_row
from emulator.io.trace_recording import recording
from wire import messages as m
from wire.errors import ErrorCode, named

CALL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class FleetTask:
    """What all processes of a fleet are asked for; ``trace``: path or URI, None: none."""

    plan: FleetPlan
    settings: FleetSettings
    trace: str | None
    run_id: str


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """What one process did.

    ``interrupted``: the user ended it before its time. ``lacks``: what is missing in its trace.
    """

    totals: FleetTotals
    interrupted: bool
    lacks: str = ""


async def prepare(task: FleetTask, share: Share) -> None:
    """Check that this process can run its brokers.

    Raises:
        FleetError: it may not have so many descriptors.
    """
    brokers = len(share.numbers(task.plan.brokers))
    possible = before_a_fleet.possible_brokers()
    if brokers > possible:
        raise FleetError(before_a_fleet.too_many(brokers, possible))


async def take_part(task: FleetTask, together: Together) -> FleetOutcome:
    """Run this process's share of a fleet.

    Raises:
        FleetError, ConfigError, OSError: as ``BrokerFleet.run``.
        TraceUnavailableError: there can be no trace.
    """
    process = together.share.named("fleet")
    with recording(task.trace, task.run_id, process, run_row("fleet", {})) as trace:
        results = FleetResults(trace.append, trace.flush)
        fleet = BrokerFleet(
            task.plan,
            task.settings,
            clock=Clock(),
            report=together.report,
            results=results,
            create=functools.partial(create_topics, task.settings.host),
            together=together,
        )
        began_s, cpu_s = time.monotonic(), time.process_time()
        together.watch(fleet.stop)
        await fleet.run()
        totals = results.totals(time.monotonic() - began_s, time.process_time() - cpu_s)
    return FleetOutcome(totals, fleet.stopped, trace.lacks)


def create_topics(
    host: str, port: int, names: Sequence[str], partitions: int, replicas: int
) -> None:
    """Create topics by a broker.

    Raises:
        FleetError: they cannot be created; NoControllerYetError: at this time.
    """
    kind = m.CreateTopicsRequest
    topics = [
        kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        for name in names
    ]
    try:
        with contextlib.closing(Connection(host, port, CALL_S)) as client:
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
