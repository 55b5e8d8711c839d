"""The write-behind of a controller against a model of ZooKeeper, with the CPU time of its parts.

Only the calls into the write-behind and its ZooKeeper client are timed. Deltas are made before, and
the model's own time does not count. CPU seconds, not wall-clock: other load changes them little,
but it does, so compare two versions by alternating runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.micro import table
from emulator.simulation.models.write_behind_alone import (
    PARTS,
    CommittedRecords,
    WriteBehindAlone,
    WriteBehindCost,
)

PARTITIONS: Final = 20_000


def creations(partitions: int) -> WriteBehindCost:
    """Topics of that many partitions, created one after the other, four in a commit."""
    log, rig = CommittedRecords(), WriteBehindAlone()
    topics = max(4, PARTITIONS // max(partitions, 5) // (1 if partitions > 1 else 2))
    deltas = [delta for _ in range(topics) for delta in log.create(partitions)]
    return rig.feed(deltas, at_once=4)


def churn() -> WriteBehindCost:
    """ISR changes of 2,000 partitions, a hundred in a commit."""
    log, rig = CommittedRecords(), WriteBehindAlone()
    rig.feed([delta for _ in range(200) for delta in log.create(10)], at_once=50)
    return rig.feed(list(islice(log.shrink(Random(1), 10), PARTITIONS)), at_once=100)


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--rounds", type=int, default=3)


def rows(asked: Namespace, _folder: Path) -> Iterator[dict[str, Any]]:
    """Of each shape of the load the round with the median of the total: us of CPU a partition."""
    shapes = {f"create, {n} per topic": n for n in (1, 10, 100, 1_000)}
    for name, partitions in [*shapes.items(), ("ISR change", 0)]:
        costs = [creations(partitions) if partitions else churn() for _ in range(asked.rounds)]
        cost = sorted(costs, key=lambda one: one.total)[len(costs) // 2]
        parts = {part: cost.micros[part] / cost.partitions for part in PARTS}
        multis = {"multis": cost.multis, "operations a multi": cost.ops / max(1, cost.multis)}
        yield {"load": name, "total": cost.total / cost.partitions} | parts | multis


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row."""
    return table.plain(rows), True
