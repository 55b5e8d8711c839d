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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.beside.machine import process_cpu_s
from bench.rig.bridge import Bridge
from bench.rpc.client import Calls, call
from bench.rpc.cluster import BROKERS, RpcCluster, RpcRefusedError, create, registered
from bench.rpc.memory import PER_TOPIC
from bench.rpc.requests import KINDS
from bench.rpc.servers import Server, pid_of

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


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One controller. Milliseconds but for ``cpu``, CPU seconds of the process in a second."""

    what: str
    partitions: int
    seconds: float
    snapshots: int
    """How many were finished meanwhile."""
    snapshot_bytes: int
    """Of the largest."""
    heartbeats: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    cpu: float
    longest_step_ms: float | None
    """The gauge of the controller since its start; None if it has none."""


def line(row: SnapshotRow) -> str:
    """A row in one line."""
    step = "" if row.longest_step_ms is None else f", longest step {row.longest_step_ms:.1f} ms"
    return (
        f"{row.what:18} {row.partitions:,} partitions, {row.seconds:.0f} s: {row.snapshots} "
        f"snapshots of {row.snapshot_bytes / 1e6:.1f} MB; {row.heartbeats:,} heartbeats, "
        f"p50 {row.p50_ms:.2f} ms, p99 {row.p99_ms:.2f} ms, longest {row.longest_ms:.1f} ms; "
        f"{row.cpu:.2f} cores{step}"
    )


def measure(
    server: Server, partitions: int, seconds: float, say: Callable[[str], None]
) -> list[SnapshotRow]:
    """Make partitions; then heartbeats without snapshots, and while they are written.

    Args:
        server: runs; nothing was made in it.
        partitions: how many.
        seconds: for each of both rows.
        say: takes each row as a line.

    Raises:
        RpcRefusedError: a request was refused, or no snapshot was finished in that time.
        ProcessError: the controller did not start again.
    """
    create(registered(server.port), "snapshot", partitions // PER_TOPIC, PER_TOPIC)
    rows: list[SnapshotRow] = []
    for what, properties in (("without snapshots", IDLE), ("with snapshots", ALWAYS)):
        server.stop()
        server.extra |= properties
        server.start().wait_started()
        cluster = registered(server.port)
        rows.append(_row(server, cluster, what, partitions, seconds))
        say(line(rows[-1]))
    if not rows[1].snapshots:
        raise RpcRefusedError(f"no snapshot was finished in {seconds:g} s")
    return rows


def _row(
    server: Server, cluster: RpcCluster, what: str, partitions: int, seconds: float
) -> SnapshotRow:
    pid = pid_of(server)
    cpu_s, began = process_cpu_s(pid), time.monotonic()
    calls, sizes = asyncio.run(_beats(cluster, server.data, seconds))
    took_s = time.monotonic() - began
    return SnapshotRow(
        what,
        partitions,
        round(took_s, 2),
        len(sizes),
        max(sizes.values(), default=0),
        len(calls.latencies_ns),
        calls.percentile_ms(0.5),
        calls.percentile_ms(0.99),
        calls.percentile_ms(1.0),
        round((process_cpu_s(pid) - cpu_s) / took_s, 2),
        longest_step_ms(server.wait_page("/metrics")) if isinstance(server, Bridge) else None,
    )


def longest_step_ms(page: str) -> float | None:
    """What the page of the metrics says of the longest step; None if it does not."""
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
