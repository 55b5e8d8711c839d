"""Requests through our broker and through Kafka's, under one Kafka controller, in turns.

CreateTopics one after the other; Metadata of many topics; and a CreateTopics that comes while the
broker forwards a large one of another client: a broker has one Envelope in flight.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.beside.contenders import KAFKA_FLAGS, QUIET_LOG
from bench.beside.machine import Meter, process_cpu_s, wait_quiet
from bench.load.connection import Connection
from bench.rig.bridge_broker import BridgeBroker
from bench.rig.kafka import Broker, KraftController
from bench.rig.ports import HOST
from wire import messages as m

CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
RELEASE: Final = "3.9.2"
OURS, KAFKAS = 1, 2
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
APIS: Final = ("CreateTopics", "Metadata", WAITS)
"""What is timed, in this order: what the last one creates would be in the answers before it."""


def rows(
    folder: Path, rounds: int, patience_s: float, say: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """One row for each turn of each broker."""
    with ExitStack() as stack:
        controller = KraftController(RELEASE, folder, None, CLUSTER)
        stack.callback(controller.kill)
        controller.heap, controller.java_flags, controller.log4j = "1g", KAFKA_FLAGS, QUIET_LOG
        controller.start().wait_started()
        brokers: dict[str, Broker] = {}
        for name, kind, number in (("ours", BridgeBroker, OURS), ("kafka", Broker, KAFKAS)):
            made = kind(RELEASE, number, folder, None, controller_port=controller.port)
            stack.callback(made.kill)
            made.heap, made.java_flags = "1g", KAFKA_FLAGS
            brokers[name] = made.identify(CLUSTER).start().wait_started()
        pids = [one.pid for one in (controller, *brokers.values()) if one.pid is not None]
        for what, work in zip(APIS, (_creations, _reads, _behind), strict=True):
            if what == "Metadata":
                asyncio.run(_fill(brokers["ours"]))
            wait_quiet(patience_s, pids)
            for turn in range(rounds + 1):
                order = ["ours", "kafka"] if turn % 2 else ["kafka", "ours"]
                for name in order:
                    row = _row(work, what, name, turn, brokers[name])
                    say(row)
                    yield row


def medians(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The medians of the turns of each API and broker, but for turn 0, which warms up."""
    result = []
    for what, name in itertools.product(APIS, ("ours", "kafka")):
        turns = [
            row for row in found if (row["what"], row["broker"]) == (what, name) and row["turn"]
        ]
        middle = {
            key: median(row[key] for row in turns)
            for key in ("p50_ms", "p99_ms", "per_s", "cpu_ms_each")
        }
        result.append({"what": what, "broker": name, **middle})
    return result


def ratio(found: list[dict[str, Any]], what: str) -> float:
    """Our median wait by Kafka's."""
    p50 = {row["broker"]: row["p50_ms"] for row in found if row["what"] == what}
    return float(p50["ours"] / p50["kafka"])


def _row(work: Any, what: str, name: str, turn: int, broker: Broker) -> dict[str, Any]:
    assert broker.pid is not None
    meter, before_s = Meter({name: broker.pid}), process_cpu_s(broker.pid)
    calls = 1 if turn else WARM_UPS
    waits_ms = sorted(asyncio.run(work(broker, f"{name}-{turn}", calls)))
    usage = meter.usage()
    return {
        "what": what,
        "broker": name,
        "turn": turn,
        "calls": len(waits_ms),
        "p50_ms": round(median(waits_ms), 3),
        "p99_ms": round(waits_ms[int(0.99 * len(waits_ms))], 3),
        "per_s": round(len(waits_ms) / usage.wall_s, 1),
        "cpu_ms_each": round((process_cpu_s(broker.pid) - before_s) * 1e3 / len(waits_ms), 2),
        "others_cores": round(usage.others_cores, 2),
    }


async def _open(broker: Broker) -> Connection:
    address = (HOST, broker.client_port)
    return await Connection.open(address, "bench", itertools.count(1))


def _create(name: str, partitions: int = 1) -> m.CreateTopicsRequest:
    kind = m.CreateTopicsRequest
    # Our broker stores nothing: only what the request itself costs is measured.
    placed = [
        kind.CreatableReplicaAssignment(partition_index=number, broker_ids=(OURS,))
        for number in range(partitions)
    ]
    topic = kind.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=placed
    )
    return kind(topics=[topic])


async def _creations(broker: Broker, prefix: str, times: int) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for number in range(CREATIONS * times):
        began = time.perf_counter()
        answer, _ = await client.call(_create(f"{prefix}-{number}"))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert not answer.topics[0].error_code, answer
    client.close()
    return waits_ms


async def _behind(broker: Broker, prefix: str, times: int) -> list[float]:
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


async def _fill(broker: Broker) -> None:
    client = await _open(broker)
    for number in range(TOPICS):
        await client.call(_create(f"many-{number:04d}", PARTITIONS))
    client.close()


async def _reads(broker: Broker, _prefix: str, times: int) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for _ in range(READS * times):
        began = time.perf_counter()
        answer, _ = await client.call(m.MetadataRequest(topics=None))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert len(answer.topics) >= TOPICS
    client.close()
    return waits_ms
