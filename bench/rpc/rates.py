"""Requests per second, CPU per request and latencies, in turns between the controllers."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.beside.machine import Meter
from bench.rpc import client
from bench.rpc.cluster import RpcCluster, create, registered
from bench.rpc.requests import ALTER_PREFIX, KINDS, Kind
from bench.rpc.servers import KAFKA, OURS, pid_of, running


@dataclass(frozen=True, slots=True)
class RpcRow:
    """One kind of request at one number of connections."""

    contender: str
    kind: str
    connections: int
    rate: float
    cpu_us: float
    """Of the controller, for each request."""
    p50_ms: float
    p99_ms: float
    others_cores: float
    """Used by processes that are not ours meanwhile."""


@dataclass(frozen=True, slots=True)
class RatesPlan:
    """What is measured.

    ``seconds``: for each row; ``rounds``: how often each row is measured; ``warm_s``: for each
    kind, at the most connections, before anything counts: Kafka's compilers need it.
    """

    contenders: Sequence[str]
    kinds: Sequence[str]
    connections: Sequence[int]
    seconds: float
    rounds: int
    warm_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A controller under measurement."""

    name: str
    pid: int
    cluster: RpcCluster


def measure(plan: RatesPlan, folder: Path, say: Callable[[str], None]) -> list[RpcRow]:
    """Measure every row of the plan, the controllers in turns.

    Raises:
        RpcRefusedError: an answer is an error.
        ProcessError: a controller did not start.
    """
    with contextlib.ExitStack() as stack:
        started: list[Measured] = []
        for name in plan.contenders:
            server = stack.enter_context(running(name, folder))
            started.append(Measured(name, pid_of(server), registered(server.port)))
        return measure_these(plan, started, say)


def measure_these(
    plan: RatesPlan, started: Sequence[Measured], say: Callable[[str], None]
) -> list[RpcRow]:
    """As :func:`measure`, on controllers that run already; ``plan.contenders`` is not used.

    Raises:
        RpcRefusedError: an answer is an error.
    """
    most = max(plan.connections)
    rows: list[RpcRow] = []
    for one in started:
        create(one.cluster, ALTER_PREFIX, most, 1)
        for kind in plan.kinds:
            _row(one, KINDS[kind], most, plan.warm_s)
    for number in range(plan.rounds):
        for kind in plan.kinds:
            for connections in plan.connections:
                for one in started if number % 2 else reversed(started):
                    rows.append(_row(one, KINDS[kind], connections, plan.seconds))
                    say(line(rows[-1]))
    return rows


def _row(one: Measured, kind: Kind, connections: int, seconds: float) -> RpcRow:
    sources = [kind.source(one.cluster, place) for place in range(connections)]
    meter = Meter({"controller": one.pid})
    calls = client.run(one.cluster.port, sources, seconds)
    usage = meter.usage()
    kind.check(calls)
    return RpcRow(
        contender=one.name,
        kind=kind.name,
        connections=connections,
        rate=calls.rate,
        cpu_us=usage.cpu_s["controller"] / len(calls.latencies_ns) * 1e6,
        p50_ms=calls.percentile_ms(0.5),
        p99_ms=calls.percentile_ms(0.99),
        others_cores=usage.others_cores,
    )


def line(row: RpcRow) -> str:
    """A row in one line."""
    return (
        f"{row.kind:15} {row.connections:4} connections {row.contender:6} {row.rate:9,.0f}/s "
        f"{row.cpu_us:8.1f} us of CPU, p50 {row.p50_ms:7.2f} ms, p99 {row.p99_ms:7.2f} ms, "
        f"others {row.others_cores:.2f} cores"
    )


def table(rows: Sequence[RpcRow]) -> list[str]:
    """Medians as a table in Markdown, ours beside Kafka's."""
    lines = [
        "| request | connections | requests/s | CPU us | p50 ms | p99 ms |",
        "|---|---|---|---|---|---|",
    ]
    for kind, connections in dict.fromkeys((row.kind, row.connections) for row in rows):
        cells = []
        for field in ("rate", "cpu_us", "p50_ms", "p99_ms"):
            ours, kafkas = (_median(rows, name, kind, connections, field) for name in (OURS, KAFKA))
            cells.append(_beside(ours, kafkas))
        lines.append(f"| {kind} | {connections} | {' | '.join(cells)} |")
    return lines


def _median(
    rows: Sequence[RpcRow], name: str, kind: str, connections: int, field: str
) -> float | None:
    found = [
        getattr(row, field)
        for row in rows
        if (row.contender, row.kind, row.connections) == (name, kind, connections)
    ]
    return statistics.median(found) if found else None


def _beside(ours: float | None, kafkas: float | None) -> str:
    if ours is None or kafkas is None:
        one = ours if kafkas is None else kafkas
        return "-" if one is None else f"{one:,.3g}"
    return f"{ours:,.5g} / {kafkas:,.5g} = {ours / kafkas:.2f}"
