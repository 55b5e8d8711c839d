"""One round: a fresh ZooKeeper, and each contender in turn on a tree of its own."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from bench.beside import tree
from bench.beside.contenders import Contender, Controller
from bench.beside.machine import Meter, wait_quiet
from bench.beside.row import Row
from bench.beside.scenario import Burst, Committed, run
from bench.rig.fleet import Fleet
from bench.rig.java import FULL_SPEED
from bench.rig.seeded import seed
from bench.rig.warming import connected, warm
from bench.rig.zookeeper import ZooKeeper

CLUSTER_ID: Final = "YmVzaWRlLWJlbmNoLXJ1bg"
_MIGRATION: Final = "/migration"
_POLL_S: Final = 0.005
_DRAIN_S: Final = 120.0
_WARM_SINGLE: Final = 4_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The load for every contender of a run.

    ``cold`` comes straight after the start and is only timed, as any restart is cold. It and
    ``small``, many topics of few partitions, then give a Java controller the time to compile.
    ``bursts`` are measured. ``patience_s`` is how long to wait for a quiet machine before a row.
    """

    cold: Burst
    small: Burst
    bursts: Sequence[Burst]
    patience_s: float

    @property
    def unread(self) -> set[str]:
        """Prefixes of topics that are not compared: reading them takes longer than writing."""
        return {f"{self.cold.prefix}-", f"{self.small.prefix}-"}


def play(
    plan: Plan, contenders: Sequence[Contender], number: int, folder: Path, say: Say
) -> list[Row]:
    """One round, in an order that turns with its number; afterwards the trees are compared.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RefusedError: a controller refused a request.
    """
    turn = number % len(contenders)
    order = [*contenders[turn:], *contenders[:turn]]
    if number // len(contenders) % 2:
        order.reverse()
    rows: list[Row] = []
    trees: dict[str, tree.Tree] = {}
    with zookeeper(folder, order) as zk:
        for position, contender in enumerate(order):
            with started(plan, contender, zk, folder) as running:
                wait_quiet(plan.patience_s, running.pids().values())
                row = measure(plan.bursts, running)
                trees[contender.name] = tree.read(running.client, plan.unread)
            row.round, row.position = number, position
            _judge(row, plan, trees[contender.name])
            rows.append(row)
            say(line(row))
    _compare(rows, trees)
    return rows


def _chroot(contender: Contender) -> str:
    return f"/{contender.name.replace(' ', '-')}"


@contextlib.contextmanager
def zookeeper(folder: Path, contenders: Sequence[Contender]) -> Iterator[ZooKeeper]:
    """A ZooKeeper that syncs to the disk and has warmed up its JIT compiler."""
    zk = ZooKeeper(folder / "zookeeper", tick_ms=2_000)
    zk.heap = "512m"
    zk.java_flags = FULL_SPEED
    with zk, connected(zk.hosts) as client:
        for contender in contenders:
            client.create(_chroot(contender), None)
        warm(client, _WARM_SINGLE)
        yield zk


@dataclass(slots=True)
class Running:
    """A contender with its fleet on its own tree, warmed up, and a client of that tree."""

    contender: Contender
    zk: ZooKeeper
    client: KazooClient
    controller: Controller
    fleet: Fleet
    cold_zk_rate: float = 0.0

    def pids(self) -> dict[str, int]:
        """Name -> process id of the servers that are measured."""
        found = {
            "zookeeper": self.zk.pid,
            "controller": self.controller.pid,
            "fleet": self.fleet.pid,
        }
        return {name: pid for name, pid in found.items() if pid is not None}


@contextlib.contextmanager
def started(plan: Plan, contender: Contender, zk: ZooKeeper, folder: Path) -> Iterator[Running]:
    """Start a contender and its fleet on an empty tree and warm it up; end both afterwards.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RefusedError: the controller refused a request.
    """
    hosts = f"{zk.hosts}{_chroot(contender)}"
    own = folder / contender.name.replace(" ", "-")
    with connected(hosts) as client:
        seed(client, CLUSTER_ID)
        controller = contender.begin(own, hosts, CLUSTER_ID)
        fleet = Fleet(own, hosts, controller.port, CLUSTER_ID)
        try:
            fleet.start().wait_announced()
            controller.await_dual_write()
            running = Running(contender, zk, client, controller, fleet)
            committed = run(plan.cold, controller.port)
            cold_s = _drain(client, committed) - committed.began_s
            running.cold_zk_rate = plan.cold.topics * plan.cold.partitions / cold_s
            _drain(client, run(plan.small, controller.port))
            yield running
        finally:
            controller.stop()
            fleet.stop()  # not killed: its ephemeral znodes would vanish in the next row


