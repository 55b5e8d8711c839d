"""Rows as a table: each case, the median of each target, the first target by the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.runs.row import BenchRow


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a row. ``more``: whether a greater value is better.

    ``floor``: a difference up to it means nothing. ``never``: what counts where a row has no value
    because it did not get there; None: rows without a value are left out. ``of_answers``: that is
    so only where not all requests were answered with success; else there were too few of them.
    """

    column: str
    title: str
    more: bool
    floor: float = 0.0
    never: float | None = None
    of_answers: bool = False

    def of(self, row: BenchRow) -> float | None:
        """Its value."""
        value: float | None = getattr(row, self.column)
        return value

    def values(self, rows: Sequence[BenchRow]) -> list[float]:
        """Those of some rows; empty if no row has one.

        A row that did not get there counts as worse than any: without it the median would be that
        of the rows that were fast enough.
        """
        if all(self.of(row) is None for row in rows):
            return []
        filled = map(self.or_never, rows)
        return [value for value in filled if value is not None]

    def or_never(self, row: BenchRow) -> float | None:
        """Its value; ``never`` where the row has none because it did not get there."""
        value = self.of(row)
        reached = self.of_answers and not row.refused
        return self.never if value is None and not reached else value


MEASURES: Final = (
    Measure("zk_changes_per_s", "into ZooKeeper, /s", more=True, never=0.0),
    Measure("achieved_per_s", "committed, /s", more=True),
    Measure("refused", "not answered with success", more=False),
    Measure("commit_p50_ms", "commit p50, ms", False, 0.5, math.inf, of_answers=True),
    Measure("commit_p99_ms", "commit p99, ms", False, 5.0, math.inf, of_answers=True),
    Measure("commit_max_ms", "slowest commit, ms", False, 5.0, math.inf, of_answers=True),
    Measure("lag_max_records", "records behind, at most", more=False, floor=20.0),
    Measure("blocked_union_ms", "blocked, ms", more=False, floor=10.0),
    Measure("zk_transactions", "ZooKeeper transactions", more=False, floor=5.0),
    Measure("controller_cpu_s", "controller CPU, s", more=False, floor=0.1),
    Measure("listening_s", "start to listening, s", more=False, floor=0.1),
    Measure("dual_write_s", "start to dual write, s", more=False, floor=0.1),
    Measure("first_commit_s", "start to first commit, s", more=False, floor=0.1),
    Measure("first_in_zk_s", "start to first change in ZooKeeper, s", more=False, floor=0.1),
)
SCALE: Final = (
    Measure("copy_s", "claim to dual write, first copy, s", more=False, floor=0.1),
    Measure("copy_cpu_s", "controller CPU until then, s", more=False, floor=0.1),
    Measure("copy_step_ms", "longest step until then, ms", more=False, floor=5.0),
    Measure("copy_rss_mib", "memory after it, MiB", more=False, floor=5.0),
    Measure("change_cpu_us", "controller CPU of an ISR change, us", more=False, floor=100.0),
    Measure("heartbeat_p99_ms", "heartbeats meanwhile, p99, ms", more=False, floor=5.0),
    Measure("heartbeat_max_ms", "the longest, ms", more=False, floor=5.0),
    Measure("death_s", "broker killed to others lead in ZooKeeper, s", more=False, floor=0.1),
    Measure("death_step_ms", "longest step until then, ms", more=False, floor=5.0),
    Measure("failover_s", "leader killed to next change in ZooKeeper, s", more=False, floor=0.1),
    Measure("failover_step_ms", "longest step of the others until then, ms", False, 5.0),
    Measure("failover_rss_mib", "memory of the next leader, MiB", more=False, floor=5.0),
    Measure("longest_step_ms", "longest step after a restart, ms", more=False, floor=5.0),
    Measure("controller_rss_mib", "memory after a restart, MiB", more=False, floor=5.0),
    Measure("partition_bytes", "the same for each partition, bytes", more=False, floor=20.0),
    Measure("snapshot_mib", "largest snapshot, MiB", more=False, floor=0.1),
)
"""Of kind scale, beside the starts, which are those of its restart."""
_STARTS: Final = frozenset({"listening_s", "dual_write_s", "first_commit_s", "first_in_zk_s"})

Rows = Mapping[tuple[str, str], Sequence[BenchRow]]
"""(scenario.case, target) -> its rows that are not void."""


Round = tuple[str, int]
"""Code and repeat: rows of one round are taken one after the other."""


def round_of(row: BenchRow) -> Round:
    """The round of a row."""
    return row.code, row.repeat


def measures_of(kind: str) -> list[Measure]:
    """What is of interest in rows of a kind: of a load its speed, else the starts."""
    starts = kind in {"copy", "restart", "scale"}
    more = SCALE if kind == "scale" else ()
    return [*more, *(one for one in MEASURES if (one.column in _STARTS) == starts)]


def grouped(rows: Sequence[BenchRow]) -> dict[tuple[str, str], list[BenchRow]]:
    """Rows by case and target, void ones left out, in the order of the rows."""
    found: dict[tuple[str, str], list[BenchRow]] = {}
    for row in rows:
        if not row.void:
            found.setdefault((f"{row.scenario}.{row.case}", row.target), []).append(row)
    return found


def middle(rows: Sequence[BenchRow], measure: Measure) -> float | None:
    """Median of a measure, see ``Measure.values``; None if no row has it."""
    values = measure.values(rows)
    return statistics.median(values) if values else None


def by_round(
    ones: Sequence[BenchRow], others: Sequence[BenchRow], measure: Measure
) -> dict[Round, float]:
    """One target's value by another's in the same round: the machine's speed varies."""
    found = {round_of(row): measure.of(row) for row in others}
    quotients = {}
    for row in ones:
        above, below = measure.of(row), found.get(round_of(row))
        if above is not None and below:
            quotients[round_of(row)] = above / below
    return quotients


def text(rows: Sequence[BenchRow], targets: Sequence[str]) -> str:
    """Markdown: a table for each case, then what was void, and how busy the machine was."""
    first, *rest = targets
    lines = []
    cases = dict.fromkeys((f"{row.scenario}.{row.case}", row.kind) for row in rows)
    found = grouped(rows)
    for case, kind in cases:
        lines += ["", f"### {case}", "", f"| median | {' | '.join(targets)} |"]
        lines[-1] += "".join(f" {first} / {one} |" for one in rest)
        lines.append(f"|---|{'---:|' * (len(targets) + len(rest))}")
        for measure in measures_of(kind):
            middles = [middle(found.get((case, one), []), measure) for one in targets]
            if all(value is None for value in middles):
                continue
            cells = [measure.title, *(_number(value) for value in middles)]
            for one in rest:
                ours, theirs = found.get((case, first), []), found.get((case, one), [])
                cells.append(_ratio([*by_round(ours, theirs, measure).values()]))
            lines.append(f"| {' | '.join(cells)} |")
    void = [f"void: {row.run_id}: {row.void}" for row in rows if row.void]
    busy = [row.others_cores for row in rows if row.others_cores is not None]
    counts = f"{len(rows)} rows, {len(void)} void, {sum(row.quiet for row in rows)} quiet"
    if busy:
        counts += f"; other processes used {min(busy):.2f} to {max(busy):.2f} cores"
    return "\n".join([*lines, "", counts, *void]).strip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "never"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _ratio(quotients: Sequence[float]) -> str:
    if not quotients:
        return "-"
    shown = _number(statistics.median(quotients))
    if len(quotients) == 1:
        return shown
    return f"{shown} ({_number(min(quotients))} - {_number(max(quotients))})"
