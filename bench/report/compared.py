"""The report of two runs of the bench: what changed beyond noise, and by how much."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.report.blocks import Answer, Note, ReportSection, Strip, Strips, render, shown
from bench.report.findings import instant
from bench.report.strips import FactorAxis
from bench.runs.compare import CHANCE, FEWEST, Change
from bench.runs.row import BenchRow
from bench.runs.targets import RAW_TARGET
from emulator.config.words import several

_NAMED: Final = 3
"""Figures that a card names."""


_KEY: Final = Note(
    "Grey: up to so much the same code, run twice, differs. Dots outside of it changed: \u2717 red "
    "is worse, \u2713 green better, \u00b7 blue of Kafka's controller or of ZooKeeper alone, which "
    "are none of ours."
)
_PLAIN: Final = {
    "commit p50, ms": "median time to commit, ms",
    "commit p99, ms": "time to commit (p99), ms",
    "ZooKeeper transactions": "ZooKeeper transactions (fewer is better)",
}
"""Titles that a table has no room to explain."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two: the name of its folder, and its rows."""

    name: str
    rows: Sequence[BenchRow]

    @property
    def about(self) -> str:
        """When, of which code, and how quiet."""
        codes = ", ".join(sorted({row.code for row in self.rows}))
        began = min(row.started_wall_ns for row in self.rows)
        when = f", from {instant(began)} on" if began else ""
        quiet = sum(row.quiet for row in self.rows)
        return (
            f"{self.name}: {several(len(self.rows), 'row')} of commit {codes}{when}, {quiet} of "
            "them quiet"
        )


def compare_page(
    found: Sequence[Change],
    runs: tuple[ComparedRun, ComparedRun],
    left_out: Sequence[str],
    tolerance: float,
    relative: str | None = None,
) -> str:
    """Render the document.

    Args:
        found: all figures of both runs, at least one.
        runs: the older and the newer one, each with at least one row.
        left_out: what is not compared, in sentences.
        tolerance: of ``changes``.
        relative: of ``changes``; its values are no figures then, but quotients.
    """
    answers = compare_answers(found, runs, left_out)
    changed = [one for one in found if one.regressed or one.improved]
    changed.sort(key=lambda one: (not one.regressed, -abs(_size(one))))
    axis = FactorAxis(
        factor for one in found for factor in (one.worse, one.noise or 1.0) if factor < 100
    )
    unsure = sum(one.regressed is None for one in found)
    sections = [
        ReportSection(
            "What changed beyond noise",
            [
                *([Note(f"Values are divided by those of {relative}.")] if relative else ()),
                *([_strips(changed, axis), _KEY] if changed else [Note("No figure did.")]),
            ],
        ),
        ReportSection("What is not known", list(map(Note, _unknown(unsure, left_out)))),
        *(
            ReportSection(
                f"All figures of {case}",
                [_strips([one for one in found if one.case == case], axis)],
                folded=True,
            )
            for case in dict.fromkeys(one.case for one in found)
        ),
        ReportSection(
            "How this was made", list(map(Note, _method(runs, tolerance, relative))), folded=True
        ),
    ]
    return render(
        "kraft-bridge: two runs beside each other",
        [],
        sections,
        " ".join(one.short for one in answers if one.short),
        about=" \u00b7 ".join(one.about for one in runs),
        answers=answers,
    )


def compare_answers(
    found: Sequence[Change], runs: tuple[ComparedRun, ComparedRun], left_out: Sequence[str]
) -> tuple[Answer, ...]:
    """What became worse, what better, how much is noise, and whether they can be compared."""
    told = [one for one in found if one.regressed is not None]
    ours = [one for one in found if _ours(one)]
    told_ours = [one for one in told if _ours(one)]
    return _worse(ours, told_ours), _better(told_ours), _noise(told), _fit(told, runs, left_out)


def _ours(one: Change) -> bool:
    """Kafka's controller and ZooKeeper alone are none: what changed there, the machine did."""
    return one.target != RAW_TARGET and not one.target.startswith("kafka")


def _worse(found: Sequence[Change], told: Sequence[Change]) -> Answer:
    question = "What became worse?"
    worse = [one for one in told if one.regressed]
    if not told:
        text = f"A run has fewer than {FEWEST} rows of each figure: chance alone may do as much."
        few = "Whether anything became worse cannot be said."
        return Answer(question, "Cannot be said", "open", text, few)
    sure = f"of two runs of the same code {CHANCE:.0%} are said to differ in any figure"
    unsure = len(found) - len(told)
    sure += f"; of {unsure} of {several(len(found), 'figure')} it cannot be said" if unsure else ""
    count = several(len(told), "figure")
    if not worse:
        state = "open" if unsure else "good"
        text = f"None of our {count} is worse by more than the tolerance and by more than noise."
        return Answer(question, "Nothing", state, text, "Nothing became worse beyond noise.", sure)
    text = _named(worse, "the worst")
    short = f"{len(worse)} of {count} became worse beyond noise."
    return Answer(question, f"{len(worse)} of {count}", "bad", text, short, sure)


def _better(told: Sequence[Change]) -> Answer:
    question = "What became better?"
    better = [one for one in told if one.improved]
    if not better:
        text = "No figure of ours is better by more than noise."
        return Answer(question, "Nothing", "plain", text, "")
    count = several(len(told), "figure")
    short = f"{len(better)} of {count} became better."
    text = _named(better, "most")
    return Answer(question, f"{len(better)} of {count}", "good", text, short)


def _figure(one: Change) -> str:
    return f"{one.case} {one.target}: {_PLAIN.get(one.measure.title, one.measure.title)}"


