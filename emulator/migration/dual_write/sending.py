"""Decides what is sent next: units from the backlog, split into multis while there is room.

A small unit waits while a multi is in flight, so that changes gather: each multi, and the requests
to brokers that follow it, cost as much for one change as for many. What fills a multi does not wait
(the same rule as Nagle's for TCP). Where ISRs change faster than that, a multi waits for more of
them, as long as the last one was sent a moment ago and no caller waits for ZooKeeper.

A step plans for at most 5 ms; the next step continues, also while no multi may be sent: when an
answer comes, the next multi is ready. Progress without changes is written rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.pipeline import Pipeline, Refused
from emulator.migration.dual_write.unit import Unit
from emulator.seam import Effect, Row
from emulator.trace.rows import RangeRow, Stage

LARGE_OPS: Final = 4_000
GATHER_CHANGES: Final = 16
"""So many partitions that change while a multi is in flight: the next multi gathers more."""
GATHER_MS: Final = 45
"""Time between such multis: a hundred changes in each, at 2,200 a second."""
NO_OP_WRITE_MS: Final = 500
"""Minimum time between writes of ``/migration`` for progress without changes."""


class Sending:
    """Fills the pipeline from the backlog while the write-behind runs.

    ``busy``: work was split and continues at once. ``draining``: progress is written without
    waiting for more of it. ``hurried``: whether callers wait at a bound, and nothing shall gather.
    """

    def __init__(self, pipeline: Pipeline, backlog: Backlog, stamp: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._backlog = backlog
        self._stamp = stamp
        self._last_write_ms = 0
        self.busy = self.draining = False
        self.hurried: Callable[[], bool] = lambda: False

    def deadline_ms(self, now_ms: int) -> int | None:
        """When what gathers, or progress without changes, is to be written."""
        if not self._backlog.waiting:
            return None
        if self._gathers(now_ms):
            return self._last_write_ms + GATHER_MS
        # While the pipeline is full, the next answer continues it.
        if self._pipeline.in_flight or self._pipeline.open_unit is not None:
            return None
        if self._backlog.changed:  # it gathered until callers began to wait
            return now_ms
        return max(now_ms, self._last_write_ms + NO_OP_WRITE_MS)

    def first(self, now_ms: int) -> list[Effect]:
        """Send the first multi of a chain, which changes no data, unless it is in flight."""
        if self._pipeline.in_flight:
            return []
        self._last_write_ms = now_ms
        return self._pipeline.send_bare(self._backlog.confirmed, now_ms)

    def fill(self, kraft_epoch: int, now_ms: int) -> tuple[list[Effect], Refused | None]:
        """Send multis while there is room.

        Returns:
            Effects; and a refusal when nothing is in flight and the next operation is too large for
            a frame.
        """
        effects: list[Effect] = []
        while not self._pipeline.full and not self.busy:
            unit = self._pipeline.open_unit or self._new_unit(kraft_epoch, now_ms)
            if unit is None:
                break
            effects += self._plan(unit)
            sent = self._pipeline.send_part(unit, now_ms)
            if isinstance(sent, Refused):
                # The multis in flight must be answered first.
                return effects, None if self._pipeline.in_flight else sent
            if sent is not None:
                self._last_write_ms = now_ms
                effects += sent
            self.busy = not self._pipeline.ready(unit)
        ahead = self._pipeline.open_unit
        if ahead is not None and self._pipeline.full and not self.busy:
            effects += self._plan(ahead)
            self.busy = not self._pipeline.ready(ahead)
        return effects, None

    def _plan(self, unit: Unit) -> list[Effect]:
        """Plan what a step may, unless the next multi of the unit is ready."""
        if self._pipeline.ready(unit) or not self._pipeline.plan(unit):
            return []
        row = RangeRow(Stage.PLANNED, unit.first_offset, unit.last_offset, self._stamp())
        return [Row(row)]

    def _gathers(self, now_ms: int) -> bool:
        """Whether the next multi waits, with nothing in flight, for more changes of ISRs."""
        backlog = self._backlog
        if self._pipeline.in_flight or self.draining or self.hurried() or not backlog.waiting:
            return False
        return now_ms - self._last_write_ms < GATHER_MS and backlog.many_states(GATHER_CHANGES)

    def _new_unit(self, kraft_epoch: int, now_ms: int) -> Unit | None:
        backlog = self._backlog
        waited = now_ms - self._last_write_ms >= NO_OP_WRITE_MS
        if not backlog.waiting or not (backlog.changed or waited or self.draining):
            return None
        gathers = self._pipeline.in_flight or self._gathers(now_ms)
        if gathers and not backlog.fills(self._pipeline.ops_max):
            return None
        # To collect a large change took some ms: it is planned in the next step.
        self.busy = backlog.fills(LARGE_OPS)
        unit = backlog.delta_unit(kraft_epoch, self._stamp())
        self._pipeline.units.append(unit)
        return None if self.busy else unit
