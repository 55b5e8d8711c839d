"""The analysis again, in plain Python and by counting: one record, one millisecond at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from emulator.trace import rows

MS = 1_000_000


def first_reached(ranges: Sequence[rows.RangeRow], stage: str, offset: int) -> int | None:
    """When an offset got to a stage, ns."""
    times = [row.time_ns for row in ranges if row.stage == stage and row.last_offset >= offset]
    return min(times, default=None)


def write_behind_ms(ranges: Sequence[rows.RangeRow], offset: int) -> float | None:
    """From commit to ZooKeeper's acknowledgement; None for what was committed before the claim."""
    begin = first_reached(ranges, "committed", offset)
    end = first_reached(ranges, "zk_acked", offset)
    if begin is None or end is None:
        return None
    claimed = min(row.time_ns for row in ranges if row.stage == "zk_acked")
    return (end - begin) / MS if begin >= claimed else None


def lag(ranges: Sequence[rows.RangeRow], now_ns: int) -> tuple[int, int, float] | None:
    """Lag in records, without NoOps, and in ms, at an instant; None before the first
    acknowledgement.
    """
    before = [row for row in ranges if row.time_ns <= now_ns]
    acked = max((row.last_offset for row in before if row.stage == "zk_acked"), default=None)
    committed = [row for row in before if row.stage == "committed"]
    if acked is None or not committed:
        return None
    unwritten = [
        (offset, row)
        for row in committed
        for offset in range(row.first_offset, row.last_offset + 1)
        if offset > acked
    ]
    work = [offset for offset, row in unwritten if not row.no_op_records]
    oldest = min((row.time_ns for _, row in unwritten if not row.no_op_records), default=now_ns)
    return len(unwritten), len(work), (now_ns - oldest) / MS


def blocked(
    blocks: Sequence[rows.BlockRow], multis: Sequence[rows.MultiRow]
) -> tuple[float, float, Counter[tuple[str, bool]]]:
    """Union ms, total ms, and the union by (cause, a multi in flight); all stamps whole ms."""
    union = total = 0.0
    parts: Counter[tuple[str, bool]] = Counter()
    last = max((block.end_ns // MS for block in blocks), default=0)
    for at in range(last):
        here = [block for block in blocks if block.begin_ns <= at * MS < block.end_ns]
        busy = any(multi.sent_ns <= at * MS < multi.answered_ns for multi in multis)
        total += len(here)
        union += bool(here)
        for block in here:
            parts[block.cause, busy] += 1 / len(here)  # type: ignore[assignment]
    return union, total, parts


def quantile(values: Sequence[float], fraction: float) -> float:
    """Nearest rank."""
    return sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]
