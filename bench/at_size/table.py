"""Rows as a table, what they say together, and how long the next one will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.beside.machine import QUIET_CORES

MEMORY_MIB: Final = 4096
RATIO: Final = 1.7
_STANDS_FOR: Final = 0.1
"""A row within a tenth of the rows of another is of the same size."""

Row = Mapping[str, Any]


def seconds_at(wanted: int, known: Sequence[Row]) -> float | None:
    """How long so many rows will take, by those of the same master; None without any.

    Of two sizes the line through both, of one the same share: more than that it will not be.

    >>> seconds_at(50, [{"rows": 1, "wall_s": 12.0}, {"rows": 11, "wall_s": 32.0}])
    110.0
    """
    by_size: list[tuple[int, float]] = sorted({row["rows"]: row["wall_s"] for row in known}.items())
    if not by_size:
        return None
    last_rows, last_s = by_size[-1]
    if len(by_size) == 1:
        return last_s * max(1.0, wanted / last_rows)
    first_rows, first_s = by_size[0]
    each = (last_s - first_s) / (last_rows - first_rows)
    return max(0.0, first_s + each * (wanted - first_rows))


def same_size(one: int, other: int) -> bool:
    """Whether two numbers of rows count as one: a trace ends with a whole operation."""
    return abs(one - other) <= _STANDS_FOR * min(one, other)


def text(rows: Sequence[Row]) -> str:
    """Markdown."""
    head = "| rows | master | wall, s | CPU, s | memory, MiB | of it Java | trace, MiB "
    lines = [f"{head}| written, MiB | others, cores | |", f"|{'---:|' * 9}---|"]
    for row in sorted(rows, key=lambda row: (row["rows"], row["master"])):
        quiet = "" if row["others_cores"] < QUIET_CORES else "not quiet"
        lines.append(
            f"| {row['rows']:,} | {row['master']} | {row['wall_s']:,.1f} | {row['cpu_s']:,.1f} "
            f"| {row['memory_mib']:,} | {row['java_mib']:,} | {row['trace_mib']:,} "
            f"| {row['disk_mib']:,} | {row['others_cores']:.2f} | {row['void'] or quiet} |"
        )
    return "\n".join([*lines, "", *said(rows)])


def said(rows: Sequence[Row]) -> list[str]:
    """One sentence for each size: the ratio of two masters, and the greatest memory."""
    good = [row for row in rows if not row["void"]]
    sizes: defaultdict[int, dict[str, Row]] = defaultdict(dict)
    for row in good:
        size = next((one for one in sizes if same_size(one, row["rows"])), row["rows"])
        sizes[size][row["master"]] = row
    lines = []
    for size, by_master in sorted(sizes.items()):
        greatest = max(row["memory_mib"] for row in by_master.values())
        told = f"{size:,} rows: at most {greatest:,} MiB (goal: {MEMORY_MIB:,})"
        one, two = by_master.get("local[1]"), by_master.get("local[2]")
        if one is not None and two is not None:
            ratio = one["wall_s"] / two["wall_s"]
            told += f"; local[1] / local[2] = {ratio:.2f} (goal: {RATIO:g})"
        lines.append(told)
    return lines
