"""Reduce a failing run: fewer faults, fewer requests of clients, the same invariant broken.

Faults and requests draw from random streams of their own, so leaving one out leaves the others as
they are. Chunks are tried from large to small (Zeller, Hildebrandt: Simplifying and Isolating
Failure-Inducing Input, IEEE TSE 28(2), 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from emulator.simulation.run import Report, simulate
from emulator.simulation.scenarios.scenario import Scenario

RUNS_MAX: Final = 400
"""What a shrinking may cost."""
LINES_MAX: Final = 60
ROUTINE: Final = "snapshot written"
"""The text of lines that occur in every run and explain nothing."""


def shrink(failed: Report, runs_max: int = RUNS_MAX) -> Report:
    """The smallest run found that breaks the same promise.

    Args:
        failed: a run that broke one.
        runs_max: how many runs to try.
    """
    budget = iter(range(runs_max))
    best = failed

    def fails(scenario: Scenario) -> bool:
        nonlocal best
        if next(budget, None) is None:
            return False
        report = simulate(failed.seed, scenario, kind=failed.kind)
        if report.invariant != failed.invariant:
            return False
        best = report
        return True

    scenario = failed.scenario
    _fewest(scenario.faults, lambda kept: fails(replace(best.scenario, faults=tuple(kept))))
    operations = best.operations
    _fewest(
        operations,
        lambda kept: fails(replace(best.scenario, skip=frozenset(operations) - set(kept))),
    )
    return best


def _fewest(items: Sequence[str], still_fails: Callable[[Sequence[str]], bool]) -> None:
    """Leave out chunk after chunk, each half as big as the one before."""
    kept = list(items)
    size = len(kept)
    while size:
        for chunk in _chunks(list(kept), size):
            without = [one for one in kept if one not in chunk]
            if len(without) < len(kept) and still_fails(without):
                kept = without
        size //= 2


def _chunks(items: Sequence[str], size: int) -> Iterator[frozenset[str]]:
    for at in range(0, len(items), size):
        yield frozenset(items[at : at + size])


def as_test(report: Report) -> str:
    """A run as lines to be kept as a test, with its story."""
    lines = [line for line in report.lines if ROUTINE not in line]
    story = "\n".join(f"    {line}" for line in lines[-LINES_MAX:])
    drawn = "" if report.kind == "quick" else f", kind={report.kind!r}"
    changed = f"faults={report.scenario.faults!r}, skip=frozenset({sorted(report.scenario.skip)!r})"
    return (
        f'def test_...(simulate):\n    """{report.failure}\n\n{story}\n    """\n'
        f"    scenario = replace(KINDS[{report.kind!r}]({report.seed}), {changed})\n"
        f"    report = simulate({report.seed}, scenario{drawn})\n"
        "    assert not report.failure, str(report)\n"
    )
