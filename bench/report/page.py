"""The report of single runs: one HTML document without address to fetch, its verdict first."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from bench.analysis.limits import PARTS, Key, table_of
from bench.analysis.quantiles import ACCURACY, EXACT_SAMPLES
from bench.report.beside import NOTHING, Beside, RunCheck
from bench.report.blocks import Block, Note, ReportSection, render_page, shown, table
from bench.report.findings import (
    UNEXPLAINED_LIMIT,
    Finding,
    Record,
    Tables,
    begins,
    blocked_for,
    due_and_done,
    findings,
    instant,
    is_controller,
    limit_text,
    limits_of,
    per_s,
    quantile_text,
)
from bench.report.picture import EVENTS, as_json, events_of, picture
from bench.report.slowest import slowest, untraced
from bench.report.verdict import Judged, Verdict, in_share, of_load, of_run, records
from emulator.config.words import duration, several
from emulator.trace.distribution import BEYOND

_PART_NAMES: Final = {
    "client": "client: until it was sent",
    "broker": "broker, and the way there and back",
    "queue": "queue of the controller",
    "blocked": "blocked by ZooKeeper",
    "commit": "commit in the log",
    "answer": "answer",
}
_REPAIR: Final = "Look at the figures above, and at the logs of the processes, before you go on."
_DAY_S: Final = 86_400
"""Of a longer run a time of day alone says nothing."""
_BEGIN: Final = 8.0
_WIDE: Final = 84.0
"""Percent of a picture's width where its axis begins, and how long it is."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A number that everybody asks for."""

    name: str
    value: str
    text: str


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a change's time; places in percent of the axis, None: not known."""

    name: str
    p50: str
    p99: str
    share: str
    from_place: float | None
    to_place: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """All that the document shows of one run."""

    verdict: Verdict
    about: str
    failed: Sequence[RunCheck]
    held: Sequence[RunCheck]
    thresholds: Sequence[Judged]
    figures: Sequence[KeyFigure]
    parts: Sequence[TimePart]
    far: str
    parts_note: str
    ticks: Sequence[tuple[float, str]]
    data: str
    events: Sequence[Mapping[str, str]]
    unknown: Sequence[str]
    method: Sequence[str]
    sections: Sequence[ReportSection]


def page(
    tables: Tables,
    where: str,
    verdicts: Sequence[Verdict],
    beside: Beside = NOTHING,
    thresholds: Sequence[Judged] = (),
) -> str:
    """Render the document.

    Args:
        tables: results of the job, as records.
        where: where the Parquet behind it lies, as the reader should know it.
        verdicts: of each run.
        beside: what was written beside the trace.
        thresholds: each of each run.
    """
    views = [_view(of_run(tables, one.run_id), one, beside, thresholds, where) for one in verdicts]
    names = ", ".join(one.run_id for one in verdicts) or "a run without a name"
    return render_page("run.html.j2", {"title": f"kraft-bridge: {names}", "runs": views})


def _view(
    tables: Tables, found: Verdict, beside: Beside, thresholds: Sequence[Judged], where: str
) -> RunView:
    drawn = picture(tables, beside)
    happened = len(events_of(tables, beside))
    untimely = [f"What the last {happened - EVENTS:,} of {happened:,} events were"]
    by_day = drawn["to"] - drawn["from"] > _DAY_S
    parts, note, ticks = _parts(tables)
    sections = {
        "How full each resource was": _limits(tables),
        "How long ZooKeeper blocked KRaft": _blocking(tables),
        "How far ZooKeeper was behind": _lag(tables),
        "Latency by request": _latency(tables),
        "What each kind of work cost": _cost(tables),
        "Lives of the processes": _lives(tables),
        "When the event loop stalled": _noise(tables),
    }
    listed = [ReportSection(title, list(blocks)) for title, blocks in sections.items()]
    return RunView(
        verdict=found,
        about=_about(tables, found),
        failed=[
            one if one.remedy else msgspec.structs.replace(one, remedy=_REPAIR)
            for one in beside.checks
            if not one.held
        ],
        held=[one for one in beside.checks if one.held],
        thresholds=[one for one in thresholds if one.run_id == found.run_id],
        figures=_figures(tables, found),
        parts=parts,
        far=_far_name(tables),
        parts_note=note,
        ticks=ticks,
        data=as_json(drawn),
        events=[
            {"number": str(one["n"]), "what": one["what"], "at": _clock(one["t"], by_day=by_day)}
            for one in drawn["events"]
        ],
        unknown=[*(untimely if happened > EVENTS else ()), *_unknown(tables)],
        method=list(_method(tables, where)),
        sections=[section for section in listed if section.blocks],
    )


