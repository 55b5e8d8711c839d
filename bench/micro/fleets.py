"""The highest rate of ISR changes at which heartbeats are answered in time.

Each row has a fresh controller and a fleet of its own, in KRaft mode or in ZooKeeper mode with
migration. The rates are searched by halving: a fleet that is late at one is late above it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.kept import KeptRows
from bench.micro.servers import BOTH, CLUSTER_ID, pid_of, running
from bench.runs.code import code_digest
from emulator.servers.bridge import COMMAND
from emulator.servers.java import FULL_SPEED
from emulator.servers.machine import Meter, wait_quiet
from emulator.servers.ports import HOST
from emulator.servers.seeded import connected, seed, warm
from emulator.servers.zookeeper import ZooKeeper

RATES: Final = (10, 25, 50, 100, 200, 400, 800, 1_600)
HEARTBEAT_P99_MS: Final = 50.0
TOPICS, PARTITIONS = 20, 20
MODES: Final = ("kraft", "zookeeper")
_LIMIT_S: Final = 400

FIGURES: Final = {
    "rate": "highest rate in time, ISR changes/s",
    "isr_per_s": "ISR changes/s",
    "heartbeat_p99_ms": "heartbeat p99, ms",
    "isr_p99_ms": "ISR p99, ms",
    "changes_per_request": "changes per request",
    "controller_cores": "controller, cores",
    "fleet_cores": "fleet, cores",
    "fleet_stall_ms": "fleet's longest stall, ms",
}

Row = dict[str, Any]


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--brokers", type=_sizes, default=[50, 200, 500], help="sizes")
    parser.add_argument("--controllers", type=_some_of(BOTH), default=BOTH)
    parser.add_argument("--modes", type=_some_of(MODES), default=MODES)
    parser.add_argument("--seconds", type=float, default=15, help="length of a row")


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


def _some_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parsed(text: str) -> list[str]:
        found = text.split(",")
        if not set(found) <= {*names}:
            raise ArgumentTypeError(f"{text}: some of {','.join(names)}")
        return found

    return parsed


def rows(asked: Namespace, folder: Path) -> Iterator[Row]:
    """One result for each search; rows that are kept are not taken again."""
    kept = KeptRows(folder / "kept.jsonl", code_digest("bench/micro"))
    with _zookeeper(folder, wanted="zookeeper" in asked.modes) as zookeeper:
        # Those that are compared beside each other in turns.
        for mode, size, name in product(asked.modes, asked.brokers, asked.controllers):

            def row(rate: int, mode: str = mode, size: int = size, name: str = name) -> Row:
                key = {"mode": mode, "brokers": size, "controller": name, "rate": rate}
                known = kept.find(**key, seconds=asked.seconds)
                if known is not None:
                    return known
                wait_quiet(asked.patience)
                taken = key | {"seconds": asked.seconds}
                taken |= _row(folder, zookeeper if mode == "zookeeper" else None, taken)
                if "why" not in taken:
                    kept.add(taken)  # what was not measured is tried again by the next run
                return taken

            best = highest(row)
            yield {"mode": mode, "brokers": size, "controller": name, **(best or {"rate": None})}


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Each controller at the highest rate in time."""
    names = [name for name in BOTH if any(row["controller"] == name for row in rows)]
    late = [
        f"late at every rate: {row['mode']}, {row['brokers']} brokers, {row['controller']}"
        for row in rows
        if row["rate"] is None
    ]
    text = table.beside(rows, ("mode", "brokers"), "controller", names, FIGURES)
    return "\n".join([text, *late]), True


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
            seed(inside, CLUSTER_ID)
            assert zookeeper.pid is not None
            pids["zookeeper"] = zookeeper.pid
        controller = stack.enter_context(running(key["controller"], own, zk))
        pids["controller"] = pid_of(controller)
        meter = Meter(pids)
        found = _fleet(controller.port, zk, key)
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


def _fleet(port: int, zk: str | None, key: Row) -> Row | None:
    arguments = (
        f"--brokers {key['brokers']} --controller {HOST}:{port} --cluster-id {CLUSTER_ID} --json "
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
