"""First copies of other sizes and shapes, predicted from two and then measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import nnls

from bench.predict.model import SHARE
from bench.predict.trace import Copied
from bench.runs.row import BenchRow
from bench.runs.scenario import Case

NAME: Final = "copies"
"""Of the folder below that of ``make predict``, and of the file of kept rows."""
WANTED: Final = 0.9


@dataclass(frozen=True, slots=True)
class CopySpeed:
    """Seconds: once, for each znode that is read, each record, and each topic beside."""

    fixed_s: float
    znode_s: float
    record_s: float
    topic_s: float


@dataclass(frozen=True, slots=True)
class Source:
    """A copy that predictions come from: what its row says, and what its controller's trace."""

    topics: int
    partitions: int
    seconds: float
    read_s: float
    written_s: float


def size(topics: int, partitions: int) -> tuple[int, int]:
    """Records and znodes of topics of so many partitions each.

    >>> size(10, 4)
    (50, 110)
    """
    return topics * (1 + partitions), topics * (3 + 2 * partitions)


def took_s(row: BenchRow) -> float:
    """From the claim to dual write, as seen from outside."""
    assert row.dual_write_s is not None
    assert row.claim_s is not None
    return row.dual_write_s - row.claim_s


def source(case: Case, row: BenchRow, seen: Copied) -> Source:
    """Of one case."""
    return Source(case.topics_present, case.partitions, took_s(row), seen.read_s, seen.written_s)


def speed_of(sources: Sequence[Source]) -> CopySpeed:
    """What copies of several shapes took.

    Least squares, no part of which is negative; what comes once is all that no trace shows.
    """
    sizes = [size(one.topics, one.partitions) for one in sources]
    parts = [[z, 0, one.topics, 0] for one, (_, z) in zip(sources, sizes, strict=True)]
    parts += [[0, r, 0, one.topics] for one, (r, _) in zip(sources, sizes, strict=True)]
    times = [one.read_s for one in sources] + [one.written_s for one in sources]
    (znode_s, record_s, reads_s, writes_s), _ = nnls(np.array(parts, float), np.array(times))
    once = sum(one.seconds for one in sources) - sum(times)
    fixed_s = max(0.0, once / len(sources))
    return CopySpeed(fixed_s, float(znode_s), float(record_s), float(reads_s + writes_s))


def predicted_s(case: Case, speed: CopySpeed) -> float:
    """How long the copy of a case takes."""
    records, znodes = size(case.topics_present, case.partitions)
    each = znodes * speed.znode_s + records * speed.record_s + case.topics_present * speed.topic_s
    return speed.fixed_s + each


def holds(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a copy took as long as predicted, within ``SHARE``."""
    before_s, after_s = float(before["seconds"]), float(after["seconds"])
    return abs(before_s - after_s) <= SHARE * after_s


def line(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """A copy in one line."""
    missed = "" if holds(before, after) else "  MISSED"
    return (
        f"{name}: copied in {before['seconds']:.2f} s predicted, "
        f"{after['seconds']:.2f} measured{missed}"
    )


def verdict(
    cells: Sequence[tuple[dict[str, Any], dict[str, Any]]], wanted: int
) -> tuple[str, bool]:
    """What all copies say together, and whether that is what was wanted.

    Args:
        cells: predicted and measured.
        wanted: how many there should be.
    """
    good = sum(holds(*one) for one in cells)
    text = f"{good} of {len(cells)} copies within {SHARE:.0%}"
    if len(cells) < wanted:
        return f"{text}; {wanted - len(cells)} are missing", False
    return text, good >= WANTED * len(cells)
