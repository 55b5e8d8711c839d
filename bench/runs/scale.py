"""One row of a large cluster: first copy, changes, a broker's death, failover, restart.

Three controllers, and emulated brokers of which broker 0, the leader of what changes, is a process
of its own, which dies. A snapshot is due whenever the log has grown by half of what the topics
take, so each row has some.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.runs import seeding, stage, zookeepers
from bench.runs.borrowed import borrowed
from bench.runs.measuring import longest_step_ms, rss_mib
from bench.runs.probe import Probe
from bench.runs.row import BenchRow
from bench.runs.scenario import Case, Planned
from bench.runs.store import Store
from bench.runs.targets import Ours
from emulator.servers import seeded
from emulator.servers.fleet import Fleet
from emulator.servers.machine import process_cpu_s
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import ProcessError
from emulator.trace.distribution import percentile

IDS: Final = (3000, 3001, 3002)
_MIB: Final = 1 << 20
DISK_BYTES: Final = (512 * _MIB, 4_000)
"""Room on the disk: of a row without topics, and of each partition of it: ZooKeeper's log and its
snapshots, and those of three controllers. An estimate on the safe side."""
MEMORY_BYTES: Final = (2_048 * _MIB, 5_000)
"""The same of memory."""
_OF_A_BROKER: Final = 300 * 1024, 130
"""Memory of an emulated broker, and of each partition in it."""
_OF_A_TOPIC: Final = 12_000
"""Memory of a topic, in three controllers: one that was restarted took 5.3 kB."""
_SNAPSHOT_BYTES: Final = 50
"""Of the log for each partition, between two snapshots; a partition takes about a hundred."""
_LONG_S: Final = 1_200.0
_POLL_S: Final = 0.02
_DRAIN_POLL_S: Final = 0.1
_MANY_BROKERS: Final = 100
_SETTLE_S: Final = 3.0
_REST_CORES: Final = 0.3
_REST_S_MAX: Final = 120.0
_UNANSWERED: Final = (
    "kraft_bridge_broker_requests_waiting",
    "kraft_bridge_brokers_not_answering",
)


class Controllers:
    """Three controllers as one, see ``targets.Controller``; its port is that of who leads."""

    def __init__(self, folder: Path, zk: str, case: Case) -> None:
        ports = free_ports(len(IDS))
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in zip(IDS, ports, strict=True))
        between = _SNAPSHOT_BYTES * partitions(case)
        self.all = [
            Ours(
                folder / f"controller-{node}",
                zk,
                port=port,
                properties={
                    "node.id": node,
                    "controller.quorum.voters": voters,
                    "metadata.log.max.record.bytes.between.snapshots": between,
                },
            )
            for node, port in zip(IDS, ports, strict=True)
        ]
        self._brokers = case.brokers
        self.addresses = ",".join(f"{HOST}:{port}" for port in ports)

    @property
    def leader(self) -> Ours:
        """Who writes to ZooKeeper; before there is one, the first that runs."""
        running = [one for one in self.all if one.alive]
        return next((one for one in running if one.dual_writing()), (running or self.all)[0])

    @property
    def port(self) -> int:
        """Of the leader."""
        return self.leader.port

    @property
    def ports(self) -> list[int]:
        """Of all."""
        return [one.port for one in self.all]

    @property
    def pid(self) -> int | None:
        """Of the leader."""
        return self.leader.pid

    @property
    def alive(self) -> bool:
        """Whether any runs."""
        return any(one.alive for one in self.all)

    def prepare(self) -> None:
        """See Controller."""
        for one in self.all:
            one.format(stage.CLUSTER_ID, new_quorum=True)

    def begin(self) -> None:
        """See Controller; those that run already go on."""
        for one in self.all:
            if not one.alive:
                one.begin()

    def listening(self) -> bool:
        """Whether all do."""
        return all(one.listening() for one in self.all if one.alive)

    def dual_writing(self) -> bool:
        """Whether one does; the page lists all brokers, so with many it is not asked for often."""
        if self._brokers >= _MANY_BROKERS:
            time.sleep(_DRAIN_POLL_S)
        return any(one.dual_writing() for one in self.all if one.alive)

    def metrics(self) -> dict[str, float]:
        """Of the leader."""
        return self.leader.metrics()

    def tail(self) -> str:
        """The last lines of each."""
        return "\n".join(one.tail() for one in self.all)

    def stop(self, timeout_s: float = _LONG_S) -> int | None:
        """All of them, the leader first: what it has promised ZooKeeper needs the others."""
        leader = self.leader
        for one in (leader, *(each for each in self.all if each is not leader)):
            one.stop(timeout_s)
        return None

    def kill(self) -> int | None:
        """All of them."""
        for one in self.all:
            one.kill()
        return None

    def step_ms(self) -> float | None:
        """The longest step of any that runs, since its start, by the CPU of its thread."""
        found = [longest_step_ms(one.metrics(), "cpu") for one in self.all if one.alive]
        return max((ms for ms in found if ms is not None), default=None)


def partitions(case: Case) -> int:
    """How many there are."""
    return case.topics_present * case.partitions


def needed(case: Case) -> tuple[int, int]:
    """Bytes of disk and of memory that a row takes.

    >>> needed(Case("small", topics_present=10, partitions=100))
    (540870912, 2153915248)
    """
    count = partitions(case)
    disk, memory = (least + count * each for least, each in (DISK_BYTES, MEMORY_BYTES))
    own, of_each = _OF_A_BROKER
    of_brokers = case.brokers * (own + of_each * count)
    return disk, memory + case.topics_present * _OF_A_TOPIC + of_brokers


def lacks(case: Case, folder: Path) -> str:
    """What this machine lacks for a row; empty if nothing.

    Args:
        case: of the row.
        folder: for its servers; made if absent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    disk, memory = needed(case)
    [available] = [
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    ]
    for what, free, wanted in (
        ("disk", shutil.disk_usage(folder).free, disk),
        ("memory", available, memory),
    ):
        if free < wanted:
            return f"it needs {wanted / 2**30:.1f} GiB of {what}; {free / 2**30:.1f} are free"
    return ""


