"""Dual write: committed changes to ZooKeeper, exactly once, in order, later than their commit.

``target`` is the newest stable image, ``planned`` the image the last unit ends at; a unit is made
from all that was committed in between, so changes to one znode coalesce while earlier multis are on
their way. Two multis are in flight, one after any doubt until an answer has come; each result is
looked at. What follows what stands in ``modes.py``.

Source: KIP-866 "Dual Metadata Writes", "Unavailable ZooKeeper". Kafka 3.9 (KRaftMigrationDriver,
KRaftMigrationZkWriter) drops a failed delta and stops for good after one lost reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.migration.dual_write import settle
from emulator.migration.dual_write.backlog import Backlog, Written
from emulator.migration.dual_write.lag import Lag
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.pipeline import (
    Acknowledged,
    InDoubt,
    MultiTag,
    Pipeline,
    Refused,
)
from emulator.migration.dual_write.poison import Poison, Verdict
from emulator.migration.dual_write.unit import Unit
from emulator.migration.position import Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round, RoundTag
from emulator.migration.zk import Zk
from emulator.migration.zk_tree.entities import ENTITIES
from emulator.migration.zk_tree.entity import Entities
from emulator.seam import Effect, Log, Row
from emulator.trace.distribution import Distribution
from emulator.trace.rows import RangeRow, Stage
from emulator.zookeeper.ops import ReadValue, ZkOutcome

DEPTH: Final = 2
NO_OP_WRITE_MS: Final = 500
"""At most one write of ``/migration`` in this time for progress that changes nothing."""


class WriteBehind:
    """Units to multis, outcomes to conclusions; see the module's docstring.

    Args:
        zk: submits requests; outcomes come back by :meth:`outcome`.
        stamp: monotonic clock in ns, for trace rows and durations only.
        ops_max: data operations in one multi.
        skip_poison: leave out operations ZooKeeper refuses for good instead of stopping at them.
        entities: the classes beside topics.
    """

    def __init__(
        self,
        zk: Zk,
        stamp: Callable[[], int],
        *,
        ops_max: int = 400,
        skip_poison: bool = False,
        entities: Entities = ENTITIES,
    ) -> None:
        self._zk = zk
        self._stamp = stamp
        self.pipeline = Pipeline(zk, stamp, ops_max)
        self.mode, self.why = Mode.STOPPED, ""
        self.poison = Poison(skip_poison)
        self.lag = Lag()
        self._resume = Mode.CLAIMED
        self.reconciled = self.verified = self._careful = self._draining = self._busy = False
        self._settling: Round | None = None
        self._refusal: Refused | None = None
        self._reading: Reading | None = None
        self._reading_since_ns = 0
        self._backlog = Backlog(self.poison.filter, entities)
        self._last_write_ms = self._retry_ms = 0
        self._written: list[Written] = []
        self.delta_time_ms, self.snapshot_time_ms = Distribution(), Distribution()
        self.records_confirmed = self.reconcile_count = self.doubt_count = 0

    @property
    def started(self) -> bool:
        """The chain is ours and confirmed, though nothing may have been written yet."""
        return self.mode in (Mode.CLAIMED, Mode.RECONCILING, Mode.RUNNING)

    @property
    def idle(self) -> bool:
        """The whole tree is reconciled and nothing is on its way or waiting to be."""
        return (
            self.mode is Mode.RUNNING
            and self.reconciled
            and not self.pipeline.units
            and not self.pipeline.in_flight
            and self._backlog.target.offset <= self.lag.confirmed
        )

    def deadline_ms(self, now_ms: int) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self._busy:
            return now_ms
        if self.mode is Mode.POISONED:
            return self._retry_ms
        # While the pipeline is full its answers are what wakes us.
        room = not self.pipeline.in_flight and self.pipeline.open_unit is None
        if self.mode is Mode.RUNNING and room and self._backlog.waiting:
            return max(now_ms, self._last_write_ms + NO_OP_WRITE_MS)
        return None

    @property
    def _kraft_epoch(self) -> int:
        assert self.pipeline.chain is not None
        return self.pipeline.chain.term.kraft_epoch

    def take_written(self) -> list[Written]:
        """Units confirmed since the last call, oldest first."""
        written, self._written = self._written, []
        return written

    def begin(
        self, term: Term, counters: Counters, position: Position, image: Image, now_ms: int
    ) -> list[Effect]:
        """A claim succeeded: take over the chain, first with a multi that only says so.

        Args:
            term: the claim.
            counters: versions read after the claim, which fences every older writer.
            position: what ``/migration`` said then.
            image: the newest stable image.
            now_ms: now.
        """
        self.stop()
        self.pipeline.begin(term, counters)
        self._backlog.begin(image, position)
        self.lag.restart(image.offset, position.offset)
        self.poison.forget()
        self._careful = True
        self.mode = self._resume = Mode.STARTING
        return self._pump(now_ms)

    def reconcile(self, now_ms: int) -> list[Effect]:
        """Read the whole tree, compare it with the newest stable image, write what differs."""
        assert self.started, self.mode
        return self._begin_reconcile(now_ms)

    def verify(self, now_ms: int) -> list[Effect]:
        """See whether the claim still stands: ``verified`` says so, or the mode is DEPOSED."""
        self.verified = False
        return self._begin_settle(now_ms) if self.mode is Mode.CLAIMED else []

    def stop(self) -> None:
        """Leadership is lost: forget everything; what is in flight is fenced by the next claim."""
        self.pipeline.clear()
        self.pipeline.chain = None
        self._reading = self._settling = None
        self._refusal = None
        self._written.clear()
        self.lag.restart(-1, -1)
        self._busy = self.reconciled = False
        self.mode, self.why = Mode.STOPPED, ""

    def drain(self, now_ms: int) -> list[Effect]:
        """Write what is left without waiting for more of it; done when :attr:`idle`."""
        self._draining = True
        return self._pump(now_ms)

    def metadata(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Take stable deltas, oldest first; nothing is ever written that is not in one (G06)."""
        for delta in deltas:
            first, last = delta.first_offset, delta.last_offset
            self.lag.commit(first, last, now_ms, changes=bool(delta.touched))
            self._backlog.add(delta)
        return self._pump(now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take what became of one of our requests; those of an earlier term are ignored."""
        match outcome.tag:
            case MultiTag():
                return self._multi_outcome(outcome, now_ms)
            case RoundTag() if self._settling is not None and self._settling.take(outcome):
                return self._settle_outcome(self._settling, now_ms)
            case _ if self._reading is not None and self._reading.owns(outcome.tag):
                effects = self._reading.outcome(outcome, now_ms)
                return effects + self._read(self._reading, now_ms)
            case _:
                return []

    def zk_connected(self, now_ms: int) -> list[Effect]:
        """A new session is there and the one before it is dead: read the chain back."""
        return self._begin_settle(now_ms) if self.mode is Mode.DOUBT else []

    def tick(self, now_ms: int) -> list[Effect]:
        """Go on with work that was cut, retry what is poisoned, write mere progress."""
        if self.mode is Mode.POISONED and self._retry_ms <= now_ms:
            return self._begin_settle(now_ms)
        return self._pump(now_ms)

    def _pump(self, now_ms: int) -> list[Effect]:
        self._busy = False
        effects: list[Effect] = []
        if self.mode is Mode.STARTING and not self.pipeline.in_flight:
            self._last_write_ms = now_ms
            return self.pipeline.send_bare(self._backlog.confirmed, now_ms)
        depth = 1 if self._careful else DEPTH
        while self.mode is Mode.RUNNING and self.pipeline.in_flight < depth and not self._busy:
            unit = self.pipeline.open_unit or self._new_unit(now_ms)
            if unit is None:
                break
            sent = self._send(unit, now_ms)
            if sent is None:
                break
            effects += sent
        return effects

    def _send(self, unit: Unit, now_ms: int) -> list[Effect] | None:
        """Send the next multi of a unit; None: something in flight must be answered first."""
        effects: list[Effect] = []
        if not unit.planned and unit.plan():
            row = RangeRow(Stage.PLANNED, unit.first_offset, unit.last_offset, self._stamp())
            effects.append(Row(row))
        sent = self.pipeline.send_part(unit, now_ms)
        if isinstance(sent, Refused):
            return None if self.pipeline.in_flight else effects + self._refused(sent, now_ms)
        if sent is None:
            self._busy = True
            return effects
        self._last_write_ms = now_ms
        # What is not planned yet is for the next step: none longer than 5 ms.
        self._busy = not unit.planned
        return effects + sent

    def _new_unit(self, now_ms: int) -> Unit | None:
        backlog = self._backlog
        waited = now_ms - self._last_write_ms >= NO_OP_WRITE_MS
        if not backlog.waiting or not (backlog.changed or waited or self._draining):
            return None
        unit = backlog.delta_unit(self._kraft_epoch, self._stamp())
        self.pipeline.units.append(unit)
        return unit

    def _multi_outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        report, effects = self.pipeline.outcome(outcome)
        match report:
            case Acknowledged(closed=unit):
                self._careful = False
                if self.mode is Mode.STARTING:
                    self.mode, self.verified = Mode.CLAIMED, True
                    self.poison.healed()
                if unit is not None:
                    effects += self._confirmed(unit)
                return effects + self._pump(now_ms)
            case Refused():
                first = self._refusal is None
                if first:
                    self._refusal = report
                    effects.append(report.log())
                if self.pipeline.unanswered:
                    # Nothing more is sent until what is in flight has been answered.
                    self._remember()
                    self.mode = Mode.SETTLING
                    return effects
                return effects + self._begin_settle(now_ms)
            case InDoubt():
                return effects + self._doubt("multis in flight", now_ms)
            case None:
                return effects

    def _confirmed(self, unit: Unit) -> list[Effect]:
        stamp = self._stamp()
        self.lag.confirm(unit.last_offset)
        self.records_confirmed += max(0, unit.last_offset - unit.first_offset + 1)
        duration_ms = (stamp - unit.begun_ns) / 1e6
        if unit.full:
            self.snapshot_time_ms.observe(duration_ms)
            self.reconciled = True
            self.poison.healed()
        elif unit.ops_count:
            self.delta_time_ms.observe(duration_ms)
        written = self._backlog.confirm(unit, tell=self.reconciled)
        if written is not None:
            self._written.append(written)
        return [Row(RangeRow(Stage.ZK_ACKED, unit.first_offset, unit.last_offset, stamp))]

    def _remember(self) -> None:
        if self.mode in (Mode.STARTING, Mode.CLAIMED, Mode.RECONCILING, Mode.RUNNING):
            self._resume = self.mode

    def _doubt(self, what: str, now_ms: int) -> list[Effect]:
        if self.mode in (Mode.STOPPED, Mode.DEPOSED):
            return []
        self.doubt_count += 1
        self._reading = None
        effects: list[Effect] = [Log("warning", "zookeeper writes in doubt", {"lost": what})]
        return effects + self._begin_settle(now_ms)

    def _begin_settle(self, now_ms: int) -> list[Effect]:
        """Read the chain back; nothing of ours can be applied any more."""
        self._remember()
        self._careful = True
        if not self._zk.connected:
            self.mode = Mode.DOUBT
            return []
        self.mode = Mode.SETTLING
        self._settling = Round(settle.REQUESTS)
        return self._settling.begin(self._zk, now_ms)

    def _settle_outcome(self, read: Round, now_ms: int) -> list[Effect]:
        self._settling = None
        if self.mode is not Mode.SETTLING:
            return []
        if read.lost:
            return self._begin_settle(now_ms)
        if (failure := settle.unreadable(read)) is not None:
            return self._unreadable(*failure, now_ms)
        return self._settled(read.values, now_ms)

    def _settled(self, values: list[ReadValue], now_ms: int) -> list[Effect]:
        chain = self.pipeline.chain
        assert chain is not None
        if self._resume is not Mode.RECONCILING:
            self.poison.readable()
        refusal, self._refusal = self._refusal, None
        match settle.judge(chain, values):
            case settle.Deposed(why=why):
                self.pipeline.clear()
                self.mode, self.why = Mode.DEPOSED, why
                return [Log("error", "deposed", {"why": why})]
            case settle.Foreign(read=read, why=why, position=position):
                self._untell()
                # A multi in doubt may have been applied before the foreign write: without this
                # /migration would go back to what was confirmed before it.
                self._backlog.confirmed = position or self._backlog.confirmed
                chain.resume(read)
                effects: list[Effect] = [Log("warning", "the chain was touched", {"why": why})]
                if self._resume in (Mode.STARTING, Mode.CLAIMED):
                    self.mode = Mode.STARTING
                    return effects + self._pump(now_ms)
                return effects + self._begin_reconcile(now_ms)
            case settle.Applied(read=read, count=count):
                in_flight = self.pipeline.in_flight
                closed = self.pipeline.settle(count, read)
                effects = [e for unit in closed for e in self._confirmed(unit)]
                fields: dict[str, object] = {"in_doubt": in_flight, "applied": count}
                effects.append(Log("info", "the chain was read back", fields))
                if refusal is not None and refusal.op is not None:
                    return effects + self._refused(refusal, now_ms)
                return effects + self._continue(count, now_ms)

    def _continue(self, applied: int, now_ms: int) -> list[Effect]:
        if self._resume is Mode.RECONCILING:
            return self._begin_reconcile(now_ms)
        self.mode = self._resume
        self.verified = True
        if self.mode is Mode.STARTING and applied:
            self.mode = Mode.CLAIMED
        return self._pump(now_ms)

    def _refused(self, refusal: Refused, now_ms: int) -> list[Effect]:
        """A data operation was refused and nothing is in flight."""
        self._untell()
        if self.poison.refused(refusal, now_ms) is Verdict.RECONCILE:
            return self._begin_reconcile(now_ms)
        if self._resume not in (Mode.STARTING, Mode.CLAIMED):
            self._resume = Mode.RECONCILING
        return self._wait()

    def _untell(self) -> None:
        """Units that cannot be finished as planned go back to pending: a reconcile covers them."""
        self._backlog.take_back(self.pipeline.clear())

    def _begin_reconcile(self, now_ms: int) -> list[Effect]:
        assert not self.pipeline.in_flight
        self._untell()
        self.mode = Mode.RECONCILING
        self.reconcile_count += 1
        self._reading = Reading(self._zk, sorted(self.poison.not_empty))
        self._reading_since_ns = self._stamp()
        return self._reading.begin(now_ms)

    def _read(self, reading: Reading, now_ms: int) -> list[Effect]:
        """See whether the tree is there; then all that is committed by now is compared with it."""
        if reading.lost:
            return self._doubt("reading the tree", now_ms)
        if reading.failure is not None:
            self._reading = None
            self._resume = Mode.RECONCILING
            return self._unreadable(reading.failure.subject, reading.failure.text, now_ms)
        if reading.tree is None:
            return []
        self._reading = None
        self.poison.readable()
        unit = self._backlog.full_unit(reading.tree, self._kraft_epoch, self._reading_since_ns)
        self.pipeline.units.append(unit)
        self.mode = self._resume = Mode.RUNNING
        return self._pump(now_ms)

    def _unreadable(self, path: str, cause: str, now_ms: int) -> list[Effect]:
        self.poison.unreadable(path, cause, now_ms)
        return self._wait()

    def _wait(self) -> list[Effect]:
        self.mode, self._retry_ms = Mode.POISONED, self.poison.retry_ms
        return [self.poison.znodes[0].log()]
