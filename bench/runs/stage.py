"""One row from a fresh ZooKeeper to the tree that is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from kazoo.client import KazooClient

from bench.runs import loads, seeding, tracing, tree, zookeepers
from bench.runs.blocking import BlockingClient
from bench.runs.borrowed import borrowed
from bench.runs.client import OpenLoop
from bench.runs.faults import Fault, fault_of
from bench.runs.measuring import Figures, after_fault
from bench.runs.probe import Probe
from bench.runs.row import BenchRow
from bench.runs.scenario import LOADS, Case, Kind, Planned
from bench.runs.store import Store
from bench.runs.targets import TARGETS, Controller, Setting
from bench.runs.watch import Watch
from emulator.servers import seeded
from emulator.servers.bridge import Bridge
from emulator.servers.fleet import Fleet
from emulator.servers.machine import Meter, Shared, process_cpu_s, wait_quiet
from emulator.servers.process import ProcessError
from emulator.servers.seeded import seed
from emulator.trace.rows import Row

CLUSTER_ID: Final = "YmVuY2gtc2NlbmFyaW9zLQ"
_POLL_S: Final = 0.01
_DUAL_WRITE_S: Final = 600.0
_WARM_CONNECTIONS: Final = 16
_WARM_WAIT_S: Final = 300.0

PrintLine = Callable[[str], None]


@dataclass(slots=True)
class Stage:
    """What a row runs on."""

    planned: Planned
    row: BenchRow
    servers: zookeepers.Servers
    client: KazooClient
    controller: Controller
    brokers: Fleet

    @property
    def case(self) -> Case:
        """What is measured."""
        return self.planned.case

    def pids(self) -> dict[str, int]:
        """Name -> process id of the servers."""
        found = self.servers.pids()
        for name, pid in (("controller", self.controller.pid), ("fleet", self.brokers.pid)):
            if pid is not None:
                found[name] = pid
        return found


def take(planned: Planned, store: Store, patience_s: float, print_line: PrintLine) -> BenchRow:
    """Take one row; its trace and its tree are in the store afterwards.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RuntimeError: ZooKeeper or a broker is not as it must be.
        OSError: the controller cannot be reached, or closed a connection.
    """
    store.forget(planned)
    folder = store.servers / planned.run_id
    row = BenchRow.of(planned)
    row.started_wall_ns = time.time_ns()
    row.fsync_p50_ms, row.fsync_max_ms = zookeepers.fsync_ms(folder)

    def quiet() -> None:
        if planned.scenario.kind is Kind.COPY:
            _wait_quiet(planned, patience_s, print_line)

    with _staged(planned, row, store, folder, quiet, print_line=print_line) as stage:
        kind = planned.scenario.kind
        epochs: Sequence[tuple[int, int]] = ()
        if kind is not Kind.COPY:
            epochs = _warm_up(stage)
        row.zk_write_p50_ms = zookeepers.write_ms(stage.servers.hosts)
        if kind is not Kind.COPY:
            _wait_quiet(planned, patience_s, print_line)
        doubtful: set[str] = set()
        if kind in LOADS:
            doubtful = measure(stage, store, epochs)
        else:
            if kind is Kind.RESTART:
                restart(stage)
            tracing.write(store, planned, row, {"bench": []})
        if not TARGETS[planned.target].to_zookeeper:
            return row
        if kind not in LOADS or row.drained_ns is not None:
            left = tree.read(stage.client, _unread(planned), [seeded.WARM_UP])
            store.keep_tree(planned.run_id, left, doubtful)
    return row


def _wait_quiet(planned: Planned, patience_s: float, print_line: PrintLine) -> None:
    others = wait_quiet(patience_s)
    if others:
        print_line(f"{planned.run_id}: others used {others:.2f} cores before it")


def _unread(planned: Planned) -> list[str]:
    """Topics that are not compared."""
    case = planned.case
    made = (case.count or 0) if planned.scenario.kind is Kind.CREATE else 0
    found = seeding.unread(loads.MADE, made, case.partitions)
    return found + seeding.unread(seeding.PREFIX, case.topics_present, case.partitions)


@contextlib.contextmanager
def _staged(
    planned: Planned,
    row: BenchRow,
    store: Store,
    folder: Path,
    before_start: Callable[[], None],
    *,
    print_line: PrintLine,
) -> Iterator[Stage]:
    case = planned.case
    with contextlib.ExitStack() as stack:
        servers: zookeepers.Servers
        if planned.zookeeper is None:
            servers = stack.enter_context(zookeepers.running(case, folder))
        else:
            servers = stack.enter_context(borrowed(planned.zookeeper, planned.run_id, print_line))
        client = stack.enter_context(seeded.connected(servers.direct))
        seed(client, CLUSTER_ID)
        seeding.topics(client, case.topics_present, case.partitions)
        setting = Setting(
            folder, servers.hosts, CLUSTER_ID, planned.run_id, store.trace, case.bound_records
        )
        controller = TARGETS[planned.target].controller(setting)
        stack.callback(controller.kill)
        controller.prepare()
        brokers = Fleet(folder, servers.hosts, controller.port, CLUSTER_ID)
        stack.callback(brokers.kill)
        # The brokers are there first: the start then holds no waiting for them.
        brokers.start().wait_announced()
        before_start()
        if isinstance(controller, Bridge):
            print_line(f"{planned.run_id}: live page at {controller.url}/")
        start(row, client, controller)
        yield Stage(planned, row, servers, client, controller, brokers)
        controller.stop()  # the trace of ours is complete when it has ended
        row.void = row.void or tracing.lacks(store, planned.run_id)


def start(row: BenchRow, client: KazooClient, controller: Controller) -> None:
    """Start the controller, and time it until changes go to ZooKeeper.

    Args:
        row: is filled.
        client: of ZooKeeper.
        controller: not running.

    Raises:
        ProcessError: it ended, or does not get there.
    """
    claimed = threading.Event()
    claim_ns = [0]

    def seen(_event: object) -> None:
        claim_ns[0] = time.monotonic_ns()
        claimed.set()

    client.get("/controller_epoch", watch=seen)
    shared = Shared()
    began_ns = time.monotonic_ns()
    controller.begin()
    row.listening_s = _until(controller, controller.listening, "a listener", began_ns)
    row.dual_write_s = _until(controller, controller.dual_writing, "dual write", began_ns)
    if claimed.is_set():
        row.claim_s = (claim_ns[0] - began_ns) / 1e9
    row.others_cores = shared.read().others
    assert controller.pid is not None
    row.controller_cpu_s = process_cpu_s(controller.pid)
    row.load_1_min = os.getloadavg()[0]


def _until(controller: Controller, reached: Callable[[], bool], what: str, began_ns: int) -> float:
    """Wait for a state of the controller; returns the seconds since ``began_ns``."""
    end = time.monotonic() + _DUAL_WRITE_S
    while not reached():
        if not controller.alive:
            raise ProcessError(f"the controller ended before {what}:\n{controller.tail()}")
        if time.monotonic() > end:
            raise ProcessError(f"no {what} in {_DUAL_WRITE_S:g} s:\n{controller.tail()}")
        time.sleep(_POLL_S)
    return (time.monotonic_ns() - began_ns) / 1e9


def _run(loop: OpenLoop, port: int, wait_s: float) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(loop.run(port, wait_s))


def _warm_up(stage: Stage) -> Sequence[tuple[int, int]]:
    """Make topics, and changes if there are any; returns the epochs that these left of ISRs.

    Raises:
        RuntimeError: a request was refused, or ZooKeeper does not get there.
    """
    plan, kind = stage.planned.scenario.warm_up, stage.planned.scenario.kind
    if plan.topics:
        _warmed(stage, loads.warm_up(plan), plan.topics)
    epochs: Sequence[tuple[int, int]] = ()
    if plan.changes:
        epoch = stage.brokers.epoch(loads.LEADER) if kind is Kind.ISR else -1
        load, count = loads.warm_changes(kind, stage.case, plan, epoch)
        _warmed(stage, load, count)
        epochs = load.epochs if isinstance(load, loads.IsrChanges) else ()
    if plan.topics or plan.changes:
        _warm_drained(stage)
    return epochs


def _warmed(stage: Stage, load: loads.Loaded, count: int) -> None:
    """Run a load as fast as connections get free; all of it must be done."""
    loop = OpenLoop(load, count, None, min(_WARM_CONNECTIONS, count), loads.CLIENT_ID)
    _run(loop, stage.controller.port, _WARM_WAIT_S)
    errors = loads.errors_of(loop.errors)
    if errors or load.doubtful:
        raise RuntimeError(f"warming up failed: {errors}")


def _warm_drained(stage: Stage) -> None:
    watch = Watch(stage.controller.port, stage.client)
    watch.start()
    try:
        writes = TARGETS[stage.planned.target].to_zookeeper
        if writes and watch.drained(_last_offset(stage), _WARM_WAIT_S) is None:
            raise RuntimeError(f"ZooKeeper does not hold the warm-up after {_WARM_WAIT_S:g} s")
    finally:
        watch.close()


def restart(stage: Stage) -> None:
    """Stop the controller in order and start it again, asking for a change all the time."""
    stage.controller.stop()
    probe = Probe(stage.controller.ports, stage.client)
    probe.start()
    start(stage.row, stage.client, stage.controller)
    stage.row.first_commit_s, stage.row.first_in_zk_s = probe.result(_DUAL_WRITE_S)


def measure(stage: Stage, store: Store, epochs: Sequence[tuple[int, int]] = ()) -> set[str]:
    """Run the load and wait for ZooKeeper; returns the topics whose state is not known.

    Args:
        stage: what it runs on.
        store: gets its trace.
        epochs: see ``loads.IsrChanges``.
    """
    case, row = stage.case, stage.row
    assert case.count is not None
    kind = stage.planned.scenario.kind
    epoch = stage.brokers.epoch(loads.LEADER) if kind in {Kind.ISR, Kind.SCALE} else -1
    load = loads.load_of(kind, case, epoch, epochs)
    connections = min(case.connections, case.count)
    loop = OpenLoop(load, case.count, case.rate, connections, loads.CLIENT_ID, case.due_s)
    fault = fault_of(case, stage.servers)
    closely = fault is not None
    watch = Watch(stage.controller.port, stage.client, brokers=case.brokers, closely=closely)
    # Requests are encoded by now; a collection in the middle would delay what is due.
    gc.collect()
    gc.freeze()
    figures = Figures(stage.servers, stage.controller, Meter(stage.pids()))
    watch.start()
    try:
        _load_under(fault, loop, stage, case)
        ended_ns = time.monotonic_ns()
        figures.loaded(row)
        last = _last_offset(stage)
        writes = TARGETS[stage.planned.target].to_zookeeper
        drained_ns = watch.drained(last, case.drain_s) if writes else None
    finally:
        watch.close()
        gc.unfreeze()
    if watch.problem is not None:
        raise RuntimeError(f"the watch failed: {watch.problem}")
    figures.fill(row, loop, watch, ended_ns, drained_ns)
    if fault is not None:
        after_fault(row, watch, fault)
    row.load_1_min = os.getloadavg()[0]
    seen: dict[str, Sequence[Row]] = {"load": loop.rows(), "watch": watch.rows()}
    tracing.write(store, stage.planned, row, seen)
    return load.doubtful


def _load_under(fault: Fault | None, loop: OpenLoop, stage: Stage, case: Case) -> None:
    if fault is not None:
        loop.on_begin = fault.start
    try:
        _run(loop, stage.controller.port, case.drain_s)
    except BaseException:
        if fault is not None:
            fault.close(at_once=True)
        raise
    if fault is not None:
        fault.close()


def _last_offset(stage: Stage) -> int:
    """Offset of the last committed record, of the controller itself."""
    with contextlib.closing(BlockingClient(stage.controller.port)) as client:
        return client.high_watermark() - 1
