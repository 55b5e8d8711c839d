"""Requests of the controller: rate, CPU and latency, beside Kafka 3.9.2's controller, in turns.

At 1, 10 and 100 connections with one request outstanding each; plain KRaft, without ZooKeeper.
"""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.micro import client, table
from bench.micro.registrations import PROPERTIES, RpcCluster, create, registered
from bench.micro.requests import ALTER_PREFIX, KINDS, Kind
from bench.micro.servers import BOTH, CLUSTER_ID, OURS, pid_of, running
from emulator.servers.machine import Meter

FIGURES: Final = {
    "rate": "requests/s",
    "cpu_us": "CPU, us",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A controller under measurement."""

    name: str
    pid: int
    cluster: RpcCluster


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--only", choices=BOTH, help="measure one controller only")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=[*KINDS])
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 10, 100])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    parser.add_argument("--rounds", type=int, default=5, help="how often each row is taken")
    parser.add_argument("--port", type=int, help="of a controller that runs, with --pid")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--cluster-id", default=CLUSTER_ID, help="its cluster")
    # Kafka's compilers need it before anything counts: for each kind, at the most connections.
    parser.add_argument("--warm-seconds", type=float, default=2.0, help="before all rows")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Every row, the controllers in turns.

    Raises:
        RpcRefusedError: an answer is an error.
        ProcessError: a controller did not start.
    """
    with contextlib.ExitStack() as stack:
        started: list[Measured] = []
        if asked.port and asked.pid:
            cluster = registered(asked.port, asked.cluster_id)
            started.append(Measured(asked.only or OURS, asked.pid, cluster))
        else:
            for name in (asked.only,) if asked.only else BOTH:
                server = stack.enter_context(running(name, folder / name, None, PROPERTIES))
                started.append(Measured(name, pid_of(server), registered(server.port)))
        most = max(asked.connections)
        for one in started:
            create(one.cluster, ALTER_PREFIX, most, 1)
            for kind in asked.kinds:
                _row(one, KINDS[kind], most, asked.warm_seconds)
        for number in range(asked.rounds):
            for kind in asked.kinds:
                for connections in asked.connections:
                    for one in started if number % 2 else reversed(started):
                        row = _row(one, KINDS[kind], connections, asked.seconds)
                        yield {**row, "round": number}


def _row(one: Measured, kind: Kind, connections: int, seconds: float) -> dict[str, Any]:
    sources = [kind.source(one.cluster, place) for place in range(connections)]
    meter = Meter({"controller": one.pid})
    calls = client.run(one.cluster.port, sources, seconds)
    usage = meter.usage()
    kind.check(calls)
    return {
        "request": kind.name,
        "connections": connections,
        "controller": one.name,
        "rate": calls.rate,
        "cpu_us": usage.cpu_s["controller"] / len(calls.latencies_ns) * 1e6,
        "p50_ms": calls.percentile_ms(0.5),
        "p99_ms": calls.percentile_ms(0.99),
        "others_cores": usage.others_cores,
    }


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Medians, ours beside Kafka's."""
    names = [name for name in BOTH if any(row["controller"] == name for row in rows)]
    return table.beside(rows, ("request", "connections"), "controller", names, FIGURES), True
