"""Print the CPU time of the write-behind per partition, by shape of the load and by part.

``python -m bench.pipeline``; compare two versions by alternating runs, since CPU time too depends
on what else runs on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import islice
from random import Random

from bench.pipeline.machine import PARTS, Cost, Log, Rig

PARTITIONS = 20_000


def creations(partitions: int) -> Cost:
    """Topics of that many partitions, created one after the other, four in a commit."""
    log, rig = Log(), Rig()
    topics = max(4, PARTITIONS // max(partitions, 5) // (1 if partitions > 1 else 2))
    deltas = [delta for _ in range(topics) for delta in log.create(partitions)]
    return rig.feed(deltas, at_once=4)


def churn() -> Cost:
    """ISR changes of 2,000 partitions, a hundred in a commit."""
    log, rig = Log(), Rig()
    rig.feed([delta for _ in range(200) for delta in log.create(10)], at_once=50)
    return rig.feed(list(islice(log.shrink(Random(1), 10), PARTITIONS)), at_once=100)


def main() -> None:
    """Run each shape some times and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    shapes = {f"create, {n} per topic": n for n in (1, 10, 100, 1_000)}
    head = " ".join(f"{part:>8}" for part in PARTS)
    write = sys.stdout.write
    write(f"{'us CPU per partition':24} {'total':>8} {head} {'multis':>8} {'ops/multi':>9}\n")
    for name, partitions in [*shapes.items(), ("ISR change", 0)]:
        costs = [creations(partitions) if partitions else churn() for _ in range(repeat)]
        cost = sorted(costs, key=lambda one: one.total)[len(costs) // 2]
        parts = " ".join(f"{cost.micros[part] / cost.partitions:8.1f}" for part in PARTS)
        total = statistics.median(one.total for one in costs) / cost.partitions
        per_multi = cost.ops / max(1, cost.multis)
        write(f"{name:24} {total:8.1f} {parts} {cost.multis:8d} {per_multi:9.0f}\n")


if __name__ == "__main__":
    main()
