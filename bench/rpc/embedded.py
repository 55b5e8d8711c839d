"""How long a cluster inside a test's process takes to start: ``emulator.testing.Cluster``.

In a process of its own. Its first start, which imports what is not imported yet, is a row of its
own: a run of tests pays it once.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

BROKERS: Final = (0, 1, 3)
_LIMIT_S: Final = 300.0
_MEASURED: Final = """
import json, sys, time
from emulator.testing import Cluster

rows, rounds = [], int(sys.argv[1])
for brokers in map(int, sys.argv[2:]):
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        with Cluster(brokers=brokers):
            rows.append((brokers, time.perf_counter() - began, time.process_time() - cpu))
print(json.dumps(rows))
"""


@dataclass(frozen=True, slots=True)
class EmbeddedRow:
    """One start of a controller and some brokers, until all brokers are served; with fsync."""

    brokers: int
    started_s: float
    cpu_s: float
    first: bool
    """Of its process."""


def starts(rounds: int, say: Callable[[str], None]) -> list[EmbeddedRow]:
    """Start clusters without and with brokers, ``rounds`` of each size, one after the other.

    Raises:
        subprocess.CalledProcessError: one did not start.
    """
    command = [sys.executable, "-c", _MEASURED, str(rounds), *map(str, BROKERS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_S)
    rows = [
        EmbeddedRow(brokers, started_s, cpu_s, not number)
        for number, (brokers, started_s, cpu_s) in enumerate(json.loads(done.stdout))
    ]
    say(f"the first start: {rows[0].started_s:.2f} s")
    for brokers in BROKERS:
        of_size = [row for row in rows if row.brokers == brokers and not row.first]
        took = [row.started_s for row in of_size]
        if took:
            say(
                f"{brokers} brokers: median {statistics.median(took):.2f} s, longest "
                f"{max(took):.2f} s, {statistics.median(row.cpu_s for row in of_size):.2f} s of CPU"
            )
    return rows