def take(planned: Planned, store: Store, print_line: stage.PrintLine) -> BenchRow:
    """Take one row.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RuntimeError: ZooKeeper or a broker is not as it must be.
        OSError: a controller cannot be reached.
    """
    store.forget(planned)
    folder = store.servers / planned.run_id
    row = BenchRow.of(planned)
    row.started_wall_ns = time.time_ns()
    row.fsync_p50_ms, row.fsync_max_ms = zookeepers.fsync_ms(folder)
    beats = folder / "fleet-trace"
    with _staged(planned, row, folder, beats, print_line) as (on, others):
        print_line(f"{planned.run_id}: copied in {row.copy_s:.1f} s")
        _changes(on, store)
        _death(on)
        on.brokers = others
        took = "it led nothing" if row.death_s is None else f"after {row.death_s:.1f} s"
        print_line(f"{planned.run_id}: without broker 0: {took}")
        _failover(on)
        print_line(f"{planned.run_id}: the next leads after {row.failover_s:.1f} s")
        _restart(on)
        others.stop(_LONG_S)
    assert row.begin_ns is not None
    assert row.drained_ns is not None
    _heartbeats(row, _beats(beats, row.begin_ns, row.drained_ns))
    return row


@contextlib.contextmanager
def _staged(
    planned: Planned, row: BenchRow, folder: Path, beats: Path, print_line: stage.PrintLine
) -> Iterator[tuple[stage.Stage, Fleet]]:
    """Everything in dual write: with broker 0 as the stage's fleet, and the other brokers."""
    case = planned.case
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(
            zookeepers.running(case, folder, heap_mib=_heap_mib(case))
            if planned.zookeeper is None
            else borrowed(planned.zookeeper, planned.run_id, print_line)
        )
        client = stack.enter_context(seeded.connected(servers.direct))
        seeded.seed(client, stage.CLUSTER_ID)
        seeding.topics(client, case.topics_present, case.partitions, case.brokers)
        print_line(f"{planned.run_id}: topics are in ZooKeeper")
        controllers = Controllers(folder, servers.hosts, case)
        stack.callback(controllers.kill)
        controllers.prepare()
        row.empty_rss_mib = _empty_rss_mib(controllers)
        of = (servers.hosts, controllers.addresses, stage.CLUSTER_ID)
        first = Fleet(folder / "first", *of, count=1)
        others = Fleet(folder / "others", *of, count=case.brokers - 1, first_id=1, trace=beats)
        for fleet in (first, others):
            stack.callback(fleet.kill)
            fleet.start()
        for fleet in (first, others):
            fleet.wait_announced(_LONG_S)
        stage.start(row, client, controllers)
        assert row.claim_s is not None
        assert row.dual_write_s is not None
        row.copy_s = row.dual_write_s - row.claim_s
        row.copy_cpu_s = row.controller_cpu_s
        row.copy_rss_mib = rss_mib(controllers.pid)
        on = stage.Stage(planned, row, servers, client, controllers, first)
        _settled(on)
        row.copy_step_ms = controllers.step_ms()
        yield on, others


