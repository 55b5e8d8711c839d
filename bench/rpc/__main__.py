"""``python -m bench.rpc rates|steps|memory|start|snapshot|embedded``: the request path, and more.

``rates``: requests/s, CPU and latency at 1, 10 and 100 connections, beside Kafka 3.9.2's controller
(``--only ours`` without it). ``steps``: how long large requests keep others waiting. ``memory``:
bytes for each partition. ``start``: time to listening. ``snapshot``: how long heartbeats wait while
snapshots are written, one after the other. ``embedded``: time until a cluster inside a test's
process has started. All in plain KRaft, without ZooKeeper; one process each, and the client in this
one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.rpc import embedded, memory, rates, snapshot, steps
from bench.rpc.cluster import CLUSTER_ID, create, registered
from bench.rpc.requests import KINDS
from bench.rpc.servers import KAFKA, OURS, running


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.rpc", description=__doc__)
    kinds = ("rates", "steps", "memory", "start", "snapshot", "embedded")
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--only", choices=(OURS, KAFKA), help="measure one controller only")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 10, 100])
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="for each row of rates or snapshot"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, help="default: 100,000; 20,000 for start, steps")
    parser.add_argument(
        "--port", type=int, help="rates of a controller that runs, once for each, with --pid"
    )
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--cluster-id", default=CLUSTER_ID, help="its cluster")
    parser.add_argument("--out", type=Path, help="write all rows there, as JSON")
    return parser


def main() -> int:
    """Measure, print, and write the rows if asked."""
    asked = _parser().parse_args()
    contenders = (asked.only,) if asked.only else (OURS, KAFKA)
    rows: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="bench-rpc-") as name:
        folder = Path(name)
        if asked.what == "rates":
            plan = rates.RatesPlan(
                contenders, asked.kinds, asked.connections, asked.seconds, asked.rounds
            )
            if asked.port and asked.pid:
                cluster = registered(asked.port, asked.cluster_id)
                one = rates.Measured(asked.only or OURS, asked.pid, cluster)
                rows += rates.measure_these(plan, [one], _say)
            else:
                rows += rates.measure(plan, folder, _say)
            for each in rates.table(rows):
                _say(each)
        elif asked.what == "steps":
            for contender in contenders:
                with running(contender, folder, acls=True) as server:
                    cluster = registered(server.port)
                    create(cluster, "there", (asked.partitions or 20_000) // 100, 100)
                    _say(f"== {contender}")
                    rows += steps.measure(cluster, _say)
        elif asked.what == "snapshot":
            for contender in contenders:
                with running(contender, folder) as server:
                    _say(f"== {contender}")
                    size = asked.partitions or 100_000
                    rows += snapshot.measure(server, size, asked.seconds, _say)
        elif asked.what == "memory":
            rows.append(memory.memory(asked.partitions or 100_000, folder, _say))
        elif asked.what == "embedded":
            rows += embedded.starts(asked.rounds, _say)
        else:
            rows += memory.starts(asked.partitions or 20_000, asked.rounds, folder, _say)
    if asked.out:
        asked.out.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
