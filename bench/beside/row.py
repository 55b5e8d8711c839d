"""One measured row, and statistics over rows of several rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.beside.machine import QUIET_CORES


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


@dataclass(slots=True)
class Row:
    """What one controller did with one burst, or several in a row."""

    contender: str
    round: int
    position: int
    """0: the first of its round."""
    partitions: int
    commit_s: float
    """First request to last answer, summed over the bursts."""
    zk_s: float
    """First request until ``/migration`` stands at the last record, summed over the bursts."""
    latencies_ms: list[float] = field(repr=False)
    zk_transactions: int
    znodes: int
    controller_cpu_s: float
    zookeeper_cpu_s: float
    fleet_cpu_s: float
    client_cpu_s: float
    others_cores: float
    load_1_min: float
    cold_zk_rate: float = 0.0
    """Partitions per second that reached ZooKeeper in the first burst after the start."""
    void: str = ""
    """Why the row must not be compared; empty if it may be."""

    @property
    def commit_rate(self) -> float:
        """Partitions per second answered as committed."""
        return self.partitions / self.commit_s

    @property
    def zk_rate(self) -> float:
        """Partitions per second that reached ZooKeeper."""
        return self.partitions / self.zk_s

    @property
    def p50_ms(self) -> float:
        """Median time to an answer."""
        return percentile(self.latencies_ms, 0.5)

    @property
    def p99_ms(self) -> float:
        """99th percentile of the time to an answer; of 80 answers that is the slowest."""
        return percentile(self.latencies_ms, 0.99)

    @property
    def quiet(self) -> bool:
        """Whether other processes were idle."""
        return self.others_cores < QUIET_CORES


Measure = Callable[[Row], float]

MEASURES: Final[dict[str, Measure]] = {
    "ZooKeeper, partitions/s": lambda row: row.zk_rate,
    "ZooKeeper just after the start": lambda row: row.cold_zk_rate,
    "commit, partitions/s": lambda row: row.commit_rate,
    "answer p50, ms": lambda row: row.p50_ms,
    "answer p99, ms": lambda row: row.p99_ms,
    "ZooKeeper transactions": lambda row: float(row.zk_transactions),
    "controller CPU, s": lambda row: row.controller_cpu_s,
    "ZooKeeper CPU, s": lambda row: row.zookeeper_cpu_s,
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """One contender by another, round by round."""

    median: float
    lowest: float
    highest: float
    rounds: int
    interval: tuple[float, float] | None
    """95 % confidence interval of the median; None below six rounds."""


def ratio(
    rows: Sequence[Row], above: str, below: str, measure: Measure, *, quiet: bool = False
) -> Ratio | None:
    """Divide the results of two contenders in the same round; None if no round has both.

    Void rows do not count, and with ``quiet`` only quiet ones do. Rows of different rounds are
    never divided by each other: the machine's speed varies.
    """
    found: dict[tuple[int, str], Row] = {
        (row.round, row.contender): row for row in rows if not row.void and (row.quiet or not quiet)
    }
    quotients = [
        measure(row) / measure(found[number, below])
        for (number, name), row in found.items()
        if name == above and (number, below) in found and measure(found[number, below])
    ]
    if not quotients:
        return None
    middle = statistics.median(quotients)
    return Ratio(middle, min(quotients), max(quotients), len(quotients), interval(quotients))


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % confidence interval of the median, for any distribution: two of the values.

    By the sign test: each value is above the true median as often as below.

    >>> interval([5.0, 1.0, 3.0, 2.0, 4.0]), interval([6.0, 5.0, 1.0, 3.0, 2.0, 4.0])
    (None, (1.0, 6.0))
    """
    count, ordered = len(values), sorted(values)
    outside, rank = 0.0, 0
    while (outside := outside + 2 * math.comb(count, rank) / 2**count) <= 0.05:
        rank += 1
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def median(rows: Sequence[Row], contender: str, measure: Measure) -> float | None:
    """The median over the rows of a contender that are not void."""
    values = [measure(row) for row in rows if row.contender == contender and not row.void]
    return statistics.median(values) if values else None
