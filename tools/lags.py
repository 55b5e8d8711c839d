"""Tables of docs/benchmarks.md about ZooKeeper that is behind, from kept rows: ``make docs``."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.predict import model
from bench.predict.cells import kept, predicted
from bench.predict.model import LEAST_S, SHARE, Speed
from bench.runs.reading import HOME, read
from bench.runs.scenario import Case
from tools.kept import OURS, Tables, rows, source, span, spread
from tools.speeds import beside, busy, limited_by, pairs


def rollback() -> Iterator[str]:
    """What is not in ZooKeeper when a load ends, or ZooKeeper goes on: ours and Kafka's."""
    file, found = rows("once-*.jsonl")
    of: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found:
        if row["scenario"] == "knee" or row["case"] == "s5-unbounded":
            of.setdefault(f"{row['scenario']}.{row['case']}", {})[row["target"]] = row
    yield (
        f"From the [rows](rows/{file.name}) of one round each, ours / Kafka's; topics of 10 "
        "partitions, 11 records each.\n\n"
        "| changes/s due | committed, not in ZooKeeper: records | until ZooKeeper has them, s | "
        "what limited |\n|---|---|---|---|\n"
    )
    for pair in sorted(of.values(), key=lambda one: (one[OURS]["frozen_s"], _rate(one[OURS]))):
        ours, kafka = pair[OURS], pair["kafka"]
        when = "after 20 s"
        if ours["frozen_s"]:
            when = f"after ZooKeeper was stopped for {ours['frozen_s']:g} s, no bound"
        missing = " / ".join(f"{_missing(one):,.0f}" for one in (ours, kafka))
        waits = " / ".join(f"{_waits_s(one):.1f}" for one in (ours, kafka))
        yield f"| {_rate(ours):g}, {when} | {missing} | {waits} | {limited_by([(ours, kafka)])} |\n"


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["rate_per_s"])


def _missing(row: Mapping[str, Any]) -> float:
    return float(
        row["lag_end_records"] if row["backlog_records"] is None else row["backlog_records"]
    )


def _waits_s(row: Mapping[str, Any]) -> float:
    if row["catch_up_s"] is not None:
        return float(row["catch_up_s"])
    return max(0.0, float(row["zk_s"]) - float(row["count"]) / _rate(row))


def predicted_border(case: Case) -> float:
    """Changes a second from which on some wait, with the speed of the kept predictions.

    Args:
        case: of a log that is synced slowly, under a bound.
    """
    assert case.bound_records is not None
    speed = Speed(**kept()[1].predictions["speed"])
    sync_s = statistics.median(case.fsync_ms) / 1e3
    slow = Speed(speed.request_s + sync_s, speed.operation_s, speed.commit_s, speed.append_s)
    return model.border(model.creation(case.partitions), case.bound_records, slow)


def slow_log() -> Iterator[str]:
    """From which rate on changes wait for a ZooKeeper whose log is slow."""
    case = read(HOME / "slow-log.toml").cases[0]
    yield (
        f"Each sync of ZooKeeper's log takes {statistics.median(case.fsync_ms):g} ms, the bound is "
        f"{case.bound_records:,} records: so ZooKeeper fills before the machine. The model says, "
        "with the speed of the predictions above and the sync added to a request, that changes "
        f"wait from **{predicted_border(case):.0f} changes/s** on. "
        "`kraft-bridge bench run slow-log --repeat 3`. "
    )
    file, found = rows("slow-log-*.jsonl")
    yield (
        f"{source(file, found)}, lowest and highest in brackets:\n\n"
        "| changes/s due | done, /s | some change waited, of the load's time | "
        "records behind, at most | commit p50, ms | cores in use |\n"
        "|---:|---:|---:|---:|---:|---:|\n"
    )
    of: dict[float, list[dict[str, Any]]] = {}
    for row in sorted(found, key=_rate):
        of.setdefault(_rate(row), []).append(row)
    for rate, some in of.items():
        done, waited, p50, busy = (
            [row[name] for row in some]
            for name in ("achieved_per_s", "blocked_share", "commit_p50_ms", "machine_busy")
        )
        bounds = "lag_max_low_records", "lag_max_records"
        behind = [max(row[name] for row in some) for name in bounds]
        yield (
            f"| {rate:g} | {spread(done, ',.0f')} | {spread(waited, '.1%')} | {span(behind)} "
            f"| {spread(p50, ',.1f')} | {spread(busy, '.0%')} |\n"
        )


