"""The table release x step, and whether a red cell is a fault of ours or of Kafka."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.matrix.run import GREEN, NOT_APPLICABLE, PROVES, RED, STEPS, Cell
from bench.matrix.stage import WrongError
from bench.record import Proof

OURS, KAFKA = "ours", "kafka"


def verdict(cell: Cell, beside: Cell | None) -> str:
    """What stands in the table for our cell, seen Kafka's own controller on the same step.

    >>> mine = Cell("3.4.1", "copy", OURS, RED, "WrongError: topic t1 differs")
    >>> verdict(mine, Cell("3.4.1", "copy", KAFKA, RED, "WrongError: topic t2 differs"))
    "Kafka's"
    >>> verdict(mine, Cell("3.4.1", "copy", KAFKA, RED, "WrongError: no topic on broker 1"))
    'RED'
    >>> verdict(mine, None)
    'RED'
    """
    if cell.state in {NOT_APPLICABLE, GREEN}:
        return cell.state
    both_red = beside is not None and cell.state == beside.state == RED
    return "Kafka's" if both_red and _cause(cell) == _cause(beside) != "" else "RED"


def _cause(cell: Cell | None) -> str:
    """What was wrong, without numbers; "" for what went wrong in asking."""
    if cell is None or not cell.why.startswith(f"{WrongError.__name__}: "):
        return ""
    return re.sub(r"\d+", "N", cell.why)


def ours_is_good(cells: Sequence[Cell]) -> bool:
    """Whether no cell is our fault."""
    return all(word != "RED" for word in _words(cells).values())


def proofs(cells: Sequence[Cell]) -> list[Proof]:
    """What our cells prove: none where the step does not apply or Kafka's own is red as well.

    >>> mine = Cell("3.4.1", "copy", OURS, GREEN)
    >>> [(one.test, one.ids, one.outcome) for one in proofs([mine])]
    [('3.4.1: copy', ('G05', 'U15', 'X03'), 'passed')]
    """
    outcomes = {GREEN: "passed", "RED": "failed"}
    return [
        Proof(f"{release}: {step}", PROVES[step], "real broker", outcomes[word])
        for (release, step), word in _words(cells).items()
        if step in PROVES and word in outcomes
    ]


def _words(cells: Sequence[Cell]) -> dict[tuple[str, str], str]:
    by_place = {(cell.controller, cell.release, cell.step): cell for cell in cells}
    return {
        (release, step): verdict(cell, by_place.get((KAFKA, release, step)))
        for (controller, release, step), cell in by_place.items()
        if controller == OURS
    }


def markdown(cells: Sequence[Cell]) -> str:
    """The table with its notes; Kafka's own controller stands beside where it was asked."""
    words = _words(cells)
    theirs = {(c.release, c.step): c.state for c in cells if c.controller == KAFKA}
    releases = list(dict.fromkeys(cell.release for cell in cells))
    steps = [step for step in STEPS if any(cell.step == step for cell in cells)]
    rows = [f"| step | {' | '.join(releases)} |", "|---" * (len(releases) + 1) + "|"]
    for step in steps:
        shown = []
        for release in releases:
            word = words.get((release, step), "")
            beside = theirs.get((release, step))
            shown.append(f"{word} (Kafka: {beside})" if beside else word)
        rows.append(f"| {step} | {' | '.join(shown)} |")
    notes = [
        f"- {cell.release} {cell.step}, {cell.controller}: {cell.why}" for cell in cells if cell.why
    ]
    return "\n".join([*rows, *([""] if notes else []), *notes])
