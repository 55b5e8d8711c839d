"""How long a cluster of ``emulator.testing`` takes to start and to end, in this process.

One row for each of 0, 1 and 3 brokers with and without fsync, in each round. The first start of
the process is a row of its own: it imports the modules too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Final

from bench.beside.machine import Meter, wait_quiet
from emulator.testing import Cluster

BROKERS: Final = (0, 1, 3)
FIRST: Final = "first"
LATER: Final = "later"
START_MAX_S: Final = 0.5
"""No start with 3 brokers may take longer (median)."""

Row = dict[str, Any]


def rows(rounds: int, patience_s: float, say: Callable[[Row], None]) -> Iterator[Row]:
    """One row for each start: ``start_s`` until every node answers, ``end_s``, ``cpu_s``."""
    cases = [(max(BROKERS), True, FIRST)]
    cases += [(n, fsync, LATER) for _ in range(rounds) for n in BROKERS for fsync in (True, False)]
    for brokers, fsync, which in cases:
        wait_quiet(patience_s)
        row = _started(brokers, fsync=fsync) | {"which": which}
        say(row)
        yield row


def _started(brokers: int, *, fsync: bool) -> Row:
    meter = Meter({})
    cpu, begin = time.process_time(), time.monotonic()
    with Cluster(brokers=brokers, fsync=fsync):
        started = time.monotonic()
        start_cpu = time.process_time() - cpu
        ending = time.monotonic()
    return {
        "brokers": brokers,
        "fsync": fsync,
        "start_s": round(started - begin, 4),
        "cpu_s": round(start_cpu, 4),
        "end_s": round(time.monotonic() - ending, 4),
        "others_cores": round(meter.usage().others_cores, 2),
    }


def medians(taken: list[Row]) -> list[Row]:
    """One row for each case, in the order in which the cases came first."""
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for row in taken:
        cases.setdefault((row["which"], row["brokers"], row["fsync"]), []).append(row)
    figures = ("start_s", "cpu_s", "end_s", "others_cores")
    return [
        {"which": which, "brokers": brokers, "fsync": fsync, "rows": len(found)}
        | {name: median(row[name] for row in found) for name in figures}
        for (which, brokers, fsync), found in cases.items()
    ]


def missed(found: list[Row]) -> bool:
    """Whether a start with all brokers took longer than ``START_MAX_S``."""
    return any(
        row["start_s"] > START_MAX_S
        for row in found
        if row["which"] == LATER and row["brokers"] == max(BROKERS)
    )