def _heap_mib(case: Case) -> int:
    """Of ZooKeeper: two znodes of each partition."""
    return 1_024 + partitions(case) * 2_048 // _MIB


def _empty_rss_mib(controllers: Controllers) -> float | None:
    """The resident set of a controller without metadata."""
    controllers.begin()
    one = controllers.all[0]
    one.wait_started()
    found = rss_mib(one.pid)
    controllers.kill()
    return found


def _controllers(on: stage.Stage) -> Controllers:
    assert isinstance(on.controller, Controllers)
    return on.controller


def _settled(on: stage.Stage) -> None:
    """Wait until ZooKeeper holds all, brokers have answered all, and the controllers rest.

    The CPU of what a takeover leaves to do would be counted as that of changes: snapshots, and the
    answers of brokers, which take a minute over the three requests that name 1,000,000 partitions.
    Controllers that do not rest are waited for two minutes at most.

    Raises:
        ProcessError: a broker does not answer.
    """
    _drained(on)
    began_s, before, busy = time.monotonic(), _cpu_s(on), True
    while busy:
        time.sleep(_SETTLE_S)
        now, waited_s = _cpu_s(on), time.monotonic() - began_s
        works = now - before > _REST_CORES * _SETTLE_S and waited_s < _REST_S_MAX
        busy, before = works or not _answered(on), now
        if busy and waited_s > _LONG_S:
            raise ProcessError(f"brokers have not answered all requests after {_LONG_S:g} s")


def _answered(on: stage.Stage) -> bool:
    """Whether no request of the leader waits for a broker's answer."""
    metrics = _controllers(on).metrics()
    return not any(value for name, value in metrics.items() if name.startswith(_UNANSWERED))


def _cpu_s(on: stage.Stage) -> float:
    """CPU time of all controllers since they began."""
    pids = [one.pid for one in _controllers(on).all if one.alive]
    return sum(process_cpu_s(pid) for pid in pids if pid is not None)


def _drained(on: stage.Stage) -> None:
    """Wait until ZooKeeper holds all but NoOps, whoever leads by then.

    The page lists all brokers, so each controller is asked for it once a look, and not often.
    """

    def drained() -> bool:
        found = (one.status() for one in _controllers(on).all if one.alive)
        migrations = [each["migration"] for each in found if each is not None]
        return any(
            one["driver_state"] == "DUAL_WRITE" and one["lag"]["records_without_no_ops"] == 0
            for one in migrations
        )

    _until("drained ZooKeeper", drained, _DRAIN_POLL_S)


def _changes(on: stage.Stage, store: Store) -> None:
    """ISR changes at the rate of the case, and the heartbeats meanwhile.

    A broker that was late during the copy has left ISRs, which raises epochs.
    """
    assert on.case.count is not None
    changed = min(on.case.count, on.case.topics_present)
    stage.measure(on, store, [_epochs(on, seeding.present_name(each)) for each in range(changed)])
    row = on.row
    if row.answered and row.controller_cpu_s is not None:
        row.change_cpu_us = row.controller_cpu_s / row.answered * 1e6


