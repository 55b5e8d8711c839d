"""The table of calls x columns, and which differences are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.matrix.clients.known import Known
from bench.matrix.readers.outcome import Outcome

REFERENCE: Final = "Kafka + Kafka"
"""The column that the others are compared with: Kafka's brokers, Kafka's controller."""
_SHOWN: Final = 60
_LINES: Final = 6
_BEFORE: Final = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One call in every column, in the order of the columns."""

    client: str
    call: str
    texts: Mapping[str, str]
    """Name of the column -> result or error of the call."""

    def differing(self) -> list[str]:
        """The columns whose answer is not that of Kafka's broker and controller."""
        return [name for name, text in self.texts.items() if text != self.texts[REFERENCE]]


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of the comparison of all rows.

    Args:
        rows: all of them.
        known: (row, column) -> why it may differ.
        wrong: a row and a column that differ for no known reason.
        stale: reasons that explain nothing any more.
    """

    rows: Sequence[Row]
    known: Mapping[tuple[str, str, str], Known]
    wrong: Sequence[tuple[Row, str]]
    stale: Sequence[Known]


def rows(columns: Mapping[str, Sequence[Outcome]]) -> list[Row]:
    """Put the columns side by side.

    Raises:
        ValueError: a client made other calls in one of them.
    """
    found = []
    for outcomes in zip(*columns.values(), strict=True):
        if len({(one.tool, one.what) for one in outcomes}) > 1:
            raise ValueError(f"not the same calls: {[one.what for one in outcomes]}")
        texts = dict(zip(columns, (one.text for one in outcomes), strict=True))
        found.append(Row(outcomes[0].tool, outcomes[0].what, texts))
    return found


def judge(found: Sequence[Row], reasons: Sequence[Known]) -> Judged:
    """Match differences with reasons; a reason for a call that was made must explain one.

    >>> row = Row("c", "x", {REFERENCE: "a", "ours + Kafka": "b", "Kafka + ours": "a"})
    >>> [(row.call, column) for row, column in judge([row], []).wrong]
    [('x', 'ours + Kafka')]
    >>> same = Known("c", "x", ("Kafka + ours",), "never", "")
    >>> [one.why for one in judge([row], [same]).stale]
    ['never']
    """
    known: dict[tuple[str, str, str], Known] = {}
    wrong = []
    for row in found:
        for column in row.differing():
            answer, theirs = row.texts[column], row.texts[REFERENCE]
            why = next((one for one in reasons if one.fits(row.client, row.call, column)), None)
            if why is None or not why.explains(theirs, answer):
                wrong.append((row, column))
            else:
                known[row.client, row.call, column] = why
    used = {id(one) for one in known.values()}
    asked = [
        one
        for one in reasons
        if any(one.fits(row.client, row.call, column) for row in found for column in row.texts)
    ]
    return Judged(found, known, wrong, [one for one in asked if id(one) not in used])


def markdown(judged: Judged) -> str:
    """Every call, with ``=`` where the answer is Kafka's."""
    names = list(judged.rows[0].texts) if judged.rows else []
    others = [name for name in names if name != REFERENCE]
    lines = [
        f"| client | call | {REFERENCE} | {' | '.join(others)} |",
        "|---" * (len(names) + 2) + "|",
    ]
    for row in judged.rows:
        cells = []
        for name in others:
            if row.texts[name] == row.texts[REFERENCE]:
                cells.append("=")
            else:
                why = judged.known.get((row.client, row.call, name))
                cells.append("DIFFERS" if why is None else why.short)
        first = row.texts[REFERENCE].replace("|", "/").splitlines()[:1] or [""]
        lines.append(f"| {row.client} | `{row.call}` | {first[0][:_SHOWN]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(judged: Judged) -> str:
    """For each client: calls, and answers that differ, in each column."""
    names = list(judged.rows[0].texts) if judged.rows else []
    others = [name for name in names if name != REFERENCE]
    calls = Counter(row.client for row in judged.rows)
    known = Counter((client, column) for client, _, column in judged.known)
    wrong = Counter((row.client, column) for row, column in judged.wrong)
    lines = [f"| client | calls | {' | '.join(others)} |", "|---" * (len(others) + 2) + "|"]
    for client, made in calls.items():
        cells = []
        for name in others:
            bad = wrong[client, name]
            count = known[client, name] + bad
            cells.append(f"{count} differ, {bad} unexplained" if count else "same")
        lines.append(f"| {client} | {made} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def details(judged: Judged, *, known: bool = False) -> str:
    """The lines that differ without a known reason; ``known``: those with one too."""
    parts = [_detail(row, column, "") for row, column in judged.wrong]
    if known:
        parts += [
            _detail(row, column, why.why)
            for (client, call, column), why in judged.known.items()
            for row in judged.rows
            if (row.client, row.call) == (client, call)
        ]
    parts += [
        f"no such difference any more: {one.client} {one.call} ({one.why})" for one in judged.stale
    ]
    return "\n".join(parts)


def _detail(row: Row, column: str, why: str) -> str:
    theirs, mine = row.texts[REFERENCE].splitlines(), row.texts[column].splitlines()
    gone = [line for line in theirs if line not in mine]
    new = [line for line in mine if line not in theirs]
    # Long lines mostly differ in one place: only the text near that place is useful.
    start = _alike([*gone, *new]) - _BEFORE if gone and new else 0
    head = f"{row.client} {row.call}, {column}" + (f" ({why})" if why else "")
    return "\n".join(
        [
            head,
            *(f"  - {line[max(start, 0) :]}" for line in gone[:_LINES]),
            *(f"  + {line[max(start, 0) :]}" for line in new[:_LINES]),
        ]
    )


def _alike(lines: Sequence[str]) -> int:
    """How many characters at the beginning all lines share."""
    columns = zip(*lines, strict=False)
    return next((at for at, column in enumerate(columns) if len(set(column)) > 1), 0)
