"""The printed and saved results: medians of each contender, ratios by round, every row."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.beside.contenders import Contender
from bench.beside.machine import description
from bench.beside.row import MEASURES, Ratio, Row, median, ratio
from bench.beside.stage import Plan


def table(rows: Sequence[Row], contenders: Sequence[Contender], plan: Plan) -> str:
    """Markdown: one line per measure, the first contender divided by each of the others."""
    first, *rest = contenders
    head = ["median of the rounds", *(one.name for one in contenders)]
    head += [f"{first.name} / {one.name}" for one in rest]
    lines = [head, ["---", *("---:" for _ in head[1:])]]
    for name, measure in MEASURES.items():
        line = [name]
        for one in contenders:
            value = median(rows, one.name, measure)
            line.append("void" if value is None else _number(value))
        line += [_ratio(ratio(rows, first.name, one.name, measure)) for one in rest]
        lines.append(line)
    printed = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    void = "".join(f"\nvoid: {reason}" for reason in sorted({row.void for row in rows} - {""}))
    return f"{_intro(rows, contenders, plan)}\n\n{printed}\n\n{_quiet(rows, contenders)}\n{void}"


def _intro(rows: Sequence[Row], contenders: Sequence[Contender], plan: Plan) -> str:
    asked = " + ".join(
        f"{burst.topics} topics x {burst.partitions} partitions" for burst in plan.bursts[:1]
    )
    if len(plan.bursts) > 1:
        asked = f"{len(plan.bursts)} times {asked}"
    others = [row.others_cores for row in rows]
    quiet = sum(row.quiet for row in rows)
    void = sum(1 for row in rows if row.void)
    named = "; ".join(f"{one.name} = {one.what}" for one in contenders)
    return (
        f"{asked}, {plan.bursts[0].clients} clients with one request outstanding; {named}.\n"
        f"{description()}, Python {platform.python_version()}; {len(rows)} rows, {void} void, "
        f"{quiet} quiet; others used {min(others):.2f} - {max(others):.2f} cores. "
        "Ratios are of the same round: median (lowest - highest), from six rounds on with the "
        "interval that holds the median in 95 of 100 cases."
    )


def _quiet(rows: Sequence[Row], contenders: Sequence[Contender]) -> str:
    """The first measure once more, from rounds in which both rows were quiet."""
    first, *rest = contenders
    name, measure = next(iter(MEASURES.items()))
    said = []
    for one in rest:
        found = ratio(rows, first.name, one.name, measure, quiet=True)
        rounds = 0 if found is None else found.rounds
        said.append(f"{first.name} / {one.name} {_ratio(found)} in {rounds}")
    return f"{name}, only rounds with both rows quiet: {'; '.join(said) or '-'}."


def _ratio(found: Ratio | None) -> str:
    if found is None:
        return "none"
    shown = f"{_number(found.median)} ({_number(found.lowest)} - {_number(found.highest)})"
    if found.interval is None:
        return shown
    low, high = found.interval
    return f"{shown}, median within {_number(low)} - {_number(high)}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def save(path: Path, rows: Sequence[Row], text: str) -> None:
    """Write ``path``.json with every row and each latency, and ``path``.md with the table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [
        dataclasses.asdict(row)
        | {name: measure(row) for name, measure in MEASURES.items()}
        | {"quiet": row.quiet}
        for row in rows
    ]
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1))
    path.with_suffix(".md").write_text(text)