def _about(tables: Tables, found: Verdict) -> str:
    runs = sorted(tables["runs"], key=lambda row: row["wall_ns"])
    if not runs:
        return found.run_id
    traced = [row for row in runs if is_controller(row["process"])]
    releases = ", ".join(sorted({f"Kafka {row['release']}" for row in traced}))
    hosts = len({row["host"] for row in runs})
    # A process that was started again has several lives.
    controllers = len({row["process"].partition(" life ")[0] for row in traced})
    texts = [
        found.run_id,
        instant(runs[0]["wall_ns"]),
        releases,
        f"{controllers} controllers traced" if controllers > 1 else "",
        f"{hosts} hosts" if hosts > 1 else "",
        _load_of_machine(tables).partition(":")[0],  # the rest is below, in how it was measured
    ]
    return " · ".join(text for text in texts if text)


def _load_of_machine(tables: Tables) -> str:
    """How busy the machine was, and how much of that the traced processes were."""
    rows = {row["resource"]: row for row in tables["utilisation"]}
    machine = rows.get(Key.MACHINE)
    own = [row for row in tables["utilisation"] if row["resource"] == Key.PROCESS]
    cores = max((row["limit"] or 0.0 for row in own), default=0.0)
    if machine is None:
        return ""
    text = f"machine {machine['value']:.0%} busy"
    if cores:
        mine = sum(row["value"] for row in own)
        other = max(0.0, machine["value"] * cores - mine)
        text += (
            f" of {cores:g} cores: traced processes {mine:.2f}, all else (ZooKeeper, brokers, "
            f"other programs) {other:.2f}"
        )
    return text


def _figures(tables: Tables, found: Verdict) -> list[KeyFigure]:
    get = found.measures
    due, done = due_and_done(tables)
    due_per_s = per_s(tables, "due_per_s")
    longest = [row for row in tables["percentiles"] if row["seen"] == "client"]
    most = max((row["ms"] for row in longest), default=None)
    p99 = get["p99_ms"]
    bound = get["lag_of_bound"]
    slow = slowest(tables)
    limit = next((one for _, one, _ in limits_of(tables)), None)
    blocked, _, lost = (
        "not known"
        if get["blocked_ms"] is None
        else blocked_for(tables, found.run_id, limit, get["blocked_ms"])
    ).partition("; ")
    return [
        KeyFigure("median of a change", _felt(get["p50_ms"]), "from when it was due"),
        KeyFigure(
            "p99 of a change" if p99 is not None else "longest change",
            _felt(p99 if p99 is not None else most),
            "from when it was due"
            if p99 is not None
            else f"it waited {slow.brief}"
            if slow is not None and slow.ms == most
            else "too few changes for a p99",
        ),
        KeyFigure(
            "changes a second",
            f"{per_s(tables, 'achieved_per_s'):.1f}" if due else "not known",
            (f"of {due_per_s:.1f} due" if due_per_s else "too few changes for a rate due")
            if due
            else "the trace holds no load",
        ),
        KeyFigure(
            "given up", f"{due - done:,}" if due else "not known", f"of {due:,} due" if due else ""
        ),
        KeyFigure(
            "greatest lag of ZooKeeper",
            "not known" if get["lag_records"] is None else f"{get['lag_records']:,.0f} records",
            ""
            if bound is None
            else f"{in_share(bound)} of the bound{records(tables)}; "
            f"{duration(get['lag_ms'] or 0.0)} at most",
        ),
        KeyFigure(
            "KRaft blocked by ZooKeeper",
            blocked,
            lost or ("" if get["blocked_share"] is None else of_load(tables, get)),
        ),
    ]


