"""The cost of recording: two controllers of ours that differ only in that, used in turns.

Both run all the time on one ZooKeeper, each in a tree of its own, and only one of them gets
requests. A machine's speed varies by a few percent from minute to minute, so the two rows of a pair
are seconds apart, and the result is the median over many pairs. Each round has new processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from bench.load.connection import Connection
from bench.micro import table
from bench.micro.servers import CLUSTER_ID, OURS, Server, pid_of, running
from bench.runs import zookeepers
from bench.runs.blocking import BlockingClient
from bench.runs.scenario import Case
from bench.runs.watch import offset_of
from emulator.servers.bridge import Bridge
from emulator.servers.fleet import Fleet
from emulator.servers.machine import Meter, wait_quiet
from emulator.servers.ports import HOST
from emulator.servers.seeded import connected, seed
from emulator.trace.distribution import percentile
from wire import messages as m
from wire.errors import ErrorCode

PAIRS: Final = 8
"""Pairs of one round. More would fill ZooKeeper's heap."""
ON, OFF = "trace on", "trace off"
FIGURES: Final = {
    "zk_per_s": "ZooKeeper, partitions/s",
    "commit_per_s": "commit, partitions/s",
    "p50_ms": "answer p50, ms",
    "p99_ms": "answer p99, ms",
    "zk_transactions": "ZooKeeper transactions",
    "controller_cpu_s": "controller CPU, s",
    "zookeeper_cpu_s": "ZooKeeper CPU, s",
}
_REPLICAS: Final = (0, 1, 2)
_CREATE_VERSION: Final = 7
_POLL_S: Final = 0.005
_DRAIN_S: Final = 120.0


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--rounds", type=int, default=3, help="each with new processes")
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--clients", type=int, default=16, help="with one request outstanding")


@dataclass(frozen=True, slots=True)
class Running:
    """A controller with its fleet on its own tree, and a client of that tree."""

    name: str
    servers: zookeepers.Servers
    client: KazooClient
    controller: Server
    fleet: Fleet

    def pids(self) -> dict[str, int]:
        """Name -> process id of the servers that are measured."""
        found = self.servers.pids() | {"controller": pid_of(self.controller)}
        return found | ({} if self.fleet.pid is None else {"fleet": self.fleet.pid})


@dataclass(frozen=True, slots=True)
class Burst:
    """Topics that were created. Times are of ``time.perf_counter``."""

    began_s: float
    ended_s: float
    waits_ms: list[float]
    last_offset: int
    """The log up to here holds every record of it."""


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Pairs of rows; the controller that runs first alternates between pairs.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RuntimeError: a controller refused a request.
    """
    for number in range(asked.rounds):
        own = folder / f"round-{number + 1}"
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.ExitStack() as stack:
            servers = stack.enter_context(zookeepers.running(Case("recording"), own))
            both = [stack.enter_context(_started(name, servers, own, asked)) for name in (ON, OFF)]
            wait_quiet(asked.patience)
            for pair in range(PAIRS):
                both.reverse()
                for one in both:
                    row = _measure(f"burst-{pair}", one, asked)
                    yield {"controller": one.name, "round": number * PAIRS + pair, **row}
        shutil.rmtree(own)  # kept only if the round failed


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Medians with and without a trace, and whether every row counts."""
    text = table.beside(rows, (), "controller", (ON, OFF), FIGURES)
    return text, not any(row["void"] for row in rows)


@contextlib.contextmanager
def _started(
    name: str, servers: zookeepers.Servers, folder: Path, asked: Namespace
) -> Iterator[Running]:
    """Start a controller and its fleet on an empty tree and warm both up; end them afterwards."""
    chroot = f"/{name.replace(' ', '-')}"
    own = folder / chroot[1:]
    hosts = f"{servers.hosts}{chroot}"
    traced = {"kraftbridge.trace.dir": own / "trace"} if name == ON else {}
    with connected(servers.hosts) as root, contextlib.ExitStack() as stack:
        root.create(chroot, None)
        client = stack.enter_context(connected(hosts))
        seed(client, CLUSTER_ID)
        controller = stack.enter_context(running(OURS, own, hosts, traced))
        fleet = Fleet(own, hosts, controller.port, CLUSTER_ID)
        stack.callback(fleet.stop)  # not killed: its ephemeral znodes would vanish in the next row
        fleet.start().wait_announced()
        assert isinstance(controller, Bridge)
        controller.wait_dual_write()
        one = Running(name, servers, client, controller, fleet)
        for prefix, topics, partitions in (
            ("cold", asked.topics, asked.partitions),
            ("small", 3 * asked.topics, 5),
        ):
            took = _burst(one, prefix, topics, partitions, asked.clients)
            _drained(one, took.last_offset)
        yield one
        controller.stop()


