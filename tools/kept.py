"""The kept rows of docs/rows, and pages with tables of them between marks: ``make docs``."""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from emulator.servers.machine import QUIET_CORES

ROWS: Final = Path(__file__).resolve().parents[1] / "docs/rows"
OURS: Final = "kraft-bridge"
KAFKA: Final = "kafka"

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = Mapping[str, Callable[[], Iterator[str]]]


def rows(pattern: str) -> tuple[Path, list[Row]]:
    """The kept rows of the one file of that name, and the file.

    Raises:
        ValueError: they may not stand in one table.
    """
    (file,) = ROWS.glob(pattern)
    found = [json.loads(line) for line in file.read_text().splitlines()]
    if problem := unfit(found):
        raise ValueError(f"{file.name}: {problem}")
    return file, found


def unfit(found: Sequence[Row]) -> str:
    """Why rows may not stand in one table; empty if they may.

    Builds of one version of Python differ by up to a third.

    >>> unfit([{"run_id": "a", "void": "the trees differ"}])
    'a is void: the trees differ'
    >>> unfit([{"versions": "Python 3.11.2 (a), Kafka 3"}, {"versions": "Python 3.11.2 (b)"}])
    'taken by Python 3.11.2 (a) and Python 3.11.2 (b)'
    """
    for row in found:
        if why := row.get("void"):
            return f"{row['run_id']} is void: {why}"
    builds = {row["versions"].split(", Kafka")[0] for row in found if row.get("versions")}
    return f"taken by {' and '.join(sorted(builds))}" if len(builds) > 1 else ""


def source(file: Path, found: Sequence[Row]) -> str:
    """When rows were measured, of which code, by which Python, and how many are not quiet."""
    days = sorted({datetime.fromtimestamp(one["started_wall_ns"] / 1e9, UTC) for one in found})
    first, last = (f"{one:%Y-%m-%d}" for one in (days[0], days[-1]))
    when = first if first == last else f"{first} to {last}"
    codes = ", ".join(sorted({one["code"][:8] for one in found}))
    rounds = sorted(Counter((one["case"], one["target"]) for one in found).values())
    some = f"{rounds[0]}" if rounds[0] == rounds[-1] else f"{rounds[0]} to {rounds[-1]}"
    loud = sum(one["others_cores"] >= QUIET_CORES for one in found)
    quiet = f"{loud} of {len(found)} rows not quiet" if loud else "all rows quiet"
    return (
        f"[Rows](rows/{file.name}) of {when}, code {codes}, "
        f"{found[0]['versions'].split(' (')[0]}, "
        f"{'one round' if rounds[-1] == 1 else f'medians of {some} rounds'}, {quiet}"
    )


def span(values: Sequence[float]) -> str:
    """From the least to the greatest; one number if they are written alike."""
    return " to ".join(dict.fromkeys(f"{one:,.0f}" for one in values))


def spread(values: Sequence[float], form: str) -> str:
    """The median, and in brackets the lowest and the highest where they are written otherwise."""
    low, middle, high = (
        format(one, form) for one in (min(values), statistics.median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} - {high})"


def filled(page: str, tables: Tables) -> str:
    """A page with each table between its marks.

    Raises:
        ValueError: a mark is not there once; else text would be lost.
    """
    for name, table in tables.items():
        begin = f"<!-- {name}, from kept rows: written by make docs -->\n"
        end = f"<!-- {name} end -->\n"
        if [page.count(begin), page.count(end)] != [1, 1] or page.index(begin) > page.index(end):
            raise ValueError(f"the marks of {name} are not there once, one behind the other")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{''.join(table())}{end}{after}"
    return page
