"""CreateTopics and Metadata through our broker and through Kafka's, under one Kafka controller."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.beside.machine import Meter, process_cpu_s
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
RATIO_MAX: Final = 1.5


def rows(
    folder: Path, rounds: int, say: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """One row for each turn of each broker."""
    with ExitStack() as stack:
        controller = KraftController(RELEASE, folder, None, CLUSTER)
        stack.callback(controller.kill)
        controller.start().wait_started()
        brokers: dict[str, Broker] = {}
        for name, kind, number in (("ours", BridgeBroker, OURS), ("kafka", Broker, KAFKAS)):
            made = kind(RELEASE, number, folder, None, controller_port=controller.port)
            stack.callback(made.kill)
            brokers[name] = made.identify(CLUSTER).start().wait_started()
        for what, work in (("CreateTopics", _creations), ("Metadata", _reads)):
            if what == "Metadata":
                asyncio.run(_fill(brokers["ours"]))
            for turn in range(rounds + 1):
                order = ["ours", "kafka"] if turn % 2 else ["kafka", "ours"]
                for name in order:
                    row = _row(work, what, name, turn, brokers[name])
                    say(row)
                    yield row


def summary(found: list[dict[str, Any]], say: Callable[[dict[str, Any]], None]) -> bool:
    """Medians and their ratio; returns whether the target is missed. Turn 0 is the warm-up."""
    p50: dict[tuple[str, str], float] = {}
    for what in ("CreateTopics", "Metadata"):
        for name in ("ours", "kafka"):
            turns = [
                row["p50_ms"]
                for row in found
                if row["what"] == what and row["broker"] == name and row["turn"]
            ]
            p50[what, name] = median(turns)
        ratio = round(p50[what, "ours"] / p50[what, "kafka"], 2)
        say(
            {
                "what": what,
                "ours / kafka, p50": ratio,
                "of": [p50[what, "ours"], p50[what, "kafka"]],
            }
        )
    return p50["CreateTopics", "ours"] > RATIO_MAX * p50["CreateTopics", "kafka"]


def _row(work: Any, what: str, name: str, turn: int, broker: Broker) -> dict[str, Any]:
    assert broker.pid is not None
    meter, before_s = Meter({name: broker.pid}), process_cpu_s(broker.pid)
    waits_ms = sorted(asyncio.run(work(broker, f"{name}-{turn}")))
    usage = meter.usage()
    return {
        "what": what,
        "broker": name,
        "turn": turn,
        "calls": len(waits_ms),
        "p50_ms": round(median(waits_ms), 3),
        "p99_ms": round(waits_ms[int(0.99 * len(waits_ms))], 3),
        "per_s": round(len(waits_ms) / usage.wall_s, 1),
        "broker_cpu_s": round(process_cpu_s(broker.pid) - before_s, 3),
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


async def _creations(broker: Broker, prefix: str) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for number in range(CREATIONS):
        began = time.perf_counter()
        answer, _ = await client.call(_create(f"{prefix}-{number}"))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert not answer.topics[0].error_code, answer
    client.close()
    return waits_ms


async def _fill(broker: Broker) -> None:
    client = await _open(broker)
    for number in range(TOPICS):
        await client.call(_create(f"many-{number:04d}", PARTITIONS))
    client.close()


async def _reads(broker: Broker, _prefix: str) -> list[float]:
    client = await _open(broker)
    waits_ms = []
    for _ in range(READS):
        began = time.perf_counter()
        answer, _ = await client.call(m.MetadataRequest(topics=None))
        waits_ms.append((time.perf_counter() - began) * 1_000)
        assert len(answer.topics) >= TOPICS
    client.close()
    return waits_ms