def _felt(value: float | None) -> str:
    if value is None:
        return "not known"
    return "given up" if value == math.inf else duration(value)


def _parts(tables: Tables) -> tuple[list[TimePart], str, list[tuple[float, str]]]:
    """Where a change's time went, on a logarithmic axis of whole powers of ten."""
    rows = {row["part"]: row for row in tables["change_time"]}
    values = [value for row in rows.values() for value in (row["p50_ms"], _far(row)) if value]
    if not rows or not values:
        return [], "", []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(*values, 1e-3)))
    high = max(high, low + 1)
    whole = sum(row["mean_ms"] for row in rows.values())

    def place(value: float | None) -> float | None:
        if not value:
            return None
        return _BEGIN + _WIDE * (math.log10(value) - low) / (high - low)

    parts = [
        TimePart(
            _PART_NAMES[part],
            quantile_text(rows[part]["p50_ms"]) if part in rows else "not known",
            duration(_far(rows[part])) if part in rows else "",
            f"{rows[part]['mean_ms'] / whole:.0%}" if part in rows and whole else "",
            place(rows[part]["p50_ms"]) if part in rows else None,
            place(_far(rows[part])) if part in rows else None,
        )
        for part in PARTS
    ]
    samples = max(row["samples"] for row in rows.values())
    far = _far_name(tables)
    _, done = due_and_done(tables)
    lacking = untraced(tables, done - samples)
    note = (
        f"Of {samples:,} of {several(max(done, samples), 'change')} that were carried out, "
        f"{duration(whole)} at their mean{lacking and f'. {lacking}'}. ● median, ◇ {far}"
        + ("" if far == "p99" else ", as too few lie beyond a p99")
    )
    slow = slowest(tables)
    if slow is not None and slow.changes:
        there = parts[PARTS.index(slow.part)]
        cause = f"; {several(slow.changes, 'change')} waited {slow.brief}"
        parts[PARTS.index(slow.part)] = replace(there, name=f"{there.name}{cause}")
    step = math.ceil((high - low) / 5)
    ticks = [(place(10.0**at) or 0.0, _tick(10.0**at)) for at in range(low, high + 1, step)]
    return parts, note, ticks


def _far(row: Record) -> float:
    """The p99, or the longest where there is none."""
    return float(row["max_ms"] if row["p99_ms"] is None else row["p99_ms"])


def _far_name(tables: Tables) -> str:
    few = any(row["p99_ms"] is None for row in tables["change_time"])
    return "longest" if few else "p99"


def _tick(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:g} s"
    return f"{ms:g} ms" if ms >= 0.1 else f"{ms * 1000:g} µs"


def _unknown(tables: Tables) -> list[str]:
    """What the figures leave out: gaps, drops, joins that failed, clocks, what is not measured."""
    texts = [f"{one.about}: {one.says}" for one in findings(tables) if _doubts(one)]
    _, done = due_and_done(tables)
    parts = max((row["samples"] for row in tables["change_time"]), default=0)
    if done > parts:
        texts.append(
            f"Where the time of {done - parts:,} of the {done:,} changes that were carried out "
            f"went. {untraced(tables, done - parts)}"
        )
    for _, limit, _ in limits_of(tables):
        texts += [f"How full {name} was" for name in limit.unknown]
    texts += [
        f"{row['api']}: of {row['requests']:,} requests {row['uncommitted']:,} have no commit in "
        "the trace"
        for row in tables["request_parts"]
        if row["uncommitted"]
    ]
    if not tables["missing"]:
        texts.append("No row of the trace is missing, as far as its files show")
    return texts


_DOUBTS: Final = ("gap in the trace", "clock", "starts of", "attribution", "lag gauges")


def _doubts(one: Finding) -> bool:
    return one.warning and one.about.startswith(_DOUBTS)


