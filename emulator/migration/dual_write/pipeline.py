"""The multis in flight: made from units, sent in the chain, acknowledged or taken back.

Two are in flight, more if ZooKeeper is far away (:func:`depth_for`); after a doubt one, until it is
answered. Each result is checked. A failure is reported to ``write_behind.py``, which decides what
to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

import msgspec

from emulator.migration.dual_write.chain import Chain, Standing
from emulator.migration.dual_write.unit import PLAN_OPS_PER_STEP, EncodedGroup, Unit, operations
from emulator.migration.position import Counters, Position, Term
from emulator.migration.rounds import Zk
from emulator.seam import Effect, Log, Row
from emulator.trace.distribution import Distribution
from emulator.trace.rows import MultiResult, MultiRow, PipelineStage, RangeRow
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.jute import FRAME_BYTES_MAX, MULTI_OVERHEAD_BYTES
from emulator.zookeeper.ops import (
    Multi,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkOutcome,
    ZkResult,
)


class MultiTag(msgspec.Struct, frozen=True):
    """Tag of a multi; ``serial`` never repeats in a process."""

    serial: int


class Acknowledged(msgspec.Struct, frozen=True):
    """The oldest multi in flight was applied; ``closed`` is the unit it was the last multi of."""

    closed: Unit | None


class Refused(msgspec.Struct, frozen=True):
    """A multi was refused as a whole.

    ``op``: the refused operation; None if it is one of the chain's with another version.
    """

    code: int
    op: ZkOp | None

    def log(self) -> Log:
        """A log line of this refusal."""
        path = "" if self.op is None else self.op.path
        fields: dict[str, object] = {"error": code_name(self.code), "path": path}
        return Log("warning", "zookeeper refused a multi", fields)


class InDoubt(msgspec.Struct, frozen=True):
    """The connection was lost with this multi in flight.

    ``refused``: it holds one change, and requests of that size do not arrive: ZooKeeper closes the
    connection, or the line is too slow.
    """

    refused: Refused | None = None


DEPTH_MIN: Final = 2
DEPTH_MAX: Final = 8
STEP_MS: Final = 5.0
"""A multi of full size is planned and encoded in about one step."""
ROUND_TRIPS_KEPT: Final = 32


def depth_for(round_trip_ms: float) -> int:
    """How many multis are in flight at most: enough to plan while the answers are on their way.

    Args:
        round_trip_ms: the shortest of the last ones. The others include time in queues, which more
            multis in flight would only make longer.

    >>> depth_for(0.4), depth_for(12.0), depth_for(500.0)
    (2, 4, 8)
    """
    return min(max(DEPTH_MIN, 1 + ceil(round_trip_ms / STEP_MS)), DEPTH_MAX)


Report = Acknowledged | Refused | InDoubt
_RACES: Final = frozenset({ZkCode.BAD_VERSION, ZkCode.NO_NODE, ZkCode.NODE_EXISTS})
MULTI_TOO_LARGE: Final = -1_000
"""In place of a ZooKeeper code: an operation that is too large for a frame."""
MULTI_TOO_SLOW: Final = -1_001
"""In place of a ZooKeeper code: an operation that takes the line too long."""
UNANSWERED: Final = frozenset({MULTI_TOO_LARGE, MULTI_TOO_SLOW})
"""Concluded without an answer."""


class _Flight(msgspec.Struct, eq=False):
    tag: MultiTag
    multi: Multi
    unit: Unit | None
    groups: list[EncodedGroup]
    closes: bool
    sent_ns: int
    size: int
    answered: bool = False
    refused: bool = False


class Pipeline:
    """The units in order, the multis in flight, and the chain they belong to.

    Invariants: a unit leaves the queue when its last multi is acknowledged; multis are acknowledged
    in the order they were sent; operations that are taken back are sent again in the same order.
    """

    def __init__(
        self,
        zk: Zk,
        stamp: Callable[[], int],
        ops_max: int,
        digest_at: Callable[[int], str],
    ) -> None:
        self._zk = zk
        self._stamp = stamp
        self._digest_at = digest_at
        self.ops_max = ops_max
        self._serial = 0
        self._careful = True
        self.depth: int | None = None
        """Maximum multis in flight; None: by the measured round trips."""
        self.chain: Chain | None = None
        self.units: deque[Unit] = deque()
        self.flights: deque[_Flight] = deque()
        """Multis sent and neither acknowledged nor taken back."""
        self.multi_latency_ms = Distribution()
        self._round_trips_ms: deque[float] = deque(maxlen=ROUND_TRIPS_KEPT)
        self._by_round_trips = DEPTH_MIN
        self.multis: dict[str, int] = dict.fromkeys(MultiResult, 0)
        self.multi_ops: dict[str, int] = {}
        self.multi_bytes = 0

    @property
    def in_flight(self) -> int:
        """Multis sent and neither acknowledged nor taken back."""
        return len(self.flights)

    @property
    def unanswered(self) -> int:
        """Multis in flight without an answer."""
        return sum(not flight.answered for flight in self.flights)

    @property
    def unrefused(self) -> int:
        """Multis in flight before the first one that was refused."""
        refused = (index for index, flight in enumerate(self.flights) if flight.refused)
        return next(refused, len(self.flights))

    @property
    def full(self) -> bool:
        """Whether no multi may be sent before one in flight is answered."""
        if self._careful or not self.flights:
            return bool(self.flights)
        return len(self.flights) >= self.depth_now

    @property
    def depth_now(self) -> int:
        """Maximum multis in flight, by the round trips of this process."""
        return self._by_round_trips if self.depth is None else self.depth

    @property
    def open_unit(self) -> Unit | None:
        """The first unit that is not sent completely."""
        for unit in self.units:
            if not unit.packed:
                return unit
        return None

    def begin(self, term: Term, counters: Counters) -> None:
        """Start the chain of a new claim."""
        self.clear()
        self._careful = True
        self.chain = Chain(term, counters, self._digest_at)

    def clear(self) -> list[Unit]:
        """Drop the queue and the multis in flight; returns the units that were not finished."""
        units = list(self.units)
        self.units.clear()
        self.flights.clear()
        return units

    def start_over(self, read: Standing) -> list[Unit]:
        """Empty the queue and continue the chain; returns the queued units."""
        assert self.chain is not None
        self.chain.resume(read)
        self._careful = True
        return self.clear()

    def plan(self, unit: Unit) -> bool:
        """Plan the next piece of work of a unit; returns whether all of it is planned."""
        # More than a multi may hold must be waiting before one is packed.
        return unit.plan(self._zk.op_bytes, self.ops_max + PLAN_OPS_PER_STEP)

    def ready(self, unit: Unit) -> bool:
        """Whether the next multi of a unit can be sent without planning more."""
        # A group that is larger than a multi is sent alone once it is known that more follows.
        if unit.planned or len(unit.groups) <= 1:
            return unit.planned
        return unit.waiting_ops > self.ops_max or unit.waiting_bytes > self._room

    @property
    def _room(self) -> int:
        """Bytes for the data operations of a multi."""
        assert self.chain is not None
        return max(1, self._zk.limit.bytes - self.chain.overhead_bytes(self._zk.op_size))

    def send_bare(self, position: Position, now_ms: int) -> list[Effect]:
        """Send a multi without data."""
        return self._send(None, [], position, now_ms, closes=False)

    def send_part(self, unit: Unit, now_ms: int) -> list[Effect] | Refused | None:
        """Send the next multi of a unit.

        Returns:
            Effects; None when more of the unit must be planned first; Refused when an operation is
            too large for a frame.
        """
        assert self.chain is not None
        overhead = self.chain.overhead_bytes(self._zk.op_size)
        groups = unit.pack(self.ops_max, max(1, self._zk.limit.bytes - overhead))
        if groups is None:
            return None
        if unit.packed_bytes > FRAME_BYTES_MAX - overhead:
            unit.untake(groups)
            return self._too_large(groups)
        position = unit.position
        unit.parts_sent += 1
        return self._send(unit, groups, position, now_ms, closes=unit.packed)

    def outcome(self, outcome: ZkOutcome) -> tuple[Report | None, list[Effect]]:
        """Take the outcome of a multi; None if it is not in flight any more.

        After the first refusal or loss no multi counts as applied until :meth:`resume`: the chain
        read back decides.
        """
        for flight in self.flights:
            if flight.tag == outcome.tag:
                break
        else:
            return None, []
        in_order = flight is self.flights[0] and not flight.answered
        flight.answered = True
        match outcome:
            case ZkResult(value=value) if in_order:
                assert self.chain is not None
                assert isinstance(value, list)
                if not self.chain.acknowledge(value):
                    return Refused(0, None), self._count(flight, MultiResult.OK)
                self._careful = False
                return self._applied(), self._count(flight, MultiResult.OK)
            case ZkResult():
                return Refused(0, None), self._count(flight, MultiResult.OK)
            case ZkFailed(code=code, index=index):
                flight.refused = True
                ops = flight.multi.ops
                data = 0 < index < len(ops) - 2
                # The chain handles a changed version; any other refusal needs an operator.
                op = ops[index] if data or (index >= 0 and code not in _RACES) else None
                return Refused(code, op), self._count(flight, MultiResult.REFUSED)
            case ZkLost():
                return InDoubt(self._hopeless(flight)), self._count(flight, MultiResult.LOST)

    def resume(self, applied: int, read: Standing) -> list[Unit]:
        """Continue: the first ``applied`` multis in doubt were applied, the others are taken back.

        Returns:
            The units whose last multi was applied.
        """
        assert self.chain is not None
        closed = []
        for _ in range(applied):
            # It took a request of this size: connections that end there have another cause.
            self._zk.limit.answered(self.flights[0].size)
            unit = self._applied().closed
            if unit is not None:
                closed.append(unit)
        rest = list(self.flights)
        self.flights.clear()
        self._careful = True
        self._return(rest)
        self.chain.resume(read)
        return closed

    def _hopeless(self, lost: _Flight) -> Refused | None:
        """The refusal of a multi that holds one change, if none of its size ever arrives."""
        limit = self._zk.limit
        if len(lost.groups) != 1:
            return None
        if limit.refuses(lost.size):
            return self._too_large(lost.groups)
        slow = limit.in_time.too_slow(lost.size)
        return self._too_large(lost.groups, MULTI_TOO_SLOW) if slow else None

    def _too_large(self, groups: Sequence[EncodedGroup], code: int = MULTI_TOO_LARGE) -> Refused:
        """The refusal of a multi because of its size, by its largest operation."""
        ops = (op for group, _ in groups for op in group)
        return Refused(code, max(ops, key=self._zk.op_size))

    def _applied(self) -> Acknowledged:
        flight = self.flights.popleft()
        if not flight.closes or flight.unit is None:
            return Acknowledged(None)
        assert self.units[0] is flight.unit, "units are finished in order"
        return Acknowledged(self.units.popleft())

    def _return(self, flights: list[_Flight]) -> None:
        for flight in reversed(flights):
            if flight.unit is not None:
                flight.unit.put_back(flight.groups)

    def _send(
        self,
        unit: Unit | None,
        groups: list[EncodedGroup],
        position: Position,
        now_ms: int,
        *,
        closes: bool,
    ) -> list[Effect]:
        assert self.chain is not None
        self._serial += 1
        multi = self.chain.build(
            [op for ops, _ in groups for op in ops],
            position,
            self._zk.op_bytes,
            [encoded for _, encoded in groups],
        )
        assert multi.body is not None
        size = MULTI_OVERHEAD_BYTES + len(multi.body)
        stamp = self._stamp()
        flight = _Flight(MultiTag(self._serial), multi, unit, groups, closes, stamp, size)
        self.flights.append(flight)
        effects: list[Effect] = []
        if closes and unit is not None:
            first, last = unit.first_offset, unit.last_offset
            effects.append(Row(RangeRow(PipelineStage.ZK_SENT, first, last, stamp)))
        return effects + self._zk.submit(flight.tag, multi, now_ms)

    def _count(self, flight: _Flight, result: MultiResult) -> list[Effect]:
        self.multis[result] += 1
        stamp = self._stamp()
        kinds = operations(flight.groups, flight.size)
        if result is MultiResult.OK:
            round_trip_ms = (stamp - flight.sent_ns) / 1e6
            self.multi_latency_ms.observe(round_trip_ms)
            self._round_trips_ms.append(round_trip_ms)
            self._by_round_trips = depth_for(min(self._round_trips_ms))
            self.multi_bytes += flight.size
            for kind in kinds:
                self.multi_ops[kind.operation] = self.multi_ops.get(kind.operation, 0) + kind.ops
        unit = flight.unit
        first = 0 if unit is None else unit.first_offset
        last = unit.last_offset if unit is not None and flight.closes else first - 1
        return [
            Row(
                MultiRow(
                    sent_ns=flight.sent_ns,
                    answered_ns=stamp,
                    ops=len(flight.multi.ops),
                    bytes=flight.size,
                    first_offset=first,
                    last_offset=last,
                    result=result,
                    operations=kinds,
                )
            )
        ]
