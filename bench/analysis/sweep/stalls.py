"""How long changes waited for ZooKeeper by rate, stall and bound: measured, and predicted."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bench.analysis.sweep.one_run import Record
from bench.predict import model
from bench.predict.model import Change, Speed

BOUND_DEFAULT: Final = 10_000
"""Records, of a controller whose rows name no bound."""
KIND: Final = "create"
_CHANGES_MAX: Final = 200_000
"""In one stall: a few seconds of a core."""
_RATE_MAX: Final = 20_000
_PARTITIONS_MAX: Final = 10_000
_SLOWEST_S: Final = 10.0
"""Rows and predictions come from files, which may be damaged: beyond these nothing is played."""
_STEPS: Final = 9
_BEYOND: Final = 1.6
"""A border is drawn so much farther than what was measured."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """What is predicted from. ``unions_s``: of cases predicted before they were measured."""

    speed: Speed
    says: str
    unions_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StallCell:
    """Runs of one rate, stall and bound: the seconds in which some change waited.

    ``stall_s`` 0: ZooKeeper never stood still. ``predicted_s`` infinite: without end.
    """

    stall_s: float
    rate: float
    bound: int
    measured_s: tuple[float, ...]
    predicted_s: float

    @property
    def middle_s(self) -> float:
        """The median of its repeats."""
        return statistics.median(self.measured_s)

    @property
    def holds(self) -> bool:
        """Whether the median is as predicted; of what has no end, whether anything waited."""
        if math.isinf(self.predicted_s):
            return self.middle_s > 0
        return model.holds(self.predicted_s, self.middle_s)


@dataclass(frozen=True, slots=True)
class StallPanel:
    """All cells of one stall.

    ``border``: (rate, bound); under a smaller bound than that, and without a stall at a higher
    rate, changes are predicted to wait. Empty: that is nowhere near what was measured.
    """

    stall_s: float
    cells: tuple[StallCell, ...]
    border: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class StallGrid:
    """Panels of one kind of change and one way to ZooKeeper's disk, by the length of the stall.

    ``sync_ms``: of its log, where it was made slow; else 0.
    """

    partitions: int
    latency_ms: float
    sync_ms: float
    panels: tuple[StallPanel, ...]

    @property
    def cells(self) -> list[StallCell]:
        """Of all panels."""
        return [cell for panel in self.panels for cell in panel.cells]


class _Key(NamedTuple):
    partitions: int
    latency_ms: float
    sync_ms: float


def predictions_of(document: Mapping[str, Any], where: str) -> Predictions:
    """Those of ``predictions.json``, which ``make predict`` writes before it measures.

    Raises:
        KeyError, TypeError, AttributeError, ValueError: it is none.
    """
    speed = Speed(**document["speed"])
    for value in (speed.request_s, speed.operation_s, speed.commit_s, speed.append_s):
        if not 0 <= value <= _SLOWEST_S:
            raise ValueError(f"a speed of {value!r} s")
    return Predictions(
        speed,
        f"written before the cells were measured, from a run of its own ({where})",
        {str(case): float(one["union_s"]) for case, one in document["cells"].items()},
    )


def assumed(described: Iterable[Record]) -> Predictions | None:
    """From what each row measured of ZooKeeper before its load; None if no row did."""
    found = ((row.get("zk_write_p50_ms") or 0.0) - _sync_ms(row) for row in described)
    writes = [each for each in found if 0 < each <= 1e3 * _SLOWEST_S]
    if not writes:
        return None
    request_ms = statistics.median(writes)
    return Predictions(
        Speed(request_ms / 1e3, model.OPERATION_S, model.COMMIT_S, model.APPEND_S),
        f"computed from the {request_ms:.3g} ms that a write to ZooKeeper took before the loads "
        f"(median of {len(writes):,} rows); a commit of {model.COMMIT_S * 1e3:g} ms, an append of "
        f"{model.APPEND_S * 1e3:g} ms and {model.OPERATION_S * 1e6:g} µs an operation are assumed",
        {},
    )


def stall_grids(
    described: Iterable[Record], target: str, found: Predictions | None
) -> list[StallGrid]:
    """What was measured in rows of creations, and what is predicted of them.

    A grid needs stalls, several bounds or a slow log. Rows without a bound (0) can make nothing
    wait.

    Args:
        described: rows of the bench.
        target: whose.
        found: None: nothing can be predicted, and there is no grid.
    """
    if found is None:
        return []
    by: defaultdict[_Key, defaultdict[tuple[float, float, int], list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in described:
        bound = row.get("bound_records")
        bound = BOUND_DEFAULT if bound is None else bound
        told = row.get("blocked_union_ms") is not None and not row["void"] and bound > 0
        if told and row["target"] == target and row.get("kind") == KIND and _known(row):
            far_ms = row.get("latency_ms") or 0.0
            key = _Key(row.get("partitions_per_topic") or 1, far_ms, _sync_ms(row))
            by[key][row.get("frozen_s") or 0.0, row["rate_per_s"], bound].append(row)
    grids = []
    for key, cells in sorted(by.items()):
        several = len({bound for _, _, bound in cells}) > 1
        if several or key.sync_ms or any(stall for stall, _, _ in cells):
            grids.append(_grid(key, cells, found))
    return grids


def _sync_ms(row: Record) -> float:
    """What each sync of ZooKeeper's log took in the middle, where it was made slow."""
    return float(row.get("log_sync_ms") or 0.0)


