"""The highest rate of ISR changes at which heartbeats are answered in time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.beside.machine import Meter
from bench.rig.bridge import COMMAND, Bridge
from bench.rig.kafka import KraftController
from bench.rig.ports import HOST

CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
RATES: Final = (10, 25, 50, 100, 200, 400, 800, 1_600)
HEARTBEAT_P99_MS: Final = 50.0
TOPICS, PARTITIONS = 20, 20
LIMIT_S: Final = 400


def rows(
    folder: Path,
    sizes: Sequence[int],
    controllers: Sequence[str],
    seconds: float,
    say: Callable[[dict[str, Any]], None],
) -> Iterator[dict[str, Any]]:
    """One row for each rate, until heartbeats are late; a fresh controller for each."""
    for size in sizes:
        for name in controllers:
            best: float | None = None
            for rate in RATES:
                row = _row(folder / f"{name}-{size}-{rate}", name, size, rate, seconds)
                say(row)
                yield row
                if not row["in_time"]:
                    break
                best = row["isr_per_s"]
            say({"controller": name, "brokers": size, "highest_in_time_per_s": best})


def _row(folder: Path, name: str, size: int, rate: int, seconds: float) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        if name == "ours":
            ours = Bridge(folder, None)
            stack.callback(ours.kill)
            ours.format(CLUSTER).start().wait_started()
            port, pid = ours.port, ours.pid
        else:
            kafka = KraftController("3.9.2", folder, None, CLUSTER)
            stack.callback(kafka.kill)
            kafka.start().wait_started()
            port, pid = kafka.port, kafka.pid
        assert pid is not None
        meter = Meter({"controller": pid})
        found = _fleet(port, size, rate, seconds)
        usage = meter.usage()
    row: dict[str, Any] = {"controller": name, "brokers": size, "rate": rate}
    if found is None:
        return row | {"in_time": False, "why": "not all brokers came up, or the time was over"}
    heartbeats, isr = found["waits"].get("BrokerHeartbeat", {}), found["isr"]
    p99_ms = heartbeats.get("p99_ms")
    return row | {
        "in_time": p99_ms is not None and p99_ms <= HEARTBEAT_P99_MS and not isr["unfinished"],
        "heartbeat_p99_ms": p99_ms,
        "isr_p99_ms": found["waits"].get("ISR change", {}).get("p99_ms"),
        "isr_per_s": isr["per_s"],
        "changes_per_request": isr["changes_per_request"],
        "storm_s": found["storm_s"],
        "fleet_cores": found["cpu_cores"],
        "fleet_stall_ms": found["loop_longest_stall_ms"],
        "memory_kib_per_broker": found["memory_kib_per_broker"],
        "controller_cores": round(usage.cpu_s["controller"] / usage.wall_s, 2),
        "others_cores": round(usage.others_cores, 2),
        "errors": found["errors"],
    }


def _fleet(port: int, size: int, rate: int, seconds: float) -> dict[str, Any] | None:
    arguments = (
        f"--brokers {size} --controller {HOST}:{port} --cluster-id {CLUSTER} --json "
        f"--topics {TOPICS} --partitions {PARTITIONS} --isr-churn {rate} --seconds {seconds}"
    ).split()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, "fleet", *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] | None = json.loads(ended.stdout) if ended.stdout else None
    return found