def measure(bursts: Sequence[Burst], running: Running) -> Row:
    """Ask for bursts, one after the other, each until ZooKeeper holds it.

    Raises:
        RefusedError: the controller refused a request.
        TimeoutError: ZooKeeper does not get there.
    """
    commit_s = zk_s = 0.0
    latencies: list[float] = []
    transactions, znodes = _transactions(running.zk), _znodes(running.zk)
    meter = Meter(running.pids())
    for burst in bursts:
        committed = run(burst, running.controller.port)
        drained_s = _drain(running.client, committed)
        commit_s += committed.ended_s - committed.began_s
        zk_s += drained_s - committed.began_s
        latencies += committed.latencies_ms
    usage = meter.usage()
    row = Row(
        contender=running.contender.name,
        round=0,
        position=0,
        partitions=sum(burst.topics * burst.partitions for burst in bursts),
        commit_s=commit_s,
        zk_s=zk_s,
        latencies_ms=latencies,
        zk_transactions=_transactions(running.zk) - transactions,
        znodes=_znodes(running.zk) - znodes,
        controller_cpu_s=usage.cpu_s["controller"],
        zookeeper_cpu_s=usage.cpu_s["zookeeper"],
        fleet_cpu_s=usage.cpu_s["fleet"],
        client_cpu_s=usage.cpu_s["client"],
        others_cores=usage.others_cores,
        load_1_min=os.getloadavg()[0],
        cold_zk_rate=running.cold_zk_rate,
    )
    wanted = sum(burst.topics * (3 + 2 * burst.partitions) for burst in bursts)
    if row.znodes < wanted:
        row.void = f"{row.znodes} znodes written when the offset said all of {wanted}"
    return row


def _drain(client: KazooClient, committed: Committed) -> float:
    """Wait until ZooKeeper holds everything; returns when, by ``time.perf_counter``.

    Both controllers keep in ``/migration`` up to which record ZooKeeper holds everything.

    Raises:
        TimeoutError: it does not come.
    """
    end = time.perf_counter() + _DRAIN_S
    while True:
        data, _ = client.get(_MIGRATION)
        now = time.perf_counter()
        reached = int(json.loads(data)["kraft_metadata_offset"])
        if reached >= committed.last_offset:
            return now
        if now > end:
            raise TimeoutError(
                f"ZooKeeper is at {reached} of {committed.last_offset} after {_DRAIN_S:g} s"
            )
        time.sleep(_POLL_S)


def _transactions(zk: ZooKeeper) -> int:
    """The counter half of the last transaction's id; each write that was tried takes one."""
    return zk.transactions() & 0xFFFFFFFF


def _znodes(zk: ZooKeeper) -> int:
    """Persistent znodes of the whole server."""
    told = dict(line.split("\t", 1) for line in zk.four_letters("mntr").splitlines())
    return int(told["zk_znode_count"]) - int(told["zk_ephemerals_count"])


def _judge(row: Row, plan: Plan, found: tree.Tree) -> None:
    """A row is void if a partition has no state in the end."""
    for burst in plan.bursts:
        states = tree.partitions(found, f"{burst.prefix}-")
        if states != burst.topics * burst.partitions:
            row.void = f"{states} partition states of {burst.prefix}"


def _compare(rows: Sequence[Row], trees: dict[str, tree.Tree]) -> None:
    """All rows of a round are void if not every controller left the same tree."""
    first, *rest = trees
    for other in rest:
        paths = tree.differences(trees[first], trees[other])
        if paths:
            shown = ", ".join(paths[:3])
            for row in rows:
                row.void = row.void or (
                    f"the trees of {first} and {other} differ at {len(paths)} paths: {shown}"
                )


def line(row: Row) -> str:
    """A row in one line."""
    return (
        f"round {row.round + 1}, {row.contender}: ZooKeeper {row.zk_rate:,.0f} partitions/s, "
        f"commit {row.commit_rate:,.0f}, p50 {row.p50_ms:.1f} ms, p99 {row.p99_ms:.1f} ms, "
        f"{row.zk_transactions} transactions, controller {row.controller_cpu_s:.2f} s of CPU, "
        f"others {row.others_cores:.2f} cores{' (quiet)' if row.quiet else ''}"
        f"{f', VOID: {row.void}' if row.void else ''}"
    )