def _known(row: Record) -> bool:
    """Whether its rate, stall and latency are such as a model can play."""
    rate, stall_s = row.get("rate_per_s") or 0.0, row.get("frozen_s") or 0.0
    near = 0 <= (row.get("latency_ms") or 0.0) <= 1e3 * _SLOWEST_S
    near = near and 0 <= _sync_ms(row) <= 1e3 * _SLOWEST_S
    near = near and (row.get("partitions_per_topic") or 1) <= _PARTITIONS_MAX
    return near and 0 < rate <= _RATE_MAX and stall_s >= 0 and rate * stall_s <= _CHANGES_MAX


def _grid(
    key: _Key, rows: Mapping[tuple[float, float, int], Sequence[Record]], found: Predictions
) -> StallGrid:
    change = model.creation(key.partitions)
    speed = Speed(
        found.speed.request_s + (key.latency_ms + key.sync_ms) / 1e3,
        found.speed.operation_s,
        found.speed.commit_s,
        found.speed.append_s,
    )
    rates = sorted({rate for _, rate, _ in rows})
    bounds = sorted({bound for _, _, bound in rows})
    panels = []
    for stall_s in sorted({stall for stall, _, _ in rows}):
        cells = []
        for (stall, rate, bound), here in sorted(rows.items()):
            if stall == stall_s:
                measured = tuple(row["blocked_union_ms"] / 1e3 for row in here)
                before = found.unions_s.get(str(here[0].get("case")))
                if before is None:
                    before = _predicted_s(change, rate, bound, speed, stall_s)
                cells.append(StallCell(stall_s, rate, bound, measured, before))
        border = _border(change, rates, bounds, speed, stall_s)
        panels.append(StallPanel(stall_s, tuple(cells), border))
    return StallGrid(*key, tuple(panels))


def _predicted_s(change: Change, rate: float, bound: int, speed: Speed, stall_s: float) -> float:
    if rate >= model.border(change, bound, speed):
        return math.inf
    return model.stalled(change, rate, bound, speed, stall_s).union_s if stall_s else 0.0


def _border(
    change: Change, rates: Sequence[float], bounds: Sequence[int], speed: Speed, stall_s: float
) -> tuple[tuple[float, float], ...]:
    """Without a stall each bound has its rate, else each rate its bound."""
    if not stall_s:
        low, high = bounds[0] / _BEYOND, bounds[-1] * _BEYOND
        found = [(model.border(change, round(bound), speed), bound) for bound in _spread(low, high)]
        return tuple(found) if found[0][0] <= rates[-1] * _BEYOND else ()
    low, high = rates[0] / _BEYOND, rates[-1] * _BEYOND
    # Beyond what ZooKeeper takes without a bound there is no end, and a border says nothing.
    return tuple(
        (rate, float(model.enough(change, rate, speed, stall_s)))
        for rate in _spread(low, high)
        if rate * stall_s <= _CHANGES_MAX
    )


def _spread(low: float, high: float) -> list[float]:
    """Values from one to another, each by one factor from the last."""
    factor = (high / low) ** (1 / (_STEPS - 1))
    return [low * factor**step for step in range(_STEPS)]
