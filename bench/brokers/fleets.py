"""The highest rate of ISR changes at which heartbeats are answered in time.

Each row has a fresh controller and a fleet of its own, in KRaft mode or in ZooKeeper mode with
migration. The rates are searched by halving: a fleet that is late at one is late above it.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.beside.contenders import KAFKA_FLAGS, QUIET_LOG
from bench.beside.machine import Meter, wait_quiet
from bench.brokers.kept import KeptRows
from bench.rig.bridge import COMMAND, Bridge
from bench.rig.java import FULL_SPEED
from bench.rig.kafka import KraftController
from bench.rig.ports import HOST
from bench.rig.seeded import seed
from bench.rig.warming import connected, warm
from bench.rig.zookeeper import ZooKeeper

CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
RATES: Final = (10, 25, 50, 100, 200, 400, 800, 1_600)
HEARTBEAT_P99_MS: Final = 50.0
TOPICS, PARTITIONS = 20, 20
MODES: Final = ("kraft", "zookeeper")
CONTROLLERS: Final = ("ours", "kafka")
_LIMIT_S: Final = 400
_AROUND_S: Final = 25
"""What a row takes beside its load: servers, registrations, topics, the end."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FleetBench:
    """What is compared. ``seconds``: of load in each row; ``patience_s``: for a quiet machine."""

    sizes: Sequence[int]
    controllers: Sequence[str]
    modes: Sequence[str]
    seconds: float
    patience_s: float

    def combinations(self) -> list[tuple[str, int, str]]:
        """Mode, size and controller of each search, those beside each other in turns."""
        return [*itertools.product(self.modes, self.sizes, self.controllers)]

    @property
    def minutes(self) -> float:
        """How long it takes, about."""
        rows = len(self.combinations()) * len(RATES).bit_length()
        return rows * (self.seconds + _AROUND_S) / 60


def take(plan: FleetBench, folder: Path, kept: KeptRows, say: Callable[[Row], None]) -> list[Row]:
    """Take the rows that are not kept yet; returns one result for each search."""
    found = []
    with _zookeeper(folder, wanted="zookeeper" in plan.modes) as zookeeper:
        for mode, size, name in plan.combinations():

            def row(rate: int, mode: str = mode, size: int = size, name: str = name) -> Row:
                key = {"mode": mode, "brokers": size, "controller": name, "rate": rate}
                known = kept.find(**key, seconds=plan.seconds)
                if known is not None:
                    return known
                wait_quiet(plan.patience_s, [] if zookeeper is None else [zookeeper.pid or 0])
                taken = key | {"seconds": plan.seconds}
                taken |= _row(folder, zookeeper if mode == "zookeeper" else None, taken)
                if "why" not in taken:
                    kept.add(taken)  # what was not measured is tried again by the next run
                say(taken)
                return taken

            best = highest(row)
            found.append({"mode": mode, "brokers": size, "controller": name, "best": best})
    return found


def highest(row: Callable[[int], Row]) -> Row | None:
    """The row of the highest rate that is in time, by halving; None if none is.

    >>> highest(lambda rate: {"rate": rate, "in_time": rate < 300})
    {'rate': 200, 'in_time': True}
    """
    best, low, high = None, 0, len(RATES)
    while low < high:
        middle = (low + high) // 2
        found = row(RATES[middle])
        if found["in_time"]:
            best, low = found, middle + 1
        else:
            high = middle
    return best


@contextmanager
def _zookeeper(folder: Path, *, wanted: bool) -> Iterator[ZooKeeper | None]:
    """One server for all rows, each of which has a chroot; None if no row needs it."""
    if not wanted:
        yield None
        return
    server = ZooKeeper(folder / time.strftime("zookeeper-%Y%m%d-%H%M%S"), tick_ms=2_000)
    server.heap, server.java_flags = "1g", FULL_SPEED
    with server, connected(server.hosts) as client:
        warm(client)
        yield server


