"""Rows as one table: all of them, or medians of two contenders and their ratio by round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from bench.load.figures import interval
from emulator.servers.machine import QUIET_CORES

Row: TypeAlias = Mapping[str, Any]
"""``round``: rows of one round are compared. ``void``: why a row does not count.

``others_cores``: what other programs used meanwhile.
"""


def plain(rows: Sequence[Row]) -> str:
    """A line for each row, a column for each of their keys."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return markdown([names, *([shown(row.get(name)) for name in names] for row in rows)])


def beside(
    rows: Sequence[Row],
    by: Sequence[str],
    of: str,
    names: Sequence[str],
    figures: Mapping[str, str],
) -> str:
    """A line for each figure of each group: its medians, and the first one's by the second's.

    Args:
        rows: void ones do not count.
        by: keys that make a group.
        of: key of the contender.
        names: the contenders.
        figures: key -> title.
    """
    first, *rest = names
    lines = [[*by, "median", *names, *(f"{first} / {one}" for one in rest)]]
    good = [row for row in rows if not row.get("void")]
    for group in dict.fromkeys(tuple(row.get(key) for key in by) for row in good):
        mine = [row for row in good if tuple(row.get(key) for key in by) == group]
        for figure, title in figures.items():
            some = {one: [row for row in mine if row[of] == one] for one in names}
            middles = [middle(some[one], figure) for one in names]
            if any(value is not None for value in middles):
                ratios = [ratio(some[first], some[one], figure) for one in rest]
                lines.append([*map(shown, group), title, *map(shown, middles), *ratios])
    return f"{markdown(lines)}\n\n{counted(rows)}"


def middle(rows: Sequence[Row], figure: str) -> float | None:
    """The median of those that have it; None if none has."""
    values = [row[figure] for row in rows if row.get(figure) is not None]
    return statistics.median(values) if values else None


def quotients(ones: Sequence[Row], others: Sequence[Row], figure: str) -> list[float]:
    """One contender's figure by another's in the same round: the machine's speed varies.

    Of rows without rounds it is one: that of the medians.
    """
    if any(row.get("round") is None for row in (*ones, *others)):
        mine, theirs = middle(ones, figure), middle(others, figure)
        return [mine / theirs] if mine is not None and theirs else []
    found = {row.get("round"): row.get(figure) for row in others}
    values = ((row.get(figure), found.get(row.get("round"))) for row in ones)
    return [one / other for one, other in values if one is not None and other]


def ratio(ones: Sequence[Row], others: Sequence[Row], figure: str) -> str:
    """The median of the quotients, lowest and highest; with their interval where it is narrower."""
    found = quotients(ones, others, figure)
    if not found:
        return "-"
    text = shown(statistics.median(found))
    if len(found) > 1:
        text += f" ({shown(min(found))} - {shown(max(found))})"
    within = interval(found)
    if within is None or within == (min(found), max(found)):
        return text
    return f"{text}, within {shown(within[0])} - {shown(within[1])}"


def counted(rows: Sequence[Row]) -> str:
    """How many rows, how many of them count, how busy others were, and what is void."""
    busy = [row["others_cores"] for row in rows if row.get("others_cores") is not None]
    void = [row["void"] for row in rows if row.get("void")]
    text = f"{len(rows)} rows, {len(void)} void, {sum(one < QUIET_CORES for one in busy)} quiet"
    if busy:
        text += f"; others used {min(busy):.2f} - {max(busy):.2f} cores"
    return "\n".join([text, *(f"void: {why}" for why in dict.fromkeys(void))])


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first of them the head.

    >>> print(markdown([["a", "b"], ["x", "1"]]))
    | a | b |
    |---|---|
    | x | 1 |
    """
    head, *rest = lines
    written = [f"| {' | '.join(line)} |" for line in (head, *rest)]
    return "\n".join([written[0], f"|{'---|' * len(head)}", *written[1:]])


def shown(value: object) -> str:
    """A cell: numbers with four digits, what is missing as a dash.

    >>> shown(1234.5), shown(0.0123456), shown(None), shown("a")
    ('1,234', '0.01235', '-', 'a')
    """
    if value is None or isinstance(value, str):
        return value or "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
