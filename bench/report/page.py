"""The report as one HTML document: inline SVG, inline style, no script, no address to fetch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from bench.analysis.quantiles import ACCURACY, EXACT_SAMPLES, SAMPLES_FOR_P999
from bench.report import charts
from bench.report.findings import UNEXPLAINED_LIMIT, Record, Tables, findings

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ccc}
table{border-collapse:collapse;font-size:13px;margin:.8em 0;display:block;overflow-x:auto}
td,th{padding:.15em .7em;border-bottom:1px solid #e5e5e5;text-align:right;white-space:nowrap}
td:first-child,th:first-child,td.word,th.word{text-align:left}
.warning{background:#fdf0d5}svg{max-width:100%;height:auto}p.note{color:#555;font-size:13px}
"""
_QUANTILES: Final = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
_HIDDEN: Final = {"run_id", "accuracy"}


def page(tables: Tables, where: str) -> str:
    """Render the document.

    Args:
        tables: results of the job, as records.
        where: where the Parquet behind it lies, as the reader should know it.
    """
    body = "\n".join(
        [
            *_head(tables),
            *_blocking(tables),
            *_lag(tables),
            *_latency(tables),
            *_cost(tables),
            *_noise(tables),
            *_method(tables, where),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>kraft-bridge report</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _head(tables: Tables) -> Iterable[str]:
    runs = sorted({row["run_id"] for row in tables["runs"]})
    yield f"<h1>kraft-bridge: {escape(', '.join(runs)) or 'a run without a name'}</h1>"
    yield "<table>"
    for finding in findings(tables):
        mark = ' class="warning"' if finding.warning else ""
        yield f'<tr{mark}><td>{escape(finding.about)}</td><td class="word">'
        yield f"{escape(finding.says)}</td></tr>"
    yield "</table>"


def _blocking(tables: Tables) -> Iterable[str]:
    yield "<h2>How long ZooKeeper blocked KRaft</h2>"
    yield _note(
        "ZkWriteBlockingKRaftMillis is our own measure: no release of Apache Kafka has it, and "
        "there it would be 0, for Kafka never holds a write back. union_ms is the time in which "
        "at least one operation waited, total_ms the sum over operations."
    )
    yield _table(tables["blocking"])
    if all(row["unexplained_share"] <= UNEXPLAINED_LIMIT for row in tables["blocking"]):
        yield _table(tables["blocking_by_cause"])
    yield _table(tables["blocked_per_operation"])
    if tables["blocked_chart"]:
        yield charts.lines(
            "Share of each second in which an operation waited for ZooKeeper",
            "second",
            "share",
            _by_process(tables["blocked_chart"], "second", "blocked_share"),
        )
    yield _note("Where the latency of requests that changed something went, summed by API:")
    yield _table(tables["request_parts"])


def _lag(tables: Tables) -> Iterable[str]:
    yield "<h2>How far ZooKeeper was behind</h2>"
    yield _table(tables["lag_summary"])
    for column, unit in (("lag_records", "records"), ("lag_ms", "ms")):
        if tables["lag_chart"]:
            yield charts.lines(
                f"Write-behind lag in {unit} (greatest in each slice)",
                "seconds since the first acknowledgement",
                unit,
                _by_process(tables["lag_chart"], "seconds", column),
            )
    steps = [
        (f"{row['process']}: {row['step'].removesuffix('_ms')}", row["mean_ms"])
        for row in sorted(tables["stage_latency"], key=lambda row: (row["process"], row["step"]))
    ]
    if steps:
        yield charts.bars("Mean time of each step of a batch", "ms", steps)
    yield _table(tables["stage_latency"])


def _latency(tables: Tables) -> Iterable[str]:
    yield "<h2>Latency</h2>"
    rows = sorted(tables["latency"], key=lambda row: (row["seen"], row["api"]))
    felt = {row["api"]: row for row in rows if row["seen"] == "client response"}
    shown = felt or {row["api"]: row for row in rows if row["seen"] == "server"}
    title = "as clients felt it, from the intended instant" if felt else "inside the controller"
    if shown:
        yield charts.quantile_lines(f"Latency by API, {title}", shown, _QUANTILES)
    yield _table(rows)
    if tables["rate_chart"]:
        start = min(row["second"] for row in tables["rate_chart"])
        ordered = sorted(tables["rate_chart"], key=lambda row: row["second"])
        seconds = [row["second"] - start for row in ordered]
        yield charts.lines(
            "Open-loop load",
            "second",
            "requests/s",
            {name: (seconds, [row[name] for row in ordered]) for name in ("intended", "achieved")},
        )


def _cost(tables: Tables) -> Iterable[str]:
    yield "<h2>What each kind of work cost</h2>"
    spent: dict[str, float] = defaultdict(float)
    for row in tables["by_operation"]:
        spent[row["operation"]] += row["zk_ms"]
    if spent:
        ordered = sorted(spent.items(), key=lambda part: -part[1])
        yield charts.bars("Time in ZooKeeper by kind of work", "ms", ordered)
    for name in ("by_operation", "coalescing", "multi_latency", "by_api"):
        yield _table(tables[name])


def _noise(tables: Tables) -> Iterable[str]:
    yield "<h2>Stretches not to be believed</h2>"
    if not tables["stalls"]:
        yield _note("The event loop never stood still.")
    yield _table(tables["stalls"])
    yield _table(tables["noisiest_seconds"])


def _method(tables: Tables, where: str) -> Iterable[str]:
    yield "<h2>How this was made</h2>"
    yield _note(
        f"Quantiles are exact nearest ranks up to {EXACT_SAMPLES:,} samples; beyond, ranks are off "
        f"by at most 1/{ACCURACY:,} of the samples. p99.9 is left out under {SAMPLES_FOR_P999:,} "
        "samples. Client response times count from the intended instant of an open-loop schedule. "
        "A multi's time is shared among its kinds of work by their number of operations."
    )
    for run in sorted(tables["runs"], key=lambda run: (run["run_id"], run["process"])):
        started = datetime.fromtimestamp(run["wall_ns"] / 1e9, UTC).isoformat(timespec="seconds")
        parameters = ", ".join(f"{k}={v}" for k, v in json.loads(run["parameters"]).items())
        yield _note(
            f"{run['process']}: started {started} on {run['host']}, version "
            f"{run['product_version']}, as {run['release']}; {parameters or 'defaults'}"
        )
    yield _note(f"Parquet behind every table: {where}")


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(rows: Sequence[Record]) -> str:
    if not rows:
        return ""
    columns = [name for name in rows[0] if name not in _HIDDEN]
    words = {name for name in columns if isinstance(rows[0][name], str)}
    head = "".join(_cell("th", name, name in words) for name in columns)
    lines = (
        "<tr>" + "".join(_cell("td", _text(row[c]), c in words) for c in columns) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _cell(tag: str, text: str, word: bool) -> str:
    mark = ' class="word"' if word else ""
    return f"<{tag}{mark}>{escape(text)}</{tag}>"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _by_process(
    rows: Sequence[Record], x: str, y: str
) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
    series: dict[str, tuple[list[float], list[float]]] = {}
    for row in sorted(rows, key=lambda row: row[x]):
        xs, ys = series.setdefault(row["process"], ([], []))
        xs.append(row[x])
        ys.append(row[y])
    return series
