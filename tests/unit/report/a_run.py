"""Tables of a run, as the analysis leaves them, in few rows."""

from __future__ import annotations

import math
from typing import Any

from bench.analysis.limits import PARTS

RUN = "r"
BEGIN_NS = 1_800_000_000_000_000_000
NAMES = (
    "runs missing latency rate_summary timeline percentiles change_time utilisation request_parts "
    "by_api stage_latency lag_chart leaders lives lag_summary gauge_agreement blocking "
    "blocking_by_cause blocked_per_operation by_operation multi_latency coalescing stalls "
    "noisiest_seconds slowest untraced"
).split()


def empty() -> dict[str, list[dict[str, Any]]]:
    """A trace without a row."""
    return {name: [] for name in NAMES}


def at(second: float, kind: str, ms: float = 0.0, process: str = "admin", count: int = 1) -> Any:
    """A row of the timeline."""
    wall_ns = BEGIN_NS + round(second * 1e9)
    row = {"run_id": RUN, "process": process, "kind": kind, "wall_ns": wall_ns, "ms": ms}
    return row | {"sum_ms": ms * count, "count": count, "slice_s": 1.0}


def a_run(controller: str = "controller-1", host: str = "h") -> dict[str, list[dict[str, Any]]]:
    """A run in which ZooKeeper stood still for 3 s, and 100 of 1,000 changes were given up."""
    run = {"run_id": RUN, "process": controller}
    tables = empty()
    tables["runs"] = [
        run
        | {"host": host, "wall_ns": BEGIN_NS, "monotonic_ns": 0, "schema_version": 2}
        | {"product_version": "1", "release": "3.9", "parameters": "{}"}
    ]
    tables["lives"] = [
        run
        | {"host": host, "moved_s": 0.0, "first_ns": BEGIN_NS, "last_ns": BEGIN_NS + 20 * 10**9}
        | {"rows": 9, "led": "1"}
    ]
    tables["leaders"] = [
        run
        | {"leader_epoch": 1, "first_ns": BEGIN_NS, "last_ns": BEGIN_NS + 20 * 10**9}
        | {"end_offset": 9, "before": None}
    ]
    tables["rate_summary"] = [
        {"run_id": RUN, "process": "admin", "intended": 1000, "achieved": 900}
        | {"due_per_s": 100.0, "achieved_per_s": 90.0, "last_due_ns": 10**10}
    ]
    tables["timeline"] = [
        *(at(second, "due", count=100) for second in range(10)),
        *(at(second, "done", count=90) for second in range(10)),
        *(at(second / 10, "change", 5.0 + second) for second in range(90)),
        at(4.0, "given up", 6000.0),
        at(10.0, "refused", count=100),
        at(2.0, "multi", 2.0, controller),
        at(4.0, "lost multi", 3000.0, controller),
        at(3.0, "sync", 1.5, controller),
        at(5.0, "stall", 200.0, controller),
        at(4.0, "blocked", 3000.0, controller),
    ]
    tables["lag_chart"] = [
        run | {"wall_ns": BEGIN_NS + second * 10**9, "lag_records": 100 * second, "lag_ms": 1.0}
        for second in range(11)
    ]
    tables["lag_summary"] = [
        run
        | {"max_lag_records": 10_100, "max_lag_ns": 4 * 10**9, "max_lag_ms": 3000.0}
        | {"mean_lag_records": 1.0, "behind_share": 0.4, "last_lag_records": 0}
    ]
    tables["blocking"] = [
        run
        | {"blocked_operations": 40, "timed_out_operations": 2, "total_ms": 9000.0}
        | {"union_ms": 3000.0, "unexplained_share": 0.0}
    ]
    tables["change_time"] = [
        {"run_id": RUN, "part": part, "samples": 880, "mean_ms": 10.0, "p50_ms": 0.0}
        | {"p90_ms": 3.0, "p99_ms": None, "p999_ms": None, "max_ms": 300.0, "accuracy": "exact"}
        for part in PARTS
    ]
    shares = {"blocked": 0.3, "machine": 0.2, "zookeeper": 0.9, "client": 1.0}
    tables["utilisation"] = [
        {"run_id": RUN, "resource": name, "subject": "", "value": value, "limit": None}
        for name, value in shares.items()
    ]
    tables["percentiles"] = [
        {"run_id": RUN, "seen": "client", "samples": 1000, "beyond": beyond}
        | {"ms": ms, "censored_ms": 6000.0}
        for beyond, ms in ((0.5, 9.0), (0.2, 12.0), (0.01, math.inf), (0.0, math.inf))
    ]
    return tables