def long_stalls() -> Iterator[str]:
    """How long changes wait for a ZooKeeper that stops for half a minute, and for a whole one."""
    cases = read(HOME / "long-stall.toml").cases
    speed = Speed(**kept()[1].predictions["speed"])
    file, taken = rows("long-stall-*.jsonl")
    found = {row["case"]: row for row in taken}
    yield (
        "ZooKeeper is stopped for 30 s in a load of 60 s, and for 60 s in one of 100 s, under "
        "creations of topics of 10 partitions. `kraft-bridge bench run long-stall --repeat 1`. "
        f"{source(file, taken)}: {len(taken)} of {len(cases)} cases. Of the cores "
        f"{spread([row['machine_busy'] for row in taken], '.0%')} were in use. "
        "Predicted with the speed of the predictions above / measured; in bold what is off by more "
        f"than {SHARE:.0%} and {LEAST_S * 1e3:.0f} ms:\n\n"
        "| changes/s | stall, s | bound | some change waited, s | the longest change, s |\n"
        "|---:|---:|---:|---|---|\n"
    )
    for case in cases:
        row, before = found.get(case.name), predicted(case, speed)
        pairs = [
            (before.union_s, None if row is None else row["blocked_union_ms"] / 1e3),
            (before.longest_s, None if row is None else row["commit_max_ms"] / 1e3),
        ]
        cells = " | ".join(_pair(*one) for one in pairs)
        yield f"| {case.rate:g} | {case.freeze_s:g} | {case.bound_records:,} | {cells} |\n"


def _pair(before_s: float, after_s: float | None) -> str:
    if after_s is None:
        return f"{before_s:.1f} / -"
    text = f"{before_s:.1f} / {after_s:.1f}"
    return text if model.holds(before_s, after_s) else f"**{text}**"


def broker_restart() -> Iterator[str]:
    """What the ISRs of a broker that restarts do: a burst when it goes, and one when it is back."""
    yield (
        "The ISR of each of its partitions shrinks when a broker goes, and grows when it is back: "
        "all at once, and 15 s later all at once, one request each. "
        "`kraft-bridge bench run broker-restart --repeat 1`. "
    )
    file, found = rows("broker-restart-*.jsonl")
    yield (
        f"{source(file, found)}; ours / Kafka's:\n\n"
        "| partitions | commit p50; the longest, ms | records behind, at most | "
        "some change waited for ZooKeeper, s | both bursts in ZooKeeper after, s | "
        "controller CPU, s | cores in use | what limited |\n|---:|---|---|---|---|---|---|---|\n"
    )
    for some in sorted(pairs(found).values(), key=lambda one: one[0][0]["topics_present"]):
        columns = (
            f"{beside(some, 'commit_p50_ms')}; {beside(some, 'commit_max_ms')}",
            beside(some, "lag_max_records"),
            beside(some, "blocked_union_ms", ".2f", 1e-3),
            beside(some, "zk_s", ".1f"),
            beside(some, "controller_cpu_s", ".1f"),
            busy(some),
            limited_by(some),
        )
        yield f"| {some[0][0]['topics_present']:,} | {' | '.join(columns)} |\n"


TABLES: Final[Tables] = {
    "rollback": rollback,
    "slow log": slow_log,
    "long stalls": long_stalls,
    "broker restart": broker_restart,
}
