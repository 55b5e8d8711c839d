"""ZooKeeper's own limit: its asynchronous Java client writes multis, without other load."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.runs import tracing, zookeepers
from bench.runs.row import BenchRow
from bench.runs.scenario import Planned
from bench.runs.store import Store
from emulator.servers.jars import zookeeper_jars
from emulator.servers.java import FULL_SPEED
from emulator.servers.java_tools import compile_java, java
from emulator.servers.machine import Meter, wait_quiet
from emulator.servers.zookeeper import Secured

ZNODE_BYTES: Final = 150
"""Data of a znode; a partition's state has about 80 bytes, a topic of 10 partitions 250."""
_LIMIT_S: Final = 600.0


def take(planned: Planned, store: Store, patience_s: float) -> BenchRow:
    """Take one row; ``zk_changes_per_s`` are znodes, latencies those of multis.

    Raises:
        ProcessError: ZooKeeper did not start.
        JavaToolError: a multi was refused.
    """
    case = planned.case
    assert case.count is not None
    store.forget(planned)
    folder = store.servers / planned.run_id
    row = BenchRow.of(planned)
    row.warm_up = "a tenth of the znodes written before"
    row.started_wall_ns = time.time_ns()
    row.fsync_p50_ms, row.fsync_max_ms = zookeepers.fsync_ms(folder)
    # The client reads settings of TLS, and so needs its classes.
    jars = [*zookeeper_jars(), *Secured().jars()]
    classes = compile_java([Path(__file__).with_name("RawMulti.java")], jars)
    with zookeepers.running(case, folder) as servers:
        row.zk_write_p50_ms = zookeepers.write_ms(servers.hosts)
        wait_quiet(patience_s)
        transactions, znodes = servers.transactions(), servers.znodes()
        meter = Meter(servers.pids())
        printed = java(
            [classes, *jars],
            "RawMulti",
            *(servers.hosts, str(case.count), str(case.multi_ops), str(case.window)),
            str(ZNODE_BYTES),
            flags=[*FULL_SPEED, "-Xmx512m", "-Dlog4j2.level=ERROR"],
            timeout_s=_LIMIT_S,
        )
        usage = meter.usage()
        took_ns, p50_ns, p99_ns = map(int, printed.split())
        row.end_ns = row.drained_ns = time.monotonic_ns()
        row.begin_ns = row.end_ns - took_ns
        row.zk_s = took_ns / 1e9
        row.zk_changes_per_s = case.count / row.zk_s
        row.commit_p50_ms, row.commit_p99_ms = p50_ns / 1e6, p99_ns / 1e6
        row.zookeeper_cpu_s = usage.cpu_s["zookeeper-0"]
        row.load_cpu_s = usage.cpu_s["client"]  # the client's JVM has ended: it is counted here
        row.others_cores = usage.others_cores
        after = servers.transactions(), servers.znodes()
        assert None not in (transactions, znodes, *after), "of servers of our own"
        row.zk_transactions = (after[0] or 0) - (transactions or 0)
        row.znodes = (after[1] or 0) - (znodes or 0)
    tracing.write(store, planned, row, {"bench": []})
    return row