def _row(folder: Path, zookeeper: ZooKeeper | None, key: Row) -> Row:
    name = f"{key['mode']}-{key['controller']}-{key['brokers']}-{key['rate']}"
    own = folder / f"{name}-{time.strftime('%H%M%S')}"
    own.mkdir(parents=True)
    zk = None
    with ExitStack() as stack:
        pids = {}
        if zookeeper is not None:
            zk = f"{zookeeper.hosts}/{own.name}"
            client = stack.enter_context(connected(zookeeper.hosts))
            client.create(f"/{own.name}", b"")
            inside = stack.enter_context(connected(zk))
            seed(inside, CLUSTER)
            assert zookeeper.pid is not None
            pids["zookeeper"] = zookeeper.pid
        port, pids["controller"] = _controller(stack, key["controller"], own, zk)
        meter = Meter(pids)
        found = _fleet(port, zk, key)
        usage = meter.usage()
    if found is None:
        return {"in_time": False, "why": "not all brokers came up, or the time was over"}
    isr, p99_ms = found["isr"], found["heartbeats_under_load"].get("p99_ms")
    cores = {of: round(used / usage.wall_s, 2) for of, used in usage.cpu_s.items()}
    return {
        "in_time": in_time(found),
        "heartbeat_p99_ms": p99_ms,
        "isr_p99_ms": found["waits"].get("ISR change", {}).get("p99_ms"),
        "isr_per_s": isr["per_s"],
        "isr_unfinished": isr["unfinished"],
        "changes_per_request": isr["changes_per_request"],
        "storm_s": found["storm_s"],
        "fleet_cores": found["cpu_cores"],
        "fleet_stall_ms": found["loop_longest_stall_ms"],
        "memory_kib_per_broker": found["memory_kib_per_broker"],
        "controller_cores": cores["controller"],
        "zookeeper_cores": cores.get("zookeeper"),
        "others_cores": round(usage.others_cores, 2),
        "errors": found["errors"],
        "ended": {**found["ended_badly"], **found["absent"]},
    }


def in_time(found: Row) -> bool:
    """Whether a fleet held its rate: heartbeats in time, all changes made, no broker lost.

    Args:
        found: the figures of ``kraft-bridge fleet --json``.
    """
    p99_ms = found["heartbeats_under_load"].get("p99_ms")
    lost = found["isr"]["unfinished"] or found["ended_badly"] or found["absent"]
    return p99_ms is not None and p99_ms <= HEARTBEAT_P99_MS and not lost


def _controller(stack: ExitStack, name: str, folder: Path, zk: str | None) -> tuple[int, int]:
    """Start one; returns its port and its process id."""
    controller: Bridge | KraftController
    if name == "ours":
        controller = Bridge(folder, zk)
        stack.callback(controller.kill)
        controller.format(CLUSTER).start().wait_started()
    else:
        controller = KraftController("3.9.2", folder, zk, CLUSTER)
        controller.heap, controller.java_flags, controller.log4j = "1g", KAFKA_FLAGS, QUIET_LOG
        stack.callback(controller.kill)
        controller.start().wait_started()
    assert controller.pid is not None
    return controller.port, controller.pid


def _fleet(port: int, zk: str | None, key: Row) -> Row | None:
    arguments = (
        f"--brokers {key['brokers']} --controller {HOST}:{port} --cluster-id {CLUSTER} --json "
        f"--listener INTERNAL --topics {TOPICS} --partitions {PARTITIONS} "
        f"--isr-churn {key['rate']} --seconds {key['seconds']}"
    ).split()
    # What ends is not measured: hundreds that have their leaders moved at once take a while.
    arguments += ["-X", "controlled.shutdown.enable=false"]
    if zk is not None:
        arguments += ["--zookeeper", zk]
    try:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, "fleet", *arguments],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    found: Row | None = json.loads(ended.stdout) if ended.stdout else None
    return found
