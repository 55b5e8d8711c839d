"""The table release x step, and whether a red cell is a fault of ours or of Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from bench.matrix.known import not_known
from bench.matrix.run import GREEN, NOT_APPLICABLE, NOT_RUN, PROVES, RED, STEPS, Cell
from bench.matrix.stage import WrongError
from bench.record import Proof

OURS, KAFKA = "ours", "kafka"
FAULT, KAFKAS, MISSING = "RED", "Kafka's", "missing"
_GOOD: Final = {GREEN, NOT_APPLICABLE, KAFKAS}


def verdict(cell: Cell, beside: Cell | None) -> str:
    """What stands in the table for our cell, seen Kafka's own controller on the same step.

    >>> mine = Cell("3.4.1", "copy", OURS, RED, "WrongError: topic t1 differs")
    >>> verdict(mine, Cell("3.4.1", "copy", KAFKA, RED, "WrongError: topic t2 differs"))
    "Kafka's"
    >>> verdict(mine, Cell("3.4.1", "copy", KAFKA, RED, "WrongError: no topic on broker 1"))
    'RED'
    >>> verdict(mine, None)
    'RED'

    A step is not applicable only where `known.NOT_APPLICABLE` says so of that release:

    >>> verdict(Cell("3.9.2", "tokens", OURS, NOT_APPLICABLE, "no tokens today"), None)
    'RED'
    """
    if cell.state == NOT_APPLICABLE:
        return NOT_APPLICABLE if cell.why == not_known(cell.release, cell.step) else FAULT
    if cell.state in {GREEN, NOT_RUN}:
        return cell.state
    both_red = beside is not None and cell.state == beside.state == RED
    return KAFKAS if both_red and _cause(cell) == _cause(beside) != "" else FAULT


def _cause(cell: Cell | None) -> str:
    """What was wrong, without numbers; "" for what went wrong in asking."""
    if cell is None or not cell.why.startswith(f"{WrongError.__name__}: "):
        return ""
    return re.sub(r"\d+", "N", cell.why)


def ours_is_good(cells: Sequence[Cell], expected: Iterable[tuple[str, str]] = ()) -> bool:
    """Whether each cell is green, not applicable or Kafka's fault; a step not run is neither.

    Args:
        cells: of both controllers.
        expected: release and step of each cell that there has to be.
    """
    return all(word in _GOOD for word in _words(cells, expected).values())


def proofs(cells: Sequence[Cell]) -> list[Proof]:
    """What our cells prove: none where the step does not apply or Kafka's own is red as well.

    >>> mine = Cell("3.4.1", "copy", OURS, GREEN)
    >>> [(one.test, one.ids, one.outcome) for one in proofs([mine])]
    [('3.4.1: copy', ('G05', 'U15', 'X03'), 'passed')]
    """
    outcomes = {GREEN: "passed", FAULT: "failed", NOT_RUN: "failed"}
    return [
        Proof(f"{release}: {step}", PROVES[step], "real broker", outcomes[word])
        for (release, step), word in _words(cells).items()
        if step in PROVES and word in outcomes
    ]


def _words(
    cells: Sequence[Cell], expected: Iterable[tuple[str, str]] = ()
) -> dict[tuple[str, str], str]:
    by_place = {(cell.controller, cell.release, cell.step): cell for cell in cells}
    found = dict.fromkeys(expected, MISSING)
    for (controller, release, step), cell in by_place.items():
        if controller == OURS:
            found[release, step] = verdict(cell, by_place.get((KAFKA, release, step)))
    return found


def markdown(cells: Sequence[Cell], expected: Iterable[tuple[str, str]] = ()) -> str:
    """The table with its notes; cells of Kafka's own controller are shown beside ours."""
    words = _words(cells, expected)
    theirs = {(c.release, c.step): c.state for c in cells if c.controller == KAFKA}
    releases = list(dict.fromkeys(release for release, _ in words))
    steps = [step for step in STEPS if any(one == step for _, one in words)]
    rows = [f"| step | {' | '.join(releases)} |", "|---" * (len(releases) + 1) + "|"]
    for step in steps:
        shown = []
        for release in releases:
            word = words.get((release, step), "")
            beside = theirs.get((release, step))
            shown.append(f"{word} (Kafka: {beside})" if beside else word)
        rows.append(f"| {step} | {' | '.join(shown)} |")
    notes = _notes(cells)
    return "\n".join([*rows, *([""] if notes else []), *notes])


def _notes(cells: Sequence[Cell]) -> list[str]:
    """A line for each cell that is not green; those not run for one reason share one."""
    together: dict[tuple[str, str, str], list[str]] = {}
    notes = []
    for cell in cells:
        if cell.state == NOT_RUN:
            together.setdefault((cell.release, cell.controller, cell.why), []).append(cell.step)
        elif cell.why:
            behind = f"; left behind: {cell.left}" if cell.left else ""
            unlisted = cell.state == NOT_APPLICABLE and not not_known(cell.release, cell.step)
            prefix = "n/a, which no table says of this release: " if unlisted else ""
            place = f"{cell.release} {cell.step}, {cell.controller}"
            notes.append(f"- {place}: {prefix}{cell.why}{behind}")
    for (release, controller, why), steps in together.items():
        notes.append(f"- {release}, {controller}: {why}: {', '.join(steps)}")
    return notes
