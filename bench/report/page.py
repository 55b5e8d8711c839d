"""The report of a single run: the sections of one HTML document without address to fetch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from bench.analysis.limits import PARTS, table_of
from bench.analysis.quantiles import ACCURACY, EXACT_SAMPLES
from bench.report import charts
from bench.report.blocks import Block, Chart, Note, ReportSection, render, table
from bench.report.findings import UNEXPLAINED_LIMIT, Record, Tables, findings, limits_of
from emulator.trace.distribution import BEYOND

_QUANTILES: Final = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")


def page(tables: Tables, where: str, also: Sequence[ReportSection] = ()) -> str:
    """Render the document.

    Args:
        tables: results of the job, as records.
        where: where the Parquet behind it lies, as the reader should know it.
        also: sections by the program that made the trace, shown first.
    """
    runs = sorted({row["run_id"] for row in tables["runs"]})
    sections = {
        "How long ZooKeeper blocked KRaft": _blocking(tables),
        "How far ZooKeeper was behind": _lag(tables),
        "Latency": _latency(tables),
        "What each kind of work cost": _cost(tables),
        "Lives and gaps": _lives(tables),
        "Stretches not to be believed": _noise(tables),
        "How this was made": _method(tables, where),
    }
    return render(
        f"kraft-bridge: {', '.join(runs) or 'a run without a name'}",
        findings(tables),
        [
            *_limit(tables),
            *also,
            *(ReportSection(title, list(blocks)) for title, blocks in sections.items()),
        ],
    )


def _limit(tables: Tables) -> Iterable[ReportSection]:
    for run_id, limit, figures in limits_of(tables):
        blocks: list[Block] = [Note(f"{limit.text}."), *table(table_of(figures))]
        parts = [row for row in tables["change_time"] if row["run_id"] == run_id]
        if parts:
            order = {part: place for place, part in enumerate(PARTS)}
            blocks.append(
                Note(
                    "Where the time of a change went, from when it was due: client (until its last "
                    "attempt was sent), broker (and the way there and back), queue (in the "
                    "controller, until appended), blocked (by ZooKeeper, of that), commit, answer. "
                    "Of changes that were carried out, and that the trace has of both sides."
                )
            )
            blocks += table(sorted(parts, key=lambda row: order[row["part"]]))
        yield ReportSection("What limited this run", blocks)


def _blocking(tables: Tables) -> Iterable[Block]:
    yield Note(
        "ZkWriteBlockingKRaftMillis is our own measure: no release of Apache Kafka has it, and "
        "there it would be 0, for Kafka never holds a write back. union_ms is the time in which "
        "at least one operation waited, total_ms the sum over operations."
    )
    yield from table(tables["blocking"])
    if all(row["unexplained_share"] <= UNEXPLAINED_LIMIT for row in tables["blocking"]):
        yield from table(tables["blocking_by_cause"])
    yield from table(tables["blocked_per_operation"])
    if tables["blocked_chart"]:
        yield Chart(
            charts.lines(
                "Share of each second in which an operation waited for ZooKeeper",
                "second",
                "share",
                _by_process(tables["blocked_chart"], "second", "blocked_share", "slice"),
            )
        )
    yield Note("Where the latency of requests that changed something went, summed by API:")
    yield from table(tables["request_parts"])


def _lag(tables: Tables) -> Iterable[Block]:
    yield from table(tables["lag_summary"])
    for column, unit in (("lag_records", "records"), ("lag_ms", "ms")):
        if tables["lag_chart"]:
            yield Chart(
                charts.lines(
                    f"Write-behind lag in {unit} (greatest in each slice)",
                    "seconds since the first acknowledgement of the run",
                    unit,
                    _by_process(tables["lag_chart"], "seconds", column),
                )
            )
    steps = [
        (f"{row['process']}: {row['step'].removesuffix('_ms')}", row["mean_ms"])
        for row in sorted(tables["stage_latency"], key=lambda row: (row["process"], row["step"]))
    ]
    if steps:
        yield Chart(charts.bars("Mean time of each step of a batch", "ms", steps))
    yield from table(tables["stage_latency"])


def _latency(tables: Tables) -> Iterable[Block]:
    rows = sorted(tables["latency"], key=lambda row: (row["seen"], row["api"]))
    clients = {row["api"]: row for row in rows if row["seen"] == "client response"}
    shown = clients or {row["api"]: row for row in rows if row["seen"] == "server"}
    title = "observed by clients, from the intended instant" if clients else "inside the controller"
    if shown:
        yield Chart(charts.quantile_lines(f"Latency by API, {title}", shown, _QUANTILES))
    yield from table(rows)
    if tables["rate_chart"]:
        start = min(row["second"] for row in tables["rate_chart"])
        ordered = sorted(tables["rate_chart"], key=lambda row: row["second"])
        seconds = [row["second"] - start for row in ordered]
        yield Chart(
            charts.lines(
                "Open-loop load",
                "second",
                "requests/s",
                {
                    name: (seconds, [row[name] for row in ordered])
                    for name in ("intended", "achieved")
                },
            )
        )


def _cost(tables: Tables) -> Iterable[Block]:
    spent: dict[str, float] = defaultdict(float)
    for row in tables["by_operation"]:
        spent[row["operation"]] += row["zk_ms"]
    if spent:
        ordered = sorted(spent.items(), key=lambda part: -part[1])
        yield Chart(charts.bars("Time in ZooKeeper by kind of work", "ms", ordered))
    for name in ("by_operation", "coalescing", "multi_latency", "by_api"):
        yield from table(tables[name])


def _lives(tables: Tables) -> Iterable[Block]:
    yield Note(
        "Each life of each process, on the wall clock (UTC). Processes of one host share the clock "
        "that their rows are stamped with; between hosts a time is as right as their wall clocks."
    )
    yield from table(
        [
            {
                "run_id": row["run_id"],
                "process": row["process"],
                "host": row["host"],
                "first row": _instant(row["first_ns"]),
                "last row": _instant(row["last_ns"]),
                "rows": row["rows"],
                "led epochs": row["led"],
            }
            for row in sorted(tables.get("lives", ()), key=_first)
        ]
    )
    yield from table(tables["missing"])


def _first(row: Record) -> tuple[str, int, str]:
    return row["run_id"], row["first_ns"] or 0, row["process"]


def _noise(tables: Tables) -> Iterable[Block]:
    if not tables["stalls"]:
        yield Note("No stall of the event loop was seen; one under 150 ms may be missed.")
    yield from table(tables["stalls"])
    yield from table(tables["noisiest_seconds"])


def _method(tables: Tables, where: str) -> Iterable[Block]:
    yield Note(
        f"Quantiles are exact nearest ranks up to {EXACT_SAMPLES:,} samples; beyond, ranks are off "
        f"by at most 1/{ACCURACY:,} of the samples. One with fewer than {BEYOND} samples "
        "beyond it is left out. Client response times count from the intended instant of an "
        "open-loop schedule. "
        "A multi's time is shared among its kinds of work by their number of operations."
    )
    for run in sorted(tables["runs"], key=lambda run: (run["run_id"], run["process"])):
        yield Note(
            f"{run['process']}: started {_instant(run['wall_ns'])} on {run['host']}, version "
            f"{run['product_version']}, as {run['release']}; {_parameters(run['parameters'])}"
        )
    yield Note(f"Parquet behind every table: {where}")


def _instant(wall_ns: int | None) -> str:
    if wall_ns is None:
        return "not known"
    try:
        return datetime.fromtimestamp(wall_ns / 1e9, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"at {wall_ns} ns since 1970"


def _parameters(text: str) -> str:
    """A JSON object as words; any other text as it is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    return ", ".join(f"{name}={value}" for name, value in found.items()) or "defaults"


def _by_process(
    rows: Sequence[Record], x: str, y: str, width: str | None = None
) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
    """A line a process; with ``width``, the column of a row's length, it is 0 where no row is."""
    series: dict[str, tuple[list[float], list[float]]] = {}
    ends: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row[x]):
        xs, ys = series.setdefault(row["process"], ([], []))
        end = ends.get(row["process"])
        if width is not None and (end is None or end < row[x]):
            xs.append(row[x] if end is None else end)
            ys.append(0.0)
        xs.append(row[x])
        ys.append(row[y])
        if width is not None:
            ends[row["process"]] = row[x] + row[width]
    for process, end in ends.items():
        series[process][0].append(end)
        series[process][1].append(0.0)
    return series
