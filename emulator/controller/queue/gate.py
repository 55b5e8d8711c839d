"""The bound on changes that are not yet in ZooKeeper: which calls wait, and for how long.

An operation is blocked from the moment it is ready to append until it is admitted or gives up. It
gives three measurements: the wait of each operation, the sum of the waits, and the wall-clock time
during which at least one operation waited (100 operations that wait 1 s: sum 100 s, wall-clock 1
s).

Source: KIP-866 "Dual Metadata Writes" (bounded write-behind); no Kafka release has it.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from emulator.controller.context import Call
from emulator.controller.queue.urgency import PASSES_MAX, Urgency, broker_of
from emulator.seam import NO_OTHERS, OtherLimits, Ticket
from emulator.trace.rows import BlockCause


@dataclass(frozen=True, slots=True)
class Blocked:
    """One operation that waited. ``admitted`` is False if it was refused in the end."""

    ticket: Ticket
    api_key: int
    begin_ms: int
    end_ms: int
    admitted: bool
    cause: BlockCause = BlockCause.LAG_RECORDS
    """The bound that was reached when the wait began."""


@dataclass(slots=True, eq=False)
class _Waiter:
    call: Call
    urgency: Urgency
    deadline_ms: int | None
    begin_ms: int
    cause: BlockCause
    over: bool = False


class BoundGate:
    """Queues calls that would append records, in order of arrival, one queue for each bound.

    ``room`` is the number of records that may still be admitted, by urgency, None for no limit.
    Each queue is first in, first out: a new call waits while any call waits in its queue.
    """

    def __init__(self) -> None:
        # Ordered dictionaries: whoever hangs up leaves the middle of a line, and thousands may.
        self._lines: dict[Urgency, OrderedDict[_Waiter, None]] = {
            Urgency.URGENT: OrderedDict(),
            Urgency.ORDINARY: OrderedDict(),
        }
        self._deadlines: list[tuple[int, int, _Waiter]] = []
        self._count = 0
        self._room: dict[Urgency, int | None] = {}
        self._byte_room: dict[Urgency, int | None] = {}
        self.others = NO_OTHERS
        self._passes: Counter[int] = Counter()
        """Calls that passed the second bound since it was reached, by broker."""
        self.blocked: list[Blocked] = []
        """Operations that ended their wait, until they are taken."""
        self._total_ms = 0
        self._begun_ms = 0
        """Sum of when those that still wait began to."""
        self._union_ms = 0
        self._union_begin_ms = 0

    def begin_term(self) -> None:
        """Lift all limits; nothing waits. What was measured stays: sums of a process only grow."""
        assert not len(self), "what waited was refused when the last term ended"
        self._room, self._byte_room, self.others = {}, {}, NO_OTHERS
        self._passes.clear()
        self._deadlines.clear()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def closed(self, urgency: Urgency) -> bool:
        """Whether a call that would append must wait.

        A queue that is not empty is closed. ``hold`` admits waiting calls until the room is used or
        the queue is empty.
        """
        room = self.room(urgency)
        return room is not None and room <= 0

    def room(self, urgency: Urgency) -> int | None:
        """Records that may still be admitted; None for no limit."""
        size = self._byte_room.get(urgency)
        aged = self.others.aged and urgency is Urgency.ORDINARY
        if aged or (size is not None and size <= 0):
            return 0
        return self._room.get(urgency)

    def hold(
        self, room: int | None, hard_room: int | None, others: OtherLimits = NO_OTHERS
    ) -> None:
        """Set what may be admitted from now on, for each of the two bounds."""
        self._room = {Urgency.ORDINARY: room, Urgency.URGENT: hard_room}
        self._byte_room = {
            Urgency.ORDINARY: others.byte_room,
            Urgency.URGENT: others.hard_byte_room,
        }
        self.others = others
        if not self.closed(Urgency.URGENT):
            self._passes.clear()

    def limited(self, call: Call, urgency: Urgency) -> Urgency:
        """The urgency of a call, which passes next if it is vital; lower for the same broker again.

        Args:
            call: appends something.
            urgency: of its kind.
        """
        broker_id = broker_of(call.message)
        if urgency is not Urgency.VITAL or broker_id is None or not self.closed(Urgency.URGENT):
            return urgency
        self._passes[broker_id] += 1
        return urgency if self._passes[broker_id] <= PASSES_MAX else Urgency.URGENT

    def wait(self, call: Call, urgency: Urgency, deadline_ms: int | None, now_ms: int) -> None:
        """Add a call at the end of the queue of its urgency."""
        if not len(self):
            self._union_begin_ms = now_ms
        self._begun_ms += now_ms
        waiter = _Waiter(call, urgency, deadline_ms, now_ms, self._cause(urgency))
        self._lines[urgency][waiter] = None
        if deadline_ms is not None:
            if len(self._deadlines) > 2 * len(self) + 100:
                # Those that are over would stay, requests and all, until their time.
                self._deadlines = [one for one in self._deadlines if not one[2].over]
                heapq.heapify(self._deadlines)
            self._count += 1
            heapq.heappush(self._deadlines, (deadline_ms, self._count, waiter))

    def passed(self, record_count: int, size: int = 0) -> None:
        """Subtract admitted records and their bytes from the room."""
        for rooms, used in ((self._room, record_count), (self._byte_room, size)):
            for urgency, room in rooms.items():
                if room is not None:
                    rooms[urgency] = room - used

    def _cause(self, urgency: Urgency) -> BlockCause:
        room, size = self._room.get(urgency), self._byte_room.get(urgency)
        if room is not None and room <= 0:
            return BlockCause.LAG_RECORDS
        return BlockCause.LAG_BYTES if size is not None and size <= 0 else BlockCause.LAG_MS

    def next(self, now_ms: int) -> tuple[Call, int | None] | None:
        """The first waiting call that may be admitted now, and its deadline; urgent first."""
        for urgency, line in self._lines.items():
            if line and not self.closed(urgency):
                waiter, _ = line.popitem(last=False)
                self._finish(waiter, now_ms, admitted=True)
                return waiter.call, waiter.deadline_ms
        return None

    @property
    def _waiting(self) -> list[_Waiter]:
        return [waiter for line in self._lines.values() for waiter in line]

    @property
    def deadline_ms(self) -> int | None:
        """When the next waiting call times out."""
        while self._deadlines and self._deadlines[0][2].over:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now_ms: int) -> list[Call]:
        """Calls whose deadline has passed; they no longer wait."""
        gone: list[_Waiter] = []
        while (deadline_ms := self.deadline_ms) is not None and deadline_ms <= now_ms:
            waiter = heapq.heappop(self._deadlines)[2]
            gone.append(waiter)
        return self._give_up(gone, now_ms)

    def drop(self, gone: Callable[[Call], bool], now_ms: int) -> list[Call]:
        """Remove calls whose connection is closed; returns them."""
        return self._give_up([one for one in self._waiting if gone(one.call)], now_ms)

    def drain(self, now_ms: int) -> Iterator[Call]:
        """Remove and return every waiting call; each is told of when it is looked at."""
        waiting = self._waiting
        if waiting:
            self._total_ms, self._union_ms = self.total_ms(now_ms), self.union_ms(now_ms)
        self._begun_ms = 0
        for line in self._lines.values():
            line.clear()
        self._deadlines.clear()
        return self._left(waiting, now_ms)

    def _left(self, waiting: Iterable[_Waiter], now_ms: int) -> Iterator[Call]:
        for waiter in waiting:
            self._note(waiter, now_ms, admitted=False)
            yield waiter.call

    def take_blocked(self) -> list[Blocked]:
        """Operations that ended their wait since the last call."""
        taken, self.blocked = self.blocked, []
        return taken

    def union_ms(self, now_ms: int) -> int:
        """Wall-clock time with at least one blocked operation, the current period included."""
        return self._union_ms + (now_ms - self._union_begin_ms if len(self) else 0)

    def total_ms(self, now_ms: int) -> int:
        """Sum of the waits of all operations, those still waiting included."""
        return self._total_ms + len(self) * now_ms - self._begun_ms

    def _give_up(self, gone: list[_Waiter], now_ms: int) -> list[Call]:
        for waiter in gone:
            del self._lines[waiter.urgency][waiter]
            self._finish(waiter, now_ms, admitted=False)
        return [waiter.call for waiter in gone]

    def _finish(self, waiter: _Waiter, now_ms: int, *, admitted: bool) -> None:
        waiter.over = True
        self._total_ms += now_ms - waiter.begin_ms
        self._begun_ms -= waiter.begin_ms
        if not len(self):
            self._union_ms += now_ms - self._union_begin_ms
        self._note(waiter, now_ms, admitted=admitted)

    def _note(self, waiter: _Waiter, now_ms: int, *, admitted: bool) -> None:
        call = waiter.call
        self.blocked.append(
            Blocked(
                call.ticket,
                call.header.api_key,
                waiter.begin_ms,
                now_ms,
                admitted,
                waiter.cause,
            )
        )
