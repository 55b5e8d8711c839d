"""How the time without a controller grows with the metadata: rows of first copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bench.analysis.sweep import fits
from bench.analysis.sweep.one_run import Record

KIND: Final = "copy"


@dataclass(frozen=True, slots=True)
class CopyFit:
    """First copies by one target, with topics of one size: seconds = fixed_s + each_us partitions.

    ``per_topic``: partitions of each topic. A topic takes time too, whatever its size.

    From the claim, when the controller before it ends to be one, to dual write. ``sizes``:
    partitions and median seconds. ``off``: the greatest residual, as a share of the time there.
    """

    target: str
    per_topic: int
    sizes: list[tuple[int, float]]
    fixed_s: float
    each_us: float
    r_squared: float
    off: float


def copies(described: Iterable[Record]) -> list[CopyFit]:
    """A fit for each target and size of topics, of at least three sizes; without void rows."""
    seconds: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in described:
        took, per_topic = _took_s(row), row.get("partitions_per_topic") or 0
        partitions = (row.get("topics_present") or 0) * per_topic
        if took is not None and partitions:
            seconds[row["target"] or "", per_topic][partitions].append(took)
    found = []
    for (target, per_topic), by_size in sorted(seconds.items()):
        sizes = sorted((size, fits.median(values)) for size, values in by_size.items())
        line = fits.line([float(size) for size, _ in sizes], [took for _, took in sizes])
        if line is not None:
            found.append(
                CopyFit(
                    target, per_topic, sizes, line.fixed, line.each * 1e6, line.r_squared, line.off
                )
            )
    return found


def _took_s(row: Record) -> float | None:
    if row.get("kind") != KIND or row["void"]:
        return None
    claim_s, dual_write_s = row.get("claim_s"), row.get("dual_write_s")
    if claim_s is None or dual_write_s is None:
        return None
    took: float = dual_write_s - claim_s
    return took