def _limits(tables: Tables) -> Iterable[Block]:
    for _, limit, figures in limits_of(tables):
        yield Note(f"{limit_text(limit)}.")
        yield from table(table_of(figures))


def _blocking(tables: Tables) -> Iterable[Block]:
    yield Note(
        "A measure of kraft-bridge: no release of Apache Kafka has it, and there it would be 0, "
        "for Kafka never holds a change back."
    )
    yield from table(tables["blocking"])
    if all(row["unexplained_share"] <= UNEXPLAINED_LIMIT for row in tables["blocking"]):
        rows = tables["blocking_by_cause"]
        yield from table([{**row, "cause": _words(row["cause"])} for row in rows])
    yield from table(tables["blocked_per_operation"])
    yield Note("Where the latency of requests that changed something went, summed by request:")
    yield from table(tables["request_parts"])


def _lag(tables: Tables) -> Iterable[Block]:
    yield from table(tables["lag_summary"])
    rows = sorted(tables["stage_latency"], key=lambda row: (row["process"], row["step"]))
    yield from table([{**row, "step": _words(row["step"].removesuffix("_ms"))} for row in rows])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _latency(tables: Tables) -> Iterable[Block]:
    yield from table(sorted(tables["latency"], key=lambda row: (row["seen"], row["api"])))


def _cost(tables: Tables) -> Iterable[Block]:
    for name in ("by_operation", "coalescing", "multi_latency", "by_api"):
        rows = tables[name]
        if name == "by_operation":
            rows = [{**row, "operation": _words(row["operation"])} for row in rows]
        yield from table(rows)


def _lives(tables: Tables) -> Iterable[Block]:
    yield Note(
        "On the wall clock (UTC). Processes of one host share the clock that their rows are "
        "stamped with; between hosts a time is as right as their wall clocks."
    )
    yield from table(
        [
            {
                "process": row["process"],
                "host": row["host"],
                "first row": instant(row["first_ns"]),
                "last row": instant(row["last_ns"]),
                "rows": row["rows"],
                "led epochs": row["led"],
            }
            for row in sorted(tables["lives"], key=lambda row: row["first_ns"] or 0)
        ]
    )
    yield from table(
        [
            {**{name: row[name] for name in row if name != "at_ns"}, "from": begins(tables, row)}
            for row in tables["missing"]
        ]
    )


def _noise(tables: Tables) -> Iterable[Block]:
    if not tables["stalls"]:
        yield Note("No stall of the event loop was seen; one under 150 ms may be missed.")
    yield from table(tables["stalls"])
    begin = min((row["second"] for row in tables["noisiest_seconds"]), default=0)
    yield from table(
        [
            {**row, "second": row["second"] - begin} | {"since the first, s": row["second"] - begin}
            for row in tables["noisiest_seconds"]
        ]
    )


def _method(tables: Tables, where: str) -> Iterable[str]:
    if load := _load_of_machine(tables):
        yield f"{load[:1].upper()}{load[1:]}, while the load ran."
    for run in sorted(tables["runs"], key=lambda run: run["process"]):
        yield (
            f"{run['process']}: started {instant(run['wall_ns'])} on {run['host']}, version "
            f"{run['product_version']}, as {run['release']}; {_parameters(run['parameters'])}"
        )
    yield (
        f"Quantiles are exact nearest ranks up to {EXACT_SAMPLES:,} samples; beyond, ranks are off "
        f"by at most 1/{ACCURACY:,} of the samples. One with fewer than {BEYOND} samples beyond it "
        "is left out. Times of clients count from when a change was due by an open-loop schedule. "
        "A multi's time is shared among its kinds of work by their number of operations. Pictures "
        "show the longest of what falls on one pixel."
    )
    yield f"Parquet behind every table: {where}"


def _clock(seconds: float, *, by_day: bool) -> str:
    return instant(seconds * 1e9)[5 if by_day else 11 : 19]


def _parameters(text: str) -> str:
    """A JSON object as words; any other text as it is."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    return ", ".join(f"{name}={shown(value)}" for name, value in found.items()) or "defaults"
