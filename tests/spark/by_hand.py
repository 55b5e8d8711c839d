"""The numbers of a report again, in plain Python over the Parquet files of the trace.

pyarrow reads the files; nothing of the analysis is used.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow.parquet as pq

from emulator.trace import rows
from tests.spark import reference
from tests.spark.reference import MS

Cells: TypeAlias = dict[str, Any]
K = TypeVar("K")


class TraceByHand:
    """One run of one controller and its client."""

    def __init__(self, folder: Path) -> None:
        self.tables: dict[str, list[Any]] = {}
        for name, kind in rows.TABLES.items():
            files = sorted((folder / name).rglob("*.parquet"))
            cells = [row for file in files for row in pq.read_table(file).to_pylist()]
            fields = kind.__struct_fields__
            self.tables[name] = [kind(**{key: row[key] for key in fields}) for row in cells]

    def numbers(self) -> dict[str, list[Cells]]:
        """Result table -> its rows; only columns that are computed here."""
        return {
            "latency": self._latency(),
            "rate_summary": self._rates(),
            "lag_summary": self._lag(),
            "gauge_agreement": self._gauges(),
            "stage_latency": self._stages(),
            "blocking": self._blocking(),
            "blocking_by_cause": self._causes(),
            "blocked_per_operation": self._waits(),
            "blocked_per_second": self._blocked_seconds(),
            "request_parts": self._parts(),
            "rate_per_second": self._rate_seconds(),
            "noisiest_seconds": self._noisy(),
            "by_api": self._by_api(),
            "by_operation": self._operations(),
            "multi_latency": self._multis(),
            "coalescing": self._coalescing(),
            "stalls": self._stalls(),
        }

    def _latency(self) -> list[Cells]:
        waits: dict[tuple[str, str], list[float]] = defaultdict(list)
        given_up: dict[str, list[float]] = defaultdict(list)
        served: dict[tuple[str | None, int, str], list[rows.RequestRow]] = defaultdict(list)
        for row in self.tables["requests"]:
            api = row.inner_api or row.api
            if row.received_ns is not None:
                waits[api, "server"].append((row.answered_ns - row.received_ns) / MS)
                served[row.client_id, row.correlation_id, api].append(row)
        for row in self.tables["requests"]:
            if row.sent_ns is None or row.intended_ns is None:
                continue
            waited = (row.answered_ns - row.intended_ns) / MS
            waits[row.api, "client response"].append(math.inf if row.error_code else waited)
            waits[row.api, "client before the last send"].append(
                (row.sent_ns - row.intended_ns) / MS
            )
            if row.error_code:
                given_up[row.api].append(waited)
                continue
            service = (row.answered_ns - row.sent_ns) / MS
            waits[row.api, "client service"].append(service)
            if both := served.get((row.client_id, row.correlation_id, row.api)):
                last, first = (
                    max(x.answered_ns for x in both),
                    min(x.received_ns or 0 for x in both),
                )
                waits[row.api, "outside the controller"].append(service - (last - first) / MS)
        return [
            {
                "api": api,
                "seen": seen,
                "not_done": len(given_up[api]) if seen == "client response" else 0,
                **_quantiles(values),
            }
            for (api, seen), values in waits.items()
        ]

    def _rates(self) -> list[Cells]:
        due = [row for row in self.tables["requests"] if row.intended_ns is not None]
        first, last = (end(row.intended_ns or 0 for row in due) for end in (min, max))
        good = [row.answered_ns for row in due if row.error_code == 0]
        gap = (last - first) / (len(due) - 1)
        settled = reference.quantile(good, 0.99)
        return [
            {
                "intended": len(due),
                "achieved": len(good),
                "due_per_s": 10**9 / gap,
                "achieved_per_s": len(good) * 10**9 / (max(last + gap, settled) - first),
                "last_due_ns": last,
            }
        ]

    def _lags(self) -> list[tuple[int, int, int, float]]:
        ranges = self.tables["ranges"]
        moves = {row.time_ns for row in ranges if row.stage in {"committed", "zk_acked"}}
        moves |= {row.time_ns - 1 for row in ranges if row.stage == "zk_acked"}
        found = [(at, reference.lag(ranges, at)) for at in sorted(moves)]
        return [(at, *lag) for at, lag in found if lag is not None]

    def _lag(self) -> list[Cells]:
        lags = self._lags()
        most = max(records for _, records, _, _ in lags)
        spans = [
            (records, work, after - at)
            for (at, records, work, _), (after, *_rest) in itertools.pairwise(lags)
        ]
        whole = sum(lasted for _, _, lasted in spans)
        return [
            {
                "max_lag_records": most,
                "max_lag_ns": next(at for at, records, _, _ in lags if records == most),
                "max_lag_ms": max(age for _, _, _, age in lags),
                "mean_lag_records": sum(records * lasted for records, _, lasted in spans) / whole,
                "behind_share": sum(lasted for _, work, lasted in spans if work) / whole,
                "last_lag_records": lags[-1][2],
            }
        ]

    def _gauges(self) -> list[Cells]:
        names = {
            "kraft_bridge_zk_write_behind_lag_records": 0,
            "kraft_bridge_zk_write_behind_lag_without_no_ops_records": 1,
            "kraft_bridge_zk_write_behind_lag_ms": 2,
        }
        found: dict[str, list[float]] = defaultdict(list)
        for row in self.tables["gauges"]:
            lag = reference.lag(self.tables["ranges"], row.time_ns)
            if row.gauge in names and lag is not None:
                found[row.gauge].append(abs(row.value - lag[names[row.gauge]]))
        return [
            {
                "gauge": gauge,
                "readings": len(off),
                "agreeing": sum(one <= 1 for one in off),
                "greatest_difference": max(off),
            }
            for gauge, off in found.items()
        ]

    def _stages(self) -> list[Cells]:
        ranges = self.tables["ranges"]
        claimed = min(row.time_ns for row in ranges if row.stage == "zk_acked")
        steps = {
            "commit_ms": ("appended", "committed"),
            "plan_ms": ("committed", "planned"),
            "zk_queue_ms": ("planned", "zk_sent"),
            "zk_write_ms": ("zk_sent", "zk_acked"),
            "write_behind_ms": ("committed", "zk_acked"),
        }
        found: dict[str, list[float]] = defaultdict(list)
        for batch in (row for row in ranges if row.stage == "appended"):
            offset = batch.last_offset
            committed = reference.first_reached(ranges, "committed", offset)
            for step, (begin, end) in steps.items():
                start = reference.first_reached(ranges, begin, offset)
                start = batch.time_ns if begin == "appended" else start
                reached = reference.first_reached(ranges, end, offset)
                waits = step == "commit_ms" or (committed is not None and committed >= claimed)
                if start is not None and reached is not None and waits:
                    found[step].append((reached - start) / MS)
        return [{"step": step, **_quantiles(values)} for step, values in found.items()]

    def _blocking(self) -> list[Cells]:
        blocks = self.tables["blocks"]
        return [
            {
                "blocked_operations": len(blocks),
                "timed_out_operations": sum(row.end == "timed_out" for row in blocks),
                "total_ms": sum(row.end_ns - row.begin_ns for row in blocks) / MS,
                "union_ms": sum(
                    end - begin for begin, end in _edges(blocks) if _held(blocks, begin)
                )
                / MS,
            }
        ]

    def _causes(self) -> list[Cells]:
        blocks, multis = self.tables["blocks"], self.tables["multis"]
        stamps = sorted(
            {at for row in blocks for at in (row.begin_ns, row.end_ns)}
            | {at for row in multis for at in (row.sent_ns, row.answered_ns)}
        )
        found: dict[tuple[str, str], float] = defaultdict(float)
        for begin, end in itertools.pairwise(stamps):
            here = _held(blocks, begin)
            busy = any(row.sent_ns <= begin < row.answered_ns for row in multis)
            for row in here:
                said = "multi in flight" if busy else "no multi in flight"
                found[row.cause, said] += (end - begin) / MS / len(here)
        return [
            {"cause": cause, "zookeeper": said, "union_ms": value}
            for (cause, said), value in found.items()
        ]

    def _waits(self) -> list[Cells]:
        waits = _grouped(self.tables["blocks"], lambda row: row.api)
        return [
            {"api": api, **_quantiles([(row.end_ns - row.begin_ns) / MS for row in some])}
            for api, some in waits.items()
        ]

    def _blocked_seconds(self) -> list[Cells]:
        blocks = self.tables["blocks"]
        found: dict[int, float] = defaultdict(float)
        for begin, end in _edges(blocks):
            if _held(blocks, begin):
                for second in range(begin // 10**9, (end - 1) // 10**9 + 1):
                    inside = min(end, (second + 1) * 10**9) - max(begin, second * 10**9)
                    found[second] += inside / 10**9
        return [{"second": at, "blocked_share": share} for at, share in found.items()]

    def _parts(self) -> list[Cells]:
        """Of each request that appended: waits in the queue, for ZooKeeper, and for its commit."""
        ranges, found = self.tables["ranges"], dict[str, Cells]()
        for row in self.tables["requests"]:
            if row.received_ns is None or row.last_offset is None:
                continue
            appended, committed = (
                reference.first_reached(ranges, stage, row.last_offset)
                for stage in ("appended", "committed")
            )
            sums = found.setdefault(
                row.inner_api or row.api, {"requests": 0, "out_of_order": 0, "uncommitted": 0}
            )
            sums["requests"] += 1
            if appended is None or committed is None:
                sums["uncommitted"] += 1
                continue
            held = sum(
                one.end_ns - one.begin_ns
                for one in self.tables["blocks"]
                if one.request_id == row.request_id
            )
            parts = {
                "latency_ms": row.answered_ns - row.received_ns,
                "queue_ms": appended - row.received_ns - held,
                "blocked_ms": held,
                "commit_ms": committed - appended,
                "answer_ms": row.answered_ns - committed,
            }
            sums["out_of_order"] += min(parts.values()) < -MS
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value / MS
        return [{"api": api, **sums} for api, sums in found.items()]

    def _rate_seconds(self) -> list[Cells]:
        due = [row for row in self.tables["requests"] if row.intended_ns is not None]
        intended = _grouped(due, lambda row: row.intended_ns // 10**9)
        good = [row for row in due if row.error_code == 0]
        achieved = _grouped(good, lambda row: row.answered_ns // 10**9)
        return [
            {"second": at, "intended": len(intended[at]), "achieved": len(achieved[at])}
            for at in sorted({*intended, *achieved})
        ]

    def _noisy(self) -> list[Cells]:
        found: dict[int, float] = defaultdict(float)
        for row in self.tables["stalls"]:
            length = (row.end_ns - row.begin_ns) / MS
            for second in range(row.begin_ns // 10**9, row.end_ns // 10**9 + 1):
                if length >= 50:
                    found[second] = max(found[second], length)
        return [{"second": at, "longest_ms": longest} for at, longest in found.items()]

    def _by_api(self) -> list[Cells]:
        found: dict[str, list[Any]] = defaultdict(list)
        for row in self.tables["requests"]:
            if row.received_ns is not None:
                found[row.inner_api or row.api].append(row)
        return [
            {
                "api": api,
                "requests": len(some),
                "forwarded": sum(row.inner_api is not None for row in some),
                "errors": sum(row.error_code != 0 for row in some),
                "records": sum(row.last_offset - row.first_offset + 1 for row in some),
            }
            for api, some in found.items()
        ]

    def _operations(self) -> list[Cells]:
        found: dict[str, Cells] = {}
        for row in self._acknowledged():
            each_ms = (row.answered_ns - row.sent_ns) / MS / sum(x["ops"] for x in row.operations)
            for part in row.operations:
                sums = found.setdefault(
                    part["operation"], {"multis": 0, "ops": 0, "bytes": 0, "zk_ms": 0.0}
                )
                sums["multis"] += 1
                sums["ops"] += part["ops"]
                sums["bytes"] += part["bytes"]
                sums["zk_ms"] += each_ms * part["ops"]
        return [{"operation": kind, **sums} for kind, sums in found.items()]

    def _multis(self) -> list[Cells]:
        waits = _grouped(self.tables["multis"], lambda row: row.result)
        return [
            {
                "result": result,
                **_quantiles([(row.answered_ns - row.sent_ns) / MS for row in some]),
            }
            for result, some in waits.items()
        ]

    def _coalescing(self) -> list[Cells]:
        some = self._acknowledged()
        records = sum(max(0, row.last_offset - row.first_offset + 1) for row in some)
        return [
            {
                "multis": len(some),
                "records": records,
                "ops": sum(row.ops for row in some),
                "bytes": sum(row.bytes for row in some),
                "records_per_multi": records / len(some),
            }
        ]

    def _acknowledged(self) -> list[Any]:
        return [row for row in self.tables["multis"] if row.result == "ok"]

    def _stalls(self) -> list[Cells]:
        lengths = [(row.end_ns - row.begin_ns) / MS for row in self.tables["stalls"]]
        return [
            {
                "stalls": len(lengths),
                "stalled_ms": sum(lengths),
                "longest_ms": max(lengths),
                "noisy_stalls": sum(one >= 50 for one in lengths),
            }
        ]


def _quantiles(values: Sequence[float]) -> Cells:
    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    known = [value for value in values if value < math.inf]
    found = {name: reference.quantile(values, share) for name, share in shares.items()}
    places = {name: math.ceil(share * len(values)) for name, share in shares.items()}
    return {
        "samples": len(values),
        "mean_ms": sum(known) / len(known),
        # With fewer than ten values beyond it a quantile is left out.
        **{n: at if len(values) - places[n] >= 10 else None for n, at in found.items()},
        "max_ms": max(values),
    }


def _grouped(some: Sequence[Any], by: Callable[[Any], K]) -> dict[K, list[Any]]:
    found: dict[K, list[Any]] = defaultdict(list)
    for row in some:
        found[by(row)].append(row)
    return found


def _edges(blocks: Sequence[Any]) -> list[tuple[int, int]]:
    stamps = sorted({at for row in blocks for at in (row.begin_ns, row.end_ns)})
    return list(itertools.pairwise(stamps))


def _held(blocks: Sequence[Any], at: int) -> list[Any]:
    return [row for row in blocks if row.begin_ns <= at < row.end_ns]
