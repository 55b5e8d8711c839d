"""The cost of recording: two controllers that differ only in that, used in turns.

Both run all the time and only one of them gets requests. A machine's speed varies by a few percent
from minute to minute, so the two rows of a pair are seconds apart, and the result is the median
over many pairs. Each round has new processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.beside.contenders import ours
from bench.beside.machine import wait_quiet
from bench.beside.row import Row
from bench.beside.stage import Plan, line, measure, started, zookeeper

PAIRS: Final = 8
"""Pairs of one round. More would fill ZooKeeper's heap."""

UNTRACED: Final = ours("trace off", "kraft-bridge, not recording")
TRACED: Final = ours(
    "trace on",
    "kraft-bridge, recording",
    lambda folder: {"kraftbridge.trace.dir": folder / "trace"},
)


def play(plan: Plan, number: int, folder: Path, say: Callable[[str], None]) -> list[Row]:
    """One round of pairs; who is first turns from pair to pair.

    Raises:
        ProcessError: a server did not start or did not get there in time.
        RefusedError: a controller refused a request.
    """
    rows = []
    with (
        zookeeper(folder, [TRACED, UNTRACED]) as zk,
        started(plan, TRACED, zk, folder) as traced,
        started(plan, UNTRACED, zk, folder) as untraced,
    ):
        both = [traced, untraced]
        wait_quiet(plan.patience_s, {*traced.pids().values(), *untraced.pids().values()})
        for pair in range(PAIRS):
            bursts = [
                dataclasses.replace(burst, prefix=f"{burst.prefix}-{pair}") for burst in plan.bursts
            ]
            both.reverse()
            for position, running in enumerate(both):
                row = measure(bursts, running)
                row.round, row.position = number * PAIRS + pair, position
                rows.append(row)
                say(line(row))
    return rows