def _death(on: stage.Stage) -> None:
    """Broker 0 ends at once; until ZooKeeper has no partition that it leads.

    On a machine that is too slow for its heartbeats it may lead nothing by then: then the time
    would say nothing, and there is none.
    """
    last = seeding.present_name(on.case.topics_present - 1)
    names = (seeding.present_name(0), last)
    led = all(_leader(on, name) == 0 for name in names)
    began_s = time.monotonic()
    on.brokers.kill()
    for name in names:
        _until(f"leader of {name} but broker 0", lambda name=name: _leader(on, name) > 0)
    _drained(on)
    if led:
        on.row.death_s = time.monotonic() - began_s
    on.row.death_step_ms = _controllers(on).step_ms()


def _leader(on: stage.Stage, topic: str) -> int:
    """Of partition 0, as ZooKeeper has it; -1: none."""
    return int(json.loads(on.client.get(_state_of(topic))[0])["leader"])


def _epochs(on: stage.Stage, topic: str) -> tuple[int, int]:
    """Leader epoch and partition epoch of partition 0, as ZooKeeper has them."""
    data, stat = on.client.get(_state_of(topic))
    return int(json.loads(data)["leader_epoch"]), int(stat.version)


def _state_of(topic: str) -> str:
    return f"/brokers/topics/{topic}/partitions/0/state"


def _failover(on: stage.Stage) -> None:
    """The leader is killed; until ZooKeeper has a change of the next one."""
    controllers = _controllers(on)
    controllers.leader.kill()
    probe = Probe(controllers.ports, on.client, "failover")
    probe.start()
    _, on.row.failover_s = probe.result(_LONG_S)
    _settled(on)
    on.row.failover_step_ms = controllers.step_ms()
    on.row.failover_rss_mib = rss_mib(controllers.pid)


def _restart(on: stage.Stage) -> None:
    """Those that run are stopped in order, then all three are started."""
    controllers, row = _controllers(on), on.row
    stage.restart(on)
    _settled(on)
    row.longest_step_ms = controllers.step_ms()
    row.controller_rss_mib = rss_mib(controllers.pid)
    sizes = _snapshots(controllers.all)
    row.snapshots = len(sizes)
    row.snapshot_mib = max(sizes, default=0) / _MIB
    if row.controller_rss_mib is not None and row.empty_rss_mib is not None:
        grown = (row.controller_rss_mib - row.empty_rss_mib) * _MIB
        row.partition_bytes = grown / partitions(on.case)


def _snapshots(controllers: Sequence[Ours]) -> list[int]:
    """Bytes of each snapshot that is there."""
    return [path.stat().st_size for one in controllers for path in one.data.glob("*/*.checkpoint")]


def _until(what: str, reached: Any, poll_s: float = _POLL_S) -> None:
    end = time.monotonic() + _LONG_S
    while not reached():
        if time.monotonic() > end:
            raise ProcessError(f"no {what} in {_LONG_S:g} s")
        time.sleep(poll_s)


def _beats(trace: Path, begin_ns: int, end_ns: int) -> list[float]:
    """How long heartbeats waited that were due between two instants, in ms."""
    wanted = [
        ("api", "==", "BrokerHeartbeat"),
        ("intended_ns", ">=", begin_ns),
        ("intended_ns", "<", end_ns),
    ]
    found = pq.read_table(
        trace / "requests", columns=["intended_ns", "answered_ns"], filters=wanted
    ).to_pydict()
    pairs = zip(found["intended_ns"], found["answered_ns"], strict=True)
    return [(answered - due) / 1e6 for due, answered in pairs]


def _heartbeats(row: BenchRow, waits_ms: Sequence[float]) -> None:
    row.heartbeats = len(waits_ms)
    row.heartbeat_p99_ms = percentile(waits_ms, 0.99)
    row.heartbeat_max_ms = max(waits_ms, default=None)