def _measure(prefix: str, one: Running, asked: Namespace) -> dict[str, Any]:
    """Ask for topics until ZooKeeper holds them."""
    transactions, znodes = one.servers.transactions(), one.servers.znodes()
    assert transactions is not None, "of servers of our own"
    assert znodes is not None, "of servers of our own"
    meter = Meter(one.pids())
    took = _burst(one, prefix, asked.topics, asked.partitions, asked.clients)
    zk_s = _drained(one, took.last_offset) - took.began_s
    usage = meter.usage()
    partitions = asked.topics * asked.partitions
    made = (one.servers.znodes() or 0) - znodes
    wanted = 3 * asked.topics + 2 * partitions
    return {
        "zk_per_s": partitions / zk_s,
        "commit_per_s": partitions / (took.ended_s - took.began_s),
        "p50_ms": percentile(took.waits_ms, 0.5),
        "p99_ms": percentile(took.waits_ms, 0.99),
        "zk_transactions": (one.servers.transactions() or 0) - transactions,
        "controller_cpu_s": usage.cpu_s["controller"],
        "zookeeper_cpu_s": usage.cpu_s["zookeeper-0"],
        "others_cores": usage.others_cores,
        "void": "" if made >= wanted else f"{made} znodes written, not {wanted}",
    }


def _burst(one: Running, prefix: str, topics: int, partitions: int, clients: int) -> Burst:
    """Create topics, and wait for every answer.

    Raises:
        RuntimeError: an answer is an error.
        OSError: a connection failed.
    """
    port = one.controller.port
    began_s, ended_s, waits_ms = asyncio.run(_created(port, prefix, topics, partitions, clients))
    with contextlib.closing(BlockingClient(port)) as quorum:
        return Burst(began_s, ended_s, waits_ms, quorum.high_watermark() - 1)


async def _created(
    port: int, prefix: str, topics: int, partitions: int, clients: int
) -> tuple[float, float, list[float]]:
    kinds = m.CreateTopicsRequest
    placed = [
        kinds.CreatableReplicaAssignment(partition_index=index, broker_ids=_REPLICAS)
        for index in range(partitions)
    ]
    requests = iter(
        [
            kinds(
                topics=[
                    kinds.CreatableTopic(
                        name=f"{prefix}-{number:05d}",
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=placed,
                    )
                ]
            )
            for number in range(topics)
        ]
    )
    ids = itertools.count(1)
    connections = [
        await Connection.open((HOST, port), f"recording-{index}", ids) for index in range(clients)
    ]
    waits_ms: list[float] = []

    async def work(connection: Connection) -> None:
        for request in requests:
            sent = time.perf_counter()
            answer, _ = await connection.call(request, _CREATE_VERSION)
            waits_ms.append((time.perf_counter() - sent) * 1_000)
            [result] = answer.topics
            if result.error_code:
                raise RuntimeError(f"{result.name}: {ErrorCode(result.error_code).name}")

    try:
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(work(connection))
        ended_s = time.perf_counter()
    finally:
        for connection in connections:
            connection.close()
    return began_s, ended_s, waits_ms


def _drained(one: Running, last: int) -> float:
    """Wait until ZooKeeper holds all up to an offset; returns when, by ``time.perf_counter``.

    Raises:
        TimeoutError: it does not come.
    """
    end = time.perf_counter() + _DRAIN_S
    while True:
        reached = offset_of(one.client.get("/migration")[0])
        now = time.perf_counter()
        if reached >= last:
            return now
        if now > end:
            raise TimeoutError(f"ZooKeeper is at {reached} of {last} after {_DRAIN_S:g} s")
        time.sleep(_POLL_S)
