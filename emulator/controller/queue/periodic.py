"""Periodic work that no call asks for: sweeps over the metadata, a few candidates per tick.

A sweep has two pure functions of the newest image: its candidates, and the records for one
candidate. The runner decides when: ``interval_ms`` after the first candidate appears, and
repeatedly while there are candidates. It visits a few candidates per tick, so no step of the
controller is long, and appends only as many records as the bound on changes not yet in ZooKeeper
allows. To add one, write its two functions and list it in ``sweeps.py``. A sweep waits for
ZooKeeper as a call with the same records does.

Source: QuorumController.maybeScheduleNextBalancePartitionLeaders and its kin, Kafka 3.9, which do a
round in one event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from emulator.controller.context import ControllerConfig
from emulator.controller.queue.urgency import Urgency
from emulator.controller.result import Record
from emulator.controller.tables.index import TipIndex
from emulator.metadata.image import Image

LOOKS_PER_TICK: Final = 32
"""Candidates visited in one tick by one sweep: takes well below 5 ms, with all effects."""
PAUSE_MS: Final = 10
"""Pause after a round that reached ``records_max``, as in Kafka."""
RoomFor: TypeAlias = Callable[[Urgency], int | None]
"""Records that may be appended, by urgency; None for any number."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One kind of periodic work.

    ``interval_ms``: time from the first candidate to the visit; None: never. ``candidates``: what
    to visit; called often, so it must use an index. ``visit``: ``(image, config, candidate,
    now_ms)`` -> records of one change; none if it is not due, or no longer exists. ``records_max``:
    after this many records a round ends, and the next one begins :data:`PAUSE_MS` later.
    """

    name: str
    interval_ms: Callable[[ControllerConfig], int | None]
    candidates: Callable[[Image, TipIndex], Collection[Any]]
    visit: Callable[[Image, ControllerConfig, Any, int], Sequence[Record]]
    records_max: int = 1_000
    urgency: Urgency = Urgency.ORDINARY


@dataclass(slots=True)
class _Round:
    sweep: Sweep
    due_ms: int | None = None
    left: deque[Any] = field(default_factory=deque)
    appended: int = 0


class Periodic:
    """Runs sweeps. Invariant: a sweep without candidates has no deadline."""

    def __init__(self, config: ControllerConfig, sweeps: Sequence[Sweep]) -> None:
        self._config = config
        self._rounds = [_Round(sweep) for sweep in sweeps if sweep.interval_ms(config) is not None]
        self._begun_ms = 0

    def reset(self, now_ms: int) -> None:
        """Drop every deadline, as a new leader starts."""
        self._begun_ms = now_ms
        for one in self._rounds:
            one.due_ms, one.left, one.appended = None, deque(), 0

    def deadline_ms(
        self, image: Image, index: TipIndex, since_ms: int, room: RoomFor
    ) -> int | None:
        """When :meth:`next` has work to do.

        Args:
            image: the newest.
            index: over that image.
            since_ms: when it became so; intervals that begin now count from then.
            room: records that may be appended; a sweep without room has no deadline.
        """
        earliest: int | None = None
        for one in self._rounds:
            if not one.left and not one.sweep.candidates(image, index):
                one.due_ms = None
                continue
            if one.due_ms is None:
                begin_ms = max(since_ms, self._begun_ms)
                one.due_ms = begin_ms + (one.sweep.interval_ms(self._config) or 0)
            if (earliest is None or one.due_ms < earliest) and not _full(one.sweep, room):
                earliest = one.due_ms
        return earliest

    def next(self, image: Image, index: TipIndex, now_ms: int, room: RoomFor) -> list[Record]:
        """Visit the next candidates of the first sweep that is due.

        Args:
            image: the newest; every change of this call is computed from it, so no change may
                depend on another.
            index: over that image.
            now_ms: the clock.
            room: records that may be appended. The last change may exceed it, as an operation may.

        Returns:
            Records for one batch; empty if none was due.
        """
        for one in self._rounds:
            if one.due_ms is not None and one.due_ms <= now_ms and not _full(one.sweep, room):
                return self._go_on(one, image, index, now_ms, room(one.sweep.urgency))
        return []

    def _go_on(
        self, one: _Round, image: Image, index: TipIndex, now_ms: int, room: int | None
    ) -> list[Record]:
        sweep = one.sweep
        if not one.left:
            one.left = deque(sweep.candidates(image, index))
            one.appended = 0
        records: list[Record] = []
        for _look in range(LOOKS_PER_TICK):
            full = room is not None and len(records) >= room
            if not one.left or full or one.appended >= sweep.records_max:
                break
            change = sweep.visit(image, self._config, one.left.popleft(), now_ms)
            records += change
            one.appended += len(change)
        if one.appended >= sweep.records_max:
            one.left.clear()
            one.due_ms = now_ms + PAUSE_MS
        elif not one.left:
            one.due_ms = now_ms + (sweep.interval_ms(self._config) or 0)
        else:
            one.due_ms = now_ms
        return records


def _full(sweep: Sweep, room: RoomFor) -> bool:
    left = room(sweep.urgency)
    return left is not None and left <= 0
