"""How long a cluster of ``emulator.testing`` takes to start and to end, in this process.

One row for each of 0, 1 and 3 brokers with and without fsync, in each round. The first start of
the process is a row of its own: it imports the modules too.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from emulator.servers.machine import Meter, wait_quiet
from emulator.testing import Cluster

BROKERS: Final = (0, 1, 3)
FIRST: Final = "first"
LATER: Final = "later"
START_MAX_S: Final = 0.5
"""No start with 3 brokers may take longer (median)."""

Row = dict[str, Any]


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--rounds", type=int, default=5, help="starts of each size")


def rows(asked: Namespace, _folder: Path) -> Iterator[Row]:
    """One row for each start: ``start_s`` until every node answers, ``end_s``, ``cpu_s``."""
    cases = [(max(BROKERS), True, FIRST)]
    rounds = range(asked.rounds)
    cases += [(n, fsync, LATER) for _ in rounds for n in BROKERS for fsync in (True, False)]
    for brokers, fsync, which in cases:
        wait_quiet(asked.patience)
        yield _started(brokers, fsync=fsync) | {"which": which}


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


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Medians of each case, and whether all brokers start within ``START_MAX_S``."""
    by = ("which", "brokers", "fsync")
    cases: dict[tuple[Any, ...], list[table.Row]] = {}
    for row in rows:
        cases.setdefault(tuple(row[key] for key in by), []).append(row)
    found = [
        dict(zip(by, case, strict=True))
        | {name: table.middle(some, name) for name in ("start_s", "cpu_s", "end_s", "others_cores")}
        for case, some in cases.items()
    ]
    late = [
        row["start_s"] > START_MAX_S
        for row in found
        if row["which"] == LATER and row["brokers"] == max(BROKERS)
    ]
    return table.plain(found), not any(late)
