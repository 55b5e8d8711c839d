"""What is sent next, and when: units from the backlog, cut into multis while there is room.

A step plans no longer than 5 ms; what is left goes on in the next one. Progress that changes
nothing is written rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.pipeline import Pipeline, Refused
from emulator.migration.dual_write.unit import Unit
from emulator.seam import Effect, Row
from emulator.trace.rows import RangeRow, Stage

NO_OP_WRITE_MS: Final = 500
"""At most one write of ``/migration`` in this time for progress that changes nothing."""


class Sending:
    """Fills the pipeline from the backlog while the write-behind runs.

    ``busy``: work was cut and goes on at once. ``draining``: progress is written without waiting
    for more of it.
    """

    def __init__(self, pipeline: Pipeline, backlog: Backlog, stamp: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._backlog = backlog
        self._stamp = stamp
        self._last_write_ms = 0
        self.busy = self.draining = False

    def deadline_ms(self, now_ms: int) -> int | None:
        """When mere progress is to be written."""
        # While the pipeline is full, the next answer continues it.
        room = not self._pipeline.in_flight and self._pipeline.open_unit is None
        if room and self._backlog.waiting:
            return max(now_ms, self._last_write_ms + NO_OP_WRITE_MS)
        return None

    def first(self, now_ms: int) -> list[Effect]:
        """Send a multi that says what ZooKeeper holds already, unless it is on its way."""
        if self._pipeline.in_flight:
            return []
        self._last_write_ms = now_ms
        return self._pipeline.send_bare(self._backlog.confirmed, now_ms)

    def fill(self, kraft_epoch: int, now_ms: int) -> tuple[list[Effect], Refused | None]:
        """Send what there is room for.

        Returns:
            Effects; and a refusal when nothing is in flight and the next operation fits into no
            frame.
        """
        effects: list[Effect] = []
        while not self._pipeline.full and not self.busy:
            unit = self._pipeline.open_unit or self._new_unit(kraft_epoch, now_ms)
            if unit is None:
                break
            if not unit.planned and self._pipeline.plan(unit):
                row = RangeRow(Stage.PLANNED, unit.first_offset, unit.last_offset, self._stamp())
                effects.append(Row(row))
            sent = self._pipeline.send_part(unit, now_ms)
            if isinstance(sent, Refused):
                # What is in flight must be answered first.
                return effects, None if self._pipeline.in_flight else sent
            # What is not planned yet is for the next step.
            self.busy = not unit.planned
            if sent is not None:
                self._last_write_ms = now_ms
                effects += sent
        return effects, None

    def _new_unit(self, kraft_epoch: int, now_ms: int) -> Unit | None:
        backlog = self._backlog
        waited = now_ms - self._last_write_ms >= NO_OP_WRITE_MS
        if not backlog.waiting or not (backlog.changed or waited or self.draining):
            return None
        unit = backlog.delta_unit(kraft_epoch, self._stamp())
        self._pipeline.units.append(unit)
        return unit