def _named(some: Sequence[Change], which: str) -> str:
    ordered = sorted(some, key=lambda one: -abs(_size(one)))[:_NAMED]
    texts = [f"{_figure(one)} {_values(one)}" for one in ordered]
    more = f"; and {len(some) - len(ordered)} more" if len(some) > len(ordered) else ""
    return f"{which.capitalize()}: {'; '.join(texts)}{more}."


def _size(one: Change) -> float:
    """Logarithm of its factor; what is infinite is as large as anything."""
    return math.log(one.worse) if 0 < one.worse < math.inf else math.inf


def _values(one: Change) -> str:
    after = "nothing" if one.after is None else shown(one.after)
    return f"{shown(one.before)} \u2192 {after}"


def _noise(told: Sequence[Change]) -> Answer:
    question = "How much of a difference is noise?"
    factors = sorted(one.noise for one in told if one.noise is not None)
    if not factors:
        text = f"It takes {FEWEST} rows of a figure in each run."
        return Answer(question, "Not known", "open", text, "")
    typical = factor_text(statistics.median(factors))
    text = (
        f"The same code, run twice, typically differs by up to {typical} (of "
        f"{several(len(factors), 'figure')} by {factor_text(factors[0])} to "
        f"{factor_text(factors[-1])})."
    )
    return Answer(question, typical, "full", text, "")


def factor_text(factor: float) -> str:
    """A factor as a person reads it.

    >>> factor_text(1.234), factor_text(12.3), factor_text(5e8)
    ('1.23x', '12.3x', 'any')
    """
    return f"{factor:.3g}x" if factor < 1e3 else "any"


def _fit(
    told: Sequence[Change], runs: tuple[ComparedRun, ComparedRun], left_out: Sequence[str]
) -> Answer:
    question = "Can they be compared?"
    one, other = ({row.code for row in run.rows} for run in runs)
    same = "It is the same code: what differs is noise. " if one == other else ""
    machines = {row.machine for run in runs for row in run.rows}
    busy = sum(not row.quiet for run in runs for row in run.rows)
    every = sum(len(run.rows) for run in runs)
    texts = []
    theirs = sum(not _ours(one) and (one.improved or bool(one.regressed)) for one in told)
    if theirs:
        figures = f"{several(theirs, 'figure')} of Kafka's controller or of ZooKeeper alone"
        # Only cases of the same load are compared.
        texts.append(f"{figures} changed too: the machine, or what else ran on it, differs")
    if len(machines) > 1:
        texts.append("they are of different machines")
    if busy:
        texts.append(f"in {busy} of {several(every, 'row')} other programs were busy, or not seen")
    if left_out:
        texts.append(f"{several(len(left_out), 'case')} left out, see below")
    text = f"{'; '.join(texts)}." if texts else "The same loads, on one quiet machine."
    word, state = ("With care", "full") if texts else ("Yes", "good")
    word = "Only in part" if theirs else word
    return Answer(question, word, state, f"{same}{text[:1].upper()}{text[1:]}", "")


def _unknown(unsure: int, left_out: Sequence[str]) -> Iterable[str]:
    if unsure:
        yield (
            f"Of {several(unsure, 'figure')} it cannot be said whether they changed: a run has "
            f"fewer than {FEWEST} rows of them."
        )
    for one in left_out:
        yield f"Not compared: {one}."
    if not unsure and not left_out:
        yield "Nothing: every figure of both runs was compared."


def _strips(found: Sequence[Change], axis: FactorAxis) -> Strips:
    return Strips(
        ["figure", "older \u2192 newer", "change", "noise up to"],
        "by what factor it is better, to the left, or worse, to the right; grey: noise",
        axis.ticks,
        [
            Strip(
                _figure(one),
                [
                    _values(one),
                    _change(one.worse),
                    "not known" if one.noise is None else factor_text(one.noise),
                ],
                [axis.at(one.worse)],
                None if one.noise is None else (axis.at(1 / one.noise), axis.at(one.noise)),
                _mark(one),
            )
            for one in found
        ],
    )


def _change(worse: float) -> str:
    """A factor with its side.

    >>> _change(1.5), _change(0.5), _change(1.0), _change(math.inf), _change(0.0)
    ('1.5x worse', '2x better', 'same', 'any worse', 'any better')
    """
    if worse == 1:
        return "same"
    side, size = ("worse", worse) if worse > 1 else ("better", 1 / worse if worse else math.inf)
    return f"{factor_text(size)} {side}"


def _mark(one: Change) -> str:
    if one.regressed is None:
        return "open"
    if not _ours(one):
        return "plain"
    return "bad" if one.regressed else "good" if one.improved else "plain"


def _method(
    runs: tuple[ComparedRun, ComparedRun], tolerance: float, relative: str | None
) -> Iterable[str]:
    if relative is not None:
        yield f"Each value is divided by that of {relative} in the same round."
    yield (
        f"Medians of all rows that are not void. A figure became worse if it is worse by more than "
        f"{tolerance:.0%}, by more than its floor, and by more than the greatest of all figures "
        f"is in {1 - CHANCE:.0%} of 999 deals of the same rounds to two runs. Better is the same "
        "of the other side, without the tolerance. Factors are of what a figure costs: 1.3x worse "
        "is 30 % more time, or a rate of 1 / 1.3."
    )
    for run in runs:
        yield f"{run.about}."
        for title, values in (
            ("Taken with", {row.command for row in run.rows}),
            ("Versions", {row.versions for row in run.rows}),
            ("Machine", {row.machine for row in run.rows}),
        ):
            yield from (f"{title}: {value}" for value in sorted(values) if value)
