"""How long heartbeats wait while a snapshot of the metadata is written.

Partitions are made, and the controller is started again with properties that have it write one
snapshot after the other: a NoOp every 50 ms, of which each is enough for the next snapshot. So
nearly every heartbeat falls into the writing of one. The same is measured before, without
snapshots, in another life of the same folder. Heartbeats are sent one after the other on one
connection, so a step of 100 ms delays one of them, and is the longest wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.client import Calls, call
from bench.micro.memory import PER_TOPIC
from bench.micro.registrations import (
    BROKERS,
    PROPERTIES,
    RpcCluster,
    RpcRefusedError,
    create,
    registered,
)
from bench.micro.requests import KINDS
from bench.micro.servers import BOTH, Server, pid_of, running
from emulator.servers.bridge import Bridge
from emulator.servers.machine import process_cpu_s

IDLE: Final[dict[str, object]] = {
    "metadata.log.max.snapshot.interval.ms": 3_600_000,
    "metadata.max.idle.interval.ms": 50,
}
ALWAYS: Final[dict[str, object]] = {
    **IDLE,
    "metadata.log.max.record.bytes.between.snapshots": 1,
}
LONGEST_STEP: Final = "kraft_bridge_longest_step_ms"
_SNAPSHOTS: Final = "*/*.checkpoint"


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--only", choices=BOTH, help="measure one controller only")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Of each controller one row without snapshots, and one while they are written.

    Raises:
        RpcRefusedError: a request was refused, or no snapshot was finished in that time.
        ProcessError: the controller did not start again.
    """
    for name in (asked.only,) if asked.only else BOTH:
        with running(name, folder / name, None, PROPERTIES) as server:
            create(registered(server.port), "snapshot", asked.partitions // PER_TOPIC, PER_TOPIC)
            for what, properties in (("without", IDLE), ("with", ALWAYS)):
                server.stop()
                server.extra |= properties
                server.start().wait_started()
                row = _row(server, registered(server.port), asked.seconds)
                if what == "with" and not row["snapshots"]:
                    raise RpcRefusedError(f"no snapshot was finished in {asked.seconds:g} s")
                yield {"controller": name, "partitions": asked.partitions, **row}


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row."""
    return table.plain(rows), True


def _row(server: Server, cluster: RpcCluster, seconds: float) -> dict[str, Any]:
    pid = pid_of(server)
    cpu_s, began = process_cpu_s(pid), time.monotonic()
    calls, sizes = asyncio.run(_beats(cluster, server.data, seconds))
    took_s = time.monotonic() - began
    return {
        "seconds": round(took_s, 2),
        "snapshots": len(sizes),
        "largest_bytes": max(sizes.values(), default=0),
        "heartbeats": len(calls.latencies_ns),
        "p50_ms": calls.percentile_ms(0.5),
        "p99_ms": calls.percentile_ms(0.99),
        "longest_ms": calls.longest_ms,
        "cores": round((process_cpu_s(pid) - cpu_s) / took_s, 2),
        # The gauge of the controller since its start; Kafka's has none.
        "longest_step_ms": longest_step_ms(server.wait_page("/metrics"))
        if isinstance(server, Bridge)
        else None,
    }


def longest_step_ms(page: str) -> float | None:
    """The longest step by the metrics page, in ms; None if the page does not have it."""
    found = re.search(rf"^{LONGEST_STEP}\{{[^}}]*\}} ([0-9.e+-]+)$", page, re.MULTILINE)
    return None if found is None else float(found[1])


async def _beats(cluster: RpcCluster, folder: Path, seconds: float) -> tuple[Calls, dict[str, int]]:
    """Heartbeats for so long, and the snapshots that came meanwhile: name -> bytes."""
    kind = KINDS["heartbeat"]
    before, found = _sizes(folder), dict[str, int]()
    beats = asyncio.ensure_future(call(cluster.port, [kind.source(cluster, BROKERS[-1])], seconds))
    while not beats.done():
        # Each is deleted when the next but one is there.
        found |= _sizes(folder)
        await asyncio.wait((beats,), timeout=0.05)
    calls = beats.result()
    kind.check(calls)
    return calls, {name: size for name, size in found.items() if name not in before}


def _sizes(folder: Path) -> dict[str, int]:
    found = {}
    for path in folder.glob(_SNAPSHOTS):
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found
