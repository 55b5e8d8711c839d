"""How long ``analyze`` of 50 million rows takes, on one core and on two, and its memory.

Before each master two smaller traces are analysed: how long the large one will take follows from
them. Rows are kept; the same command goes on where it was interrupted. Traces and results are
removed at the end.
"""

from __future__ import annotations

import re
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import one_analysis, table
from bench.micro.kept import KeptRows
from bench.runs.code import digest_of
from emulator.servers.machine import wait_quiet

TRIALS: Final = (250, 25)
"""Shares of the rows that are analysed first, as divisors."""
MEMORY_MIB: Final = 4096
RATIO: Final = 1.7
MINUTES: Final = 8.0
SHOWN: Final = (
    *("rows", "master", "wall_s", "cpu_s", "memory_mib", "java_mib", "trace_mib", "disk_mib"),
    *("others_cores", "void"),
)
_SIMILAR: Final = 0.1
"""A row within a tenth of the rows of another is of the same size."""
_LEAST: Final = 10_000
_CODE: Final = ("bench/analysis", "bench/report", "bench/micro", "emulator/trace")


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--rows", type=_rows, default=50_000_000, help="of all tables together")
    parser.add_argument("--masters", type=_master, default=["local[2]", "local[1]"])
    parser.add_argument("--keep", action="store_true", help="leave traces")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Every row, those that are there included; ends if the disk has too little room."""
    kept = KeptRows(folder / "rows.jsonl", digest_of(*_CODE))
    for master in asked.masters:
        taken: list[dict[str, Any]] = []
        for wanted in sizes(asked.rows):
            row = kept.find(wanted=wanted, master=master, void="")
            if row is None:
                row = _taken(asked, folder, wanted, master, taken)
                kept.add(row)
            taken.append(row)
            yield row
    if not asked.keep:
        for wanted in sizes(asked.rows):
            shutil.rmtree(folder / f"rows-{wanted}", ignore_errors=True)


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row, a summary of all rows, and whether all rows count."""
    ordered = sorted(rows, key=lambda row: (row["rows"], row["master"]))
    text = table.plain([{name: row[name] for name in SHOWN} for row in ordered])
    return "\n".join([text, "", *sentences(rows)]), not any(row["void"] for row in rows)


def sizes(rows: int) -> list[int]:
    """Sizes of the trials, then the size asked for; trials below 10,000 rows are useless.

    >>> sizes(50_000_000), sizes(300_000)
    ([200000, 2000000, 50000000], [12000, 300000])
    """
    return [*(rows // share for share in TRIALS if rows // share >= _LEAST), rows]


def _taken(
    asked: Namespace, folder: Path, wanted: int, master: str, before: Sequence[table.Row]
) -> dict[str, Any]:
    """Take one row; first print how long it will take, if that is known."""
    own = folder / f"rows-{wanted}"
    try:
        truth = one_analysis.trace(own, wanted)
    except one_analysis.NoRoomError as error:
        sys.exit(str(error))
    expected_s = seconds_at(truth.rows, before)
    # Of one size the start counts with each row, so the other takes less.
    how = "about" if len(before) > 1 else "at most"
    about = "" if expected_s is None else f", {how} {expected_s / 60:.1f} minutes"
    sys.stdout.write(f"{truth.rows:,} rows on {master}{about}\n")
    sys.stdout.flush()
    wait_quiet(asked.patience)
    row = {"wanted": wanted, **one_analysis.analysed(own, truth, master)}
    shutil.rmtree(own / "out", ignore_errors=True)
    return row


def _master(text: str) -> list[str]:
    found = re.findall(r"[^,\s]+", text)
    wrong = [one for one in found if not re.fullmatch(r"local\[([1-9]\d*|\*)\]", one)]
    if wrong or not found:
        raise ArgumentTypeError(f"{text!r}: local[2],local[1]")
    return list(dict.fromkeys(found))


def _rows(text: str) -> int:
    found = int(text.replace(",", "").replace("_", ""))
    if not 1_000 <= found <= 1_000_000_000:
        raise ArgumentTypeError(f"{text}: 1,000 to 1,000,000,000")
    return found


def seconds_at(wanted: int, known: Sequence[table.Row]) -> float | None:
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


def _without_start(one: table.Row, two: table.Row, rows: Sequence[table.Row]) -> str:
    """Of the greatest of several sizes: the ratio that is asked for, and the minutes."""
    took = []
    for row in (one, two):
        of_master = [each for each in rows if each["master"] == row["master"]]
        if min(each["rows"] for each in of_master) >= row["rows"]:
            return ""
        took.append(row["wall_s"] - (seconds_at(0, of_master) or 0.0))
    if took[1] <= 0:
        return ""
    return (
        f", without the start {took[0] / took[1]:.2f} (goal: {RATIO:g}); local[2] "
        f"{two['wall_s'] / 60:.1f} minutes (goal for 50 million: {MINUTES:g})"
    )


def same_size(one: int, other: int) -> bool:
    """Whether two numbers of rows count as one: a trace ends with a whole operation."""
    return abs(one - other) <= _SIMILAR * min(one, other)


def sentences(rows: Sequence[table.Row]) -> list[str]:
    """One sentence for each size: its memory, the ratio of two masters, and without Spark's start.

    The start is what no row would take, by the line through two sizes.
    """
    good = [row for row in rows if not row["void"]]
    sizes: defaultdict[int, dict[str, table.Row]] = defaultdict(dict)
    for row in good:
        size = next((one for one in sizes if same_size(one, row["rows"])), row["rows"])
        sizes[size][row["master"]] = row
    lines = []
    for size, by_master in sorted(sizes.items()):
        greatest = max(row["memory_mib"] for row in by_master.values())
        line = f"{size:,} rows: at most {greatest:,} MiB (goal: {MEMORY_MIB:,})"
        one, two = by_master.get("local[1]"), by_master.get("local[2]")
        if one is not None and two is not None:
            ratio = one["wall_s"] / two["wall_s"]
            line += f"; local[1] / local[2] = {ratio:.2f}"
            line += _without_start(one, two, good)
        lines.append(line)
    return lines
