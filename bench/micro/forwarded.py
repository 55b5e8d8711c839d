"""Requests through our broker and through Kafka's, under one Kafka controller, in turns.

CreateTopics one after the other; Metadata of many topics; and a CreateTopics that comes while the
broker forwards a large one of another client: a broker has one Envelope in flight.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.load.connection import Connection
from bench.micro import table
from bench.micro.servers import BOTH, CLUSTER_ID, KAFKA, OURS, RELEASE, running
from emulator.servers.bridge import BridgeBroker
from emulator.servers.kafka import KafkaBroker
from emulator.servers.machine import Meter, process_cpu_s, wait_quiet
from emulator.servers.ports import HOST
from emulator.trace.distribution import percentile
from wire import messages as m

CREATIONS: Final = 60
"""CreateTopics in one turn of a broker, one after the other."""
TOPICS, PARTITIONS = 1_000, 10
READS: Final = 20
WARM_UPS: Final = 5
"""So many times the calls in turn 0, which is not counted: Java compiles what it runs often."""
RATIO_MAX: Final = 1.5
LARGE: Final = 200
"""Partitions of the request that another one waits behind."""
BEHIND: Final = 10
WAITS: Final = "CreateTopics behind a large one"
FIGURES: Final = {
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "per_s": "answers/s",
    "cpu_ms_each": "broker CPU of an answer, ms",
}
APIS: Final = ("CreateTopics", "Metadata", WAITS)
"""What is timed, in this order: what the last one creates would be in the answers before it."""


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--rounds", type=int, default=5, help="turns of each broker")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """One row for each turn of each broker; turn 0 warms up."""
    with ExitStack() as stack:
        controller = stack.enter_context(running(KAFKA, folder))
        brokers: dict[str, KafkaBroker] = {}
        for name, kind, number in ((OURS, BridgeBroker, 1), (KAFKA, KafkaBroker, 2)):
            made = kind(RELEASE, number, folder, None, controller_port=controller.port)
            stack.callback(made.kill)
            brokers[name] = made.at_full_speed().identify(CLUSTER_ID).start().wait_started()
        for what, work in zip(APIS, (_creations, _reads, _behind), strict=True):
            if what == "Metadata":
                asyncio.run(_fill(brokers[OURS]))
            wait_quiet(asked.patience)
            for turn in range(asked.rounds + 1):
                for name in BOTH if turn % 2 else reversed(BOTH):
                    yield _row(work, what, name, turn, brokers[name])


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Medians without the turn that warms up, and whether our CreateTopics takes not too long."""
    counted = [row for row in rows if row["round"]]
    creations = [row for row in counted if row["API"] == APIS[0]]
    middles = [
        table.middle([row for row in creations if row["broker"] == name], "p50_ms") for name in BOTH
    ]
    ours, kafkas = (middle or 0.0 for middle in middles)
    return table.beside(counted, ("API",), "broker", BOTH, FIGURES), ours <= RATIO_MAX * kafkas


def _row(work: Any, what: str, name: str, turn: int, broker: KafkaBroker) -> dict[str, Any]:
    assert broker.pid is not None
    meter, before_s = Meter({name: broker.pid}), process_cpu_s(broker.pid)
    calls = 1 if turn else WARM_UPS
    waits_ms = sorted(asyncio.run(work(broker, f"{name}-{turn}", calls)))
    usage = meter.usage()
    return {
        "API": what,
        "broker": name,
        "round": turn,
        "calls": len(waits_ms),
        "p50_ms": percentile(waits_ms, 0.5),
        "p99_ms": percentile(waits_ms, 0.99),
        "per_s": round(len(waits_ms) / usage.wall_s, 1),
        "cpu_ms_each": round((process_cpu_s(broker.pid) - before_s) * 1e3 / len(waits_ms), 2),
        "others_cores": round(usage.others_cores, 2),
    }


async def _open(broker: KafkaBroker) -> Connection:
    address = (HOST, broker.client_port)
    return await Connection.open(address, "bench", itertools.count(1))


def _create(name: str, partitions: int = 1) -> m.CreateTopicsRequest:
    kind = m.CreateTopicsRequest
    # Our broker stores nothing: only what the request itself costs is measured.
    placed = [
        kind.CreatableReplicaAssignment(partition_index=number, broker_ids=(1,))
        for number in range(partitions)
    ]
    topic = kind.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=placed
    )
    return kind(topics=[topic])


async def _creations(broker: KafkaBroker, prefix: str, times: int) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for number in range(CREATIONS * times):
        began = time.perf_counter()
        answer, _ = await client.call(_create(f"{prefix}-{number}"))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert not answer.topics[0].error_code, answer
    client.close()
    return waits_ms


async def _behind(broker: KafkaBroker, prefix: str, times: int) -> list[float]:
    """The waits of small requests that begin just after a large one of another client."""
    large, small = await _open(broker), await _open(broker)
    waits_ms = []
    for number in range(BEHIND * times):
        name = f"{prefix}-behind-{number}"
        first = asyncio.ensure_future(large.call(_create(f"{name}-large", LARGE)))
        await asyncio.sleep(0)  # it is sent
        began = time.perf_counter()
        answer, _ = await small.call(_create(name))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        before, _ = await first
        assert not answer.topics[0].error_code, answer
        assert not before.topics[0].error_code, before
    large.close()
    small.close()
    return waits_ms


async def _fill(broker: KafkaBroker) -> None:
    client = await _open(broker)
    for number in range(TOPICS):
        await client.call(_create(f"many-{number:04d}", PARTITIONS))
    client.close()


async def _reads(broker: KafkaBroker, _prefix: str, times: int) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for _ in range(READS * times):
        began = time.perf_counter()
        answer, _ = await client.call(m.MetadataRequest(topics=None))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert len(answer.topics) >= TOPICS
    client.close()
    return waits_ms
