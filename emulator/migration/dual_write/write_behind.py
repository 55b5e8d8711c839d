"""Dual write: writes committed changes to ZooKeeper, exactly once, in order, after their commit.

``target`` is the newest stable image, ``planned`` the image the last unit ends at. A unit has all
changes in between: those of one znode coalesce while multis are in flight, but for states of
partitions, whose versions count (``topic_changes``). ``modes.py`` lists allowed changes of mode.

Source: KIP-866 "Dual Metadata Writes", "Unavailable ZooKeeper". Kafka 3.9 (KRaftMigrationDriver,
KRaftMigrationZkWriter) drops a failed delta and stops for good after one lost reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write import settle
from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.comparison import Comparing
from emulator.migration.dual_write.confirmations import Confirmations
from emulator.migration.dual_write.modes import Mode, check_mode
from emulator.migration.dual_write.pipeline import (
    UNANSWERED,
    Acknowledged,
    InDoubt,
    MultiTag,
    Pipeline,
    Refused,
)
from emulator.migration.dual_write.poison import Poison, Verdict
from emulator.migration.dual_write.sending import Sending
from emulator.migration.dual_write.unit import Unit
from emulator.migration.position import Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round
from emulator.migration.zk import Zk
from emulator.seam import Effect, Log, Row, earliest
from emulator.znodes.entities import ENTITIES
from emulator.znodes.entity import Entities
from emulator.zookeeper.ops import ZkOutcome


class WriteBehind:
    """The write-behind; see the module's docstring.

    Args:
        zk: submits requests; outcomes come back by :meth:`outcome`.
        stamp: monotonic clock in ns, for trace rows and durations only.
        digest_at: digest of the batch of our log that holds an offset.
        ops_max: data operations in one multi.
        skip_poison: leave out operations that ZooKeeper refuses permanently instead of stopping at
            them.
        entities: the classes beside topics.
    """

    def __init__(
        self,
        zk: Zk,
        stamp: Callable[[], int],
        digest_at: Callable[[int], str],
        *,
        ops_max: int = 400,
        skip_poison: bool = False,
        entities: Entities = ENTITIES,
    ) -> None:
        self._zk = zk
        self._stamp = stamp
        self.pipeline = Pipeline(zk, stamp, ops_max, digest_at)
        self.mode, self.why = Mode.STOPPED, ""
        self.poison = Poison(skip_poison)
        self._settling = settle.Settling(zk)
        self._backlog = Backlog(self.poison.filter, entities)
        self.confirmations = Confirmations(self._backlog)
        self.lag = self.confirmations.lag
        self.comparing = Comparing()
        self.sending = Sending(self.pipeline, self._backlog, stamp)
        self.verified = False
        self._reading: Reading | None = None
        self._reading_since_ns = self._reading_since_ms = 0
        self.reconcile_count = self.doubt_count = 0

    def keep_from(self, image: Image) -> int | None:
        """The offset from which the log must be kept, so that the next claim can compare.

        None: nothing must be kept, because in ``image`` no migration is in progress and no claim of
        this process names a place in the log.
        """
        if self.mode is not Mode.STOPPED:
            return max(0, self.lag.confirmed)
        return 0 if image.migration_state is MigrationState.MIGRATION else None

    @property
    def idle(self) -> bool:
        """Whether the whole tree is reconciled and nothing is in flight or waiting."""
        return (
            self.mode is Mode.RUNNING
            and self.confirmations.reconciled
            and not self.pipeline.units
            and not self.pipeline.in_flight
            and self._backlog.target.offset <= self.lag.confirmed
        )

    def deadline_ms(self, now_ms: int) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self.sending.busy or self.comparing.due(self.mode, self.pipeline):
            return now_ms
        if self.mode is Mode.POISONED:
            return self.poison.retry_ms
        if self.mode is not Mode.RUNNING:
            return None
        # While multis are in flight, the answer to the last one comes first; a stop waits for none.
        later = self.pipeline.in_flight or self.sending.draining
        skipped_ms = None if later else self.poison.skipped_retry_ms
        return earliest((self.sending.deadline_ms(now_ms), skipped_ms))

    @property
    def _kraft_epoch(self) -> int:
        assert self.pipeline.chain is not None
        return self.pipeline.chain.term.kraft_epoch

    def begin(  # noqa: PLR0917  # the claim, what it found, and what it has to do
        self,
        term: Term,
        counters: Counters,
        position: Position,
        image: Image,
        now_ms: int,
        changes: int = 0,
    ) -> list[Effect]:
        """A claim succeeded: take over the chain, first with a multi without data.

        Args:
            term: the claim.
            counters: versions read after the claim, which fences every older writer.
            position: what ``/migration`` held at the claim.
            image: the newest stable image.
            now_ms: now.
            changes: records after ``position`` in the image that ZooKeeper is still to get.
        """
        self.stop()
        self.confirmations.claimed_ms = now_ms
        self.pipeline.begin(term, counters)
        self._backlog.begin(image, position)
        self.confirmations.restart(image.offset, position.offset, changes, now_ms)
        self.poison.forget()
        self._enter(Mode.STARTING)
        return self._pump(now_ms)

    def reconcile(self, now_ms: int) -> list[Effect]:
        """Read the whole tree, compare it with the newest stable image, write the differences."""
        assert self.mode in {Mode.CLAIMED, Mode.RECONCILING, Mode.RUNNING}, self.mode
        return self._begin_reconcile(now_ms)

    def verify(self, now_ms: int) -> list[Effect]:
        """Check whether the claim is still ours: sets ``verified``, or the mode becomes DEPOSED."""
        self.verified = False
        return self._begin_settle(now_ms) if self.mode is Mode.CLAIMED else []

    def check(self, now_ms: int) -> list[Effect]:
        """Read the chain back if :attr:`idle`, which it is again if the claim is still ours."""
        return self._begin_settle(now_ms) if self.idle else []

    def stop(self) -> None:
        """Leadership is lost: drop everything; the next claim fences the multis in flight."""
        self.pipeline.clear()
        self.pipeline.chain = None
        self._reading = None
        self._settling.forget()
        self.confirmations.restart(-1, -1)
        self.sending.busy = False
        self.why = ""
        self.comparing.fail("this controller leads no more")
        self._enter(Mode.STOPPED)

    def drain(self, now_ms: int) -> list[Effect]:
        """Write the remaining changes without waiting for more; done when :attr:`idle`."""
        self.sending.draining = True
        return self._pump(now_ms)

    def metadata(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Take stable deltas, oldest first; only changes in stable deltas are written (G06)."""
        for delta in deltas:
            first, last = delta.first_offset, delta.last_offset
            self.lag.commit(first, last, now_ms, changes=bool(delta.touched))
            self._backlog.add(delta)
        return self._pump(now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take the result of one of our requests; those of an earlier term are ignored."""
        match outcome.tag:
            case MultiTag():
                return self._multi_outcome(outcome, now_ms)
            case _ if (read := self._settling.answered(outcome)) is not None:
                return self._read_back(read, now_ms)
            case _ if self._reading is not None and self._reading.owns(outcome.tag):
                effects = self._reading.outcome(outcome, now_ms)
                return effects + self._read(self._reading, now_ms)
            case _:
                return []

    def zk_connected(self, now_ms: int) -> list[Effect]:
        """A new session is open and the previous one is fenced: read the chain back."""
        return self._begin_settle(now_ms) if self.mode is Mode.DOUBT else []

    def tick(self, now_ms: int) -> list[Effect]:
        """Continue split work, retry poisoned znodes, write progress without changes."""
        if self.mode is Mode.POISONED and self.poison.retry_ms <= now_ms:
            return self._begin_settle(now_ms)
        return self._pump(now_ms)

    def _pump(self, now_ms: int) -> list[Effect]:
        self.sending.busy = False
        self._backlog.held = self.comparing.holds
        if self.mode is Mode.STARTING:
            return self.sending.first(now_ms)
        if self.mode is not Mode.RUNNING:
            return []
        if self.comparing.step(self.pipeline):
            return self._begin_reconcile(now_ms)
        if self.poison.skipped_due(now_ms) and not self.sending.draining:
            if self.pipeline.in_flight:
                return []
            self.poison.try_skipped_again(now_ms)
            return self._begin_reconcile(now_ms)
        effects, refusal = self.sending.fill(self._kraft_epoch, now_ms)
        return effects if refusal is None else effects + self._refused(refusal, now_ms)

    def _multi_outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        report, effects = self.pipeline.outcome(outcome)
        match report:
            case Acknowledged(closed=unit):
                if self.mode is Mode.STARTING:
                    self._enter(Mode.CLAIMED)
                    self.verified = True
                    self.poison.healed()
                if unit is not None:
                    effects += self._confirmed(unit, now_ms)
                return effects + self._pump(now_ms)
            case Refused():
                effects += self._settling.refused(report)
                if not self.pipeline.unanswered:
                    return effects + self._begin_settle(now_ms)
                # Nothing more is sent until the multis in flight are answered.
                self._settling.interrupt(self.mode)
                self._enter(Mode.SETTLING)
                return effects
            case InDoubt(refused=refused):
                if refused is not None:
                    effects += self._settling.refused(refused)
                if self.mode is Mode.DOUBT or self._settling.asking:
                    return effects  # one connection was lost, with each multi in flight
                return effects + self._doubt("multis in flight", now_ms)
            case None:
                return effects

    def _confirmed(self, unit: Unit, now_ms: int) -> list[Effect]:
        self.comparing.confirmed(unit)
        if unit.full:
            self.confirmations.compared(self._reading_since_ms, now_ms)
            self.poison.healed()
        return [Row(self.confirmations.confirm(unit, self._stamp()))]

    def _enter(self, mode: Mode) -> None:
        check_mode(self.mode, mode)
        self.mode = mode

    def _doubt(self, what: str, now_ms: int) -> list[Effect]:
        if self.mode in (Mode.STOPPED, Mode.DEPOSED):
            return []
        self.doubt_count += 1
        effects: list[Effect] = [Log("warning", "zookeeper writes in doubt", {"lost": what})]
        return effects + self._begin_settle(now_ms)

    def _begin_settle(self, now_ms: int) -> list[Effect]:
        """Read the chain back; no multi of ours can be applied any more."""
        self._settling.interrupt(self.mode)
        if not self._zk.connected:
            self._enter(Mode.DOUBT)
            return []
        self._enter(Mode.SETTLING)
        return self._settling.ask(now_ms)

    def _read_back(self, read: Round, now_ms: int) -> list[Effect]:
        if self.mode is not Mode.SETTLING:
            return []
        chain = self.pipeline.chain
        assert chain is not None
        found = settle.conclude(chain, read, self.pipeline.unrefused)
        match found:
            case settle.ReadLost():
                return self._begin_settle(now_ms)
            case settle.Unreadable(path=path, cause=cause):
                return self._unreadable(path, cause, now_ms)
        if self._settling.resume is not Mode.RECONCILING:
            self.poison.readable()
        refusal, self._settling.refusal = self._settling.refusal, None
        match found:
            case settle.Deposed(why=why):
                self.pipeline.clear()
                self._reading = None
                self._enter(Mode.DEPOSED)
                self.why = why
                self.comparing.fail(why)
                return [Log("error", "deposed", {"why": why})]
            case settle.Foreign():
                return self._touched(found, now_ms)
            case settle.Applied(read=standing, count=count):
                in_flight = self.pipeline.in_flight
                closed = self.pipeline.resume(count, standing)
                effects = [e for unit in closed for e in self._confirmed(unit, now_ms)]
                fields: dict[str, object] = {"in_doubt": in_flight, "applied": count}
                effects.append(Log("info", "position in zookeeper was read back", fields))
                # It may have been applied all the same.
                in_vain = refusal is not None and not (refusal.code in UNANSWERED and count)
                if refusal is not None and refusal.op is not None and in_vain:
                    return effects + self._refused(refusal, now_ms)
                return effects + self._continue(count, now_ms)

    def _touched(self, found: settle.Foreign, now_ms: int) -> list[Effect]:
        """A foreign write changed one of our znodes: compare the whole tree with the image."""
        self._backlog.take_back(self.pipeline.start_over(found.read))
        # A multi in doubt may have been applied before the foreign write: without this, /migration
        # would go back to the position confirmed before it.
        self._backlog.confirmed = found.position or self._backlog.confirmed
        effects: list[Effect] = [
            Log("warning", "the whole tree in zookeeper is compared again", {"why": found.why})
        ]
        if self._settling.resume in (Mode.STARTING, Mode.CLAIMED):
            self._enter(Mode.STARTING)
            return effects + self._pump(now_ms)
        return effects + self._begin_reconcile(now_ms)

    def _continue(self, applied: int, now_ms: int) -> list[Effect]:
        """Return to the mode that the doubt interrupted."""
        mode = self._settling.resume
        if mode is Mode.RECONCILING and self._reading is not None:
            # The claim was ours all the time, so what was read before still holds.
            self._enter(mode)
            return self._reading.resume(now_ms)
        if mode is Mode.RECONCILING:
            return self._begin_reconcile(now_ms)
        self._enter(Mode.CLAIMED if mode is Mode.STARTING and applied else mode)
        self.verified = True
        return self._pump(now_ms)

    def _refused(self, refusal: Refused, now_ms: int) -> list[Effect]:
        """A data operation was refused and nothing is in flight."""
        self._settling.interrupt(self.mode)
        self._take_back_units()
        before = frozenset(self.poison.skipped)
        if self.poison.refused(refusal, now_ms) is Verdict.RECONCILE:
            skipped: list[Effect] = [e.log() for e in self.poison.skipped if e not in before]
            return skipped + self._begin_reconcile(now_ms)
        if self._settling.resume not in (Mode.STARTING, Mode.CLAIMED):
            self._settling.resume = Mode.RECONCILING
        return self._wait()

    def _take_back_units(self) -> None:
        """Return unfinished units to the backlog: a reconcile covers them."""
        self._backlog.take_back(self.pipeline.clear())

    def _begin_reconcile(self, now_ms: int) -> list[Effect]:
        assert not self.pipeline.in_flight
        self._take_back_units()
        self._enter(Mode.RECONCILING)
        self.reconcile_count += 1
        self._reading = Reading(self._zk, sorted(self.poison.not_empty))
        self._reading_since_ns, self._reading_since_ms = self._stamp(), now_ms
        return self._reading.begin(now_ms)

    def _read(self, reading: Reading, now_ms: int) -> list[Effect]:
        """If the tree is read completely, compare it with everything committed so far."""
        if reading.lost:  # with each of its requests in flight
            reads = self.mode is Mode.RECONCILING
            return self._doubt("reading the tree", now_ms) if reads else []
        if reading.failure is not None:
            self._reading = None
            self._settling.resume = Mode.RECONCILING
            return self._unreadable(reading.failure.subject, reading.failure.text, now_ms)
        if reading.tree is None:
            return []
        self._reading = None
        self.poison.readable()
        unit = self.comparing.unit(
            reading.tree, self._backlog, self._kraft_epoch, self._reading_since_ns
        )
        if unit is not None:
            self.pipeline.units.append(unit)
        self._enter(Mode.RUNNING)
        return self._pump(now_ms)

    def _unreadable(self, path: str, cause: str, now_ms: int) -> list[Effect]:
        self.poison.unreadable(path, cause, now_ms)
        return self._wait()

    def _wait(self) -> list[Effect]:
        self._enter(Mode.POISONED)
        return [self.poison.znodes[0].log()]
