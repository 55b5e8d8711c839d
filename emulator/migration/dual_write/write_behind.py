"""Dual write: writes committed changes to ZooKeeper, exactly once, in order, after their commit.

``target`` is the newest stable image, ``planned`` the image the last unit ends at. A unit has all
changes in between: those of one znode coalesce while multis are in flight, but for states of
partitions, whose versions count (``topic_changes``). ``modes.py`` lists why the mode changes.

Source: KIP-866 "Dual Metadata Writes", "Unavailable ZooKeeper". Kafka 3.9 (KRaftMigrationDriver,
KRaftMigrationZkWriter) drops a failed delta and stops for good after one lost reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.bound import Bound
from emulator.migration.dual_write.chain import Chain, Standing
from emulator.migration.dual_write.comparison import Comparing
from emulator.migration.dual_write.lag import Confirmations
from emulator.migration.dual_write.modes import Mode, ModeEvent, after, interruption
from emulator.migration.dual_write.pipeline import (
    UNANSWERED,
    Acknowledged,
    InDoubt,
    MultiTag,
    Pipeline,
    Refused,
)
from emulator.migration.dual_write.poison import Poison, Reaction
from emulator.migration.dual_write.unit import Unit
from emulator.migration.position import Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round, Zk
from emulator.seam import Effect, Log, Row, earlier
from emulator.trace.rows import PipelineStage, RangeRow
from emulator.znodes import controller, migration, own
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    Sync,
    ZkOutcome,
    ZkRequest,
)

# Settling a doubt: read the chain back and decide what was applied.
#
# :class:`Settling` reads, and keeps the refusal; :func:`judge` draws the conclusion from the four
# znodes read.
#
# Runs only when no multi of ours can still be applied: after the ZooKeeper client has fenced the
# old session, or when every multi in flight has been answered. A read alone does not fence
# (measured: multis delayed in the network were applied after it).

RESTART: Final = (
    "restart this controller to see whether it may claim again, if it is the only voter; of "
    "several the next leader claims"
)
"""What follows when deposed: in the next epoch the guards of the claim check the cluster."""
PATHS: Final = (controller.EPOCH_PATH, controller.PATH, own.PATH, migration.PATH)


REQUESTS: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(p) for p in PATHS)))
"""Read the four znodes after a sync, because the connected server may lag behind the leader."""


class ReadLost(msgspec.Struct, frozen=True):
    """The connection was lost during the read: read again."""


class Unreadable(msgspec.Struct, frozen=True):
    """A read failed with an error other than a missing znode, so there is no conclusion."""

    path: str
    cause: str


class Deposed(msgspec.Struct, frozen=True):
    """The claim is no longer ours."""

    why: str


class Foreign(msgspec.Struct, frozen=True):
    """We hold the claim, but another client changed one of our two znodes: compare the tree."""

    read: Standing
    why: str
    position: Position | None
    """The position of the last multi in doubt that was applied; None: none was."""


class Applied(msgspec.Struct, frozen=True):
    """Exactly ``count`` of the multis in doubt were applied."""

    read: Standing
    count: int


Conclusion: TypeAlias = ReadLost | Unreadable | Deposed | Foreign | Applied


class Settling:
    """Reads the chain back to end a doubt.

    ``refusal``: the first refused multi; the multis after it are refused because of it.
    """

    def __init__(self, zk: Zk) -> None:
        self._zk = zk
        self._round: Round | None = None
        self.refusal: Refused | None = None

    def forget(self) -> None:
        """The term is over."""
        self._round = self.refusal = None

    def refused(self, refusal: Refused) -> list[Effect]:
        """Record and log the first refusal; the others follow from it."""
        if self.refusal is not None:
            return []
        self.refusal = refusal
        return [refusal.log()]

    @property
    def asking(self) -> bool:
        """Whether the znodes are being read."""
        return self._round is not None

    def ask(self, now_ms: int) -> list[Effect]:
        """Read the four znodes; an earlier read is dropped."""
        self._round = Round(REQUESTS)
        return self._round.begin(self._zk, now_ms)

    def answered(self, outcome: ZkOutcome) -> Round | None:
        """Take an outcome; returns the round if this completes it."""
        read = self._round
        if read is None or not read.take(outcome):
            return None
        self._round = None
        return read


def conclude(chain: Chain, read: Round, unrefused: int) -> Conclusion:
    """Draw the conclusion from a complete read; see :func:`judge`."""
    if read.lost:
        return ReadLost()
    for _, code in read.failures:
        return Unreadable("/", f"reading /kraft_bridge and both counters: {code_name(code)}")
    for path, value in zip(PATHS, read.values, strict=True):
        if isinstance(value, ReadFailed) and value.code != ZkCode.NO_NODE:
            return Unreadable(
                path, f"reading /kraft_bridge and both counters: {code_name(value.code)}"
            )
    return judge(chain, read.values, unrefused)


def judge(chain: Chain, values: Sequence[ReadValue], unrefused: int) -> Deposed | Foreign | Applied:
    """Conclude from the four znodes, in the order of :data:`PATHS`, what was applied.

    The content of our own znode says what was applied. Versions alone would count a refused multi
    as applied when another client has written both znodes once.

    Args:
        chain: its multis in flight are in doubt.
        values: as read.
        unrefused: multis in flight before the first one that was refused by an answer.
    """
    epoch, holder, own_node, migration_node = (
        value if isinstance(value, NodeData) else None for value in values
    )
    term = chain.term
    if epoch is None or epoch.stat.version != term.epoch_version:
        return Deposed(
            f"{controller.EPOCH_PATH} is no longer what this controller wrote: another controller "
            f"has claimed the cluster; {RESTART}"
        )
    registration = None if holder is None else controller.try_parse(holder.data)
    if registration is None or (registration.broker_id, registration.kraft_epoch) != (
        term.node_id,
        term.kraft_epoch,
    ):
        return Deposed(
            f"{controller.PATH} no longer names this controller: a rollback has begun; {RESTART}"
        )
    state = None if own_node is None else own.try_parse(own_node.data)
    ours = state is not None and own.of_term(state) == _own_term(term)
    if state is not None and not ours and state.zk_epoch >= term.zk_epoch:
        return Deposed(
            f"{own.PATH} was written by another process (controller {state.node_id}, KRaft epoch "
            f"{state.kraft_epoch}) while our claim was valid. Find the process that uses a "
            f"copy of this controller's folder and end it, then {RESTART}"
        )
    read = Standing(
        Counters(
            own=None if own_node is None else own_node.stat.version,
            migration=None if migration_node is None else migration_node.stat.version,
        ),
        state.sequence if state is not None and ours else None,
    )
    written = chain.written(read.sequence)
    believed = written is not None and written <= unrefused
    count = chain.applied(read)
    if count is not None and believed:
        return Applied(read, count)
    position = None
    if written and believed and state is not None:
        position = Position(state.offset, state.metadata_epoch)
    return Foreign(read, f"{migration.PATH} or {own.PATH} was written by another client", position)


def _own_term(term: Term) -> tuple[int, int, int, str]:
    return term.node_id, term.kraft_epoch, term.zk_epoch, term.incarnation


# Decides what is sent next: units from the backlog, split into multis while there is room.
#
# A small unit waits while a multi is in flight, so that changes gather: each multi, and the
# requests to brokers that follow it, cost as much for one change as for many. What fills a multi
# does not wait (the same rule as Nagle's for TCP). Where ISRs change faster than that, a multi
# waits for more of them, as long as the last one was sent a moment ago and no caller waits for
# ZooKeeper.
#
# A step plans for at most 5 ms; the next step continues, also while no multi may be sent: when an
# answer comes, the next multi is ready. Progress without changes is written rarely.

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
    waiting for more of it. ``bound``: nothing gathers while callers wait at it.
    """

    def __init__(self, pipeline: Pipeline, backlog: Backlog, stamp: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._backlog = backlog
        self._stamp = stamp
        self._last_write_ms = 0
        self.busy = self.draining = False
        self.bound: Bound | None = None

    def deadline_ms(self, now_ms: int) -> int | None:
        """When what gathers, or progress without changes, is to be written."""
        if not self._backlog.waiting:
            return None
        if self._gathers(now_ms):
            return self._last_write_ms + GATHER_MS
        # While the pipeline is full, the next answer continues it.
        if self._pipeline.flights or self._pipeline.open_unit is not None:
            return None
        if self._backlog.changed:  # it gathered until callers began to wait
            return now_ms
        return max(now_ms, self._last_write_ms + NO_OP_WRITE_MS)

    def first(self, now_ms: int) -> list[Effect]:
        """Send the first multi of a chain, which changes no data, unless it is in flight."""
        if self._pipeline.flights:
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
                return effects, None if self._pipeline.flights else sent
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
        row = RangeRow(PipelineStage.PLANNED, unit.first_offset, unit.last_offset, self._stamp())
        return [Row(row)]

    def _gathers(self, now_ms: int) -> bool:
        """Whether the next multi waits, with nothing in flight, for more changes of ISRs."""
        backlog = self._backlog
        if self._pipeline.flights or self.draining or not backlog.waiting:
            return False
        if self.bound is not None and self.bound.waits:
            return False
        return now_ms - self._last_write_ms < GATHER_MS and backlog.many_states(GATHER_CHANGES)

    def _new_unit(self, kraft_epoch: int, now_ms: int) -> Unit | None:
        backlog = self._backlog
        waited = now_ms - self._last_write_ms >= NO_OP_WRITE_MS
        if not backlog.waiting or not (backlog.changed or waited or self.draining):
            return None
        gathers = self._pipeline.flights or self._gathers(now_ms)
        if gathers and not backlog.fills(self._pipeline.ops_max):
            return None
        # To collect a large change took some ms: it is planned in the next step.
        self.busy = backlog.fills(LARGE_OPS)
        unit = backlog.delta_unit(kraft_epoch, self._stamp())
        self._pipeline.units.append(unit)
        return None if self.busy else unit


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
        entities: Entities = ENTITIES_WITHOUT_SECRETS,
    ) -> None:
        self._zk = zk
        self._stamp = stamp
        self.pipeline = Pipeline(zk, stamp, ops_max, digest_at)
        self.mode, self.why = Mode.STOPPED, ""
        self._interrupted = Mode.STARTING
        """The mode in which an interruption, which is still going on or was the last, found us."""
        self.poison = Poison(skip_poison)
        self._settling = Settling(zk)
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
        asked = self.comparing.now is not None
        if self.sending.busy or (asked and self.comparing.due(self.mode, self.pipeline)):
            return now_ms
        if self.mode is Mode.POISONED:
            return self.poison.retry_ms
        if self.mode is not Mode.RUNNING:
            return None
        # While multis are in flight, the answer to the last one comes first; a stop waits for none.
        later = self.pipeline.flights or self.sending.draining
        skipped_ms = None if later else self.poison.skipped_retry_ms
        sending_ms = self.sending.deadline_ms(now_ms)
        return sending_ms if skipped_ms is None else earlier(sending_ms, skipped_ms)

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
        self._enter(ModeEvent.CLAIM_MADE)
        return self._pump(now_ms)

    def reconcile(self, now_ms: int) -> list[Effect]:
        """Read the whole tree, compare it with the newest stable image, write the differences."""
        return self._begin_reconcile(ModeEvent.COPY_COMPLETE, now_ms)

    def verify(self, now_ms: int) -> list[Effect]:
        """Check whether the claim is still ours: sets ``verified``, or the mode becomes DEPOSED."""
        self.verified = False
        return (
            self._begin_settle(ModeEvent.CHECK_ASKED, now_ms) if self.mode is Mode.CLAIMED else []
        )

    def check(self, now_ms: int) -> list[Effect]:
        """Read the chain back if :attr:`idle`, which it is again if the claim is still ours."""
        return self._begin_settle(ModeEvent.CHECK_ASKED, now_ms) if self.idle else []

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
        self._enter(ModeEvent.LEADERSHIP_LOST)

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
        return (
            self._begin_settle(ModeEvent.SESSION_OPENED, now_ms) if self.mode is Mode.DOUBT else []
        )

    def tick(self, now_ms: int) -> list[Effect]:
        """Continue split work, retry poisoned znodes, write progress without changes."""
        if self.mode is Mode.POISONED and self.poison.retry_ms <= now_ms:
            return self._begin_settle(ModeEvent.RETRY_DUE, now_ms)
        return self._pump(now_ms)

    def _pump(self, now_ms: int) -> list[Effect]:
        self.sending.busy = False
        asked = self.comparing.now is not None
        self._backlog.held = asked and self.comparing.holds
        if self.mode is Mode.STARTING:
            return self.sending.first(now_ms)
        if self.mode is not Mode.RUNNING:
            return []
        if asked and self.comparing.step(self.pipeline):
            return self._begin_reconcile(ModeEvent.COMPARISON_DUE, now_ms)
        retry_ms = self.poison.skipped_retry_ms
        if retry_ms is not None and retry_ms <= now_ms and not self.sending.draining:
            if self.pipeline.in_flight:
                return []
            self.poison.try_skipped_again(now_ms)
            return self._begin_reconcile(ModeEvent.COMPARISON_DUE, now_ms)
        effects, refusal = self.sending.fill(self._kraft_epoch, now_ms)
        return effects if refusal is None else effects + self._refused(refusal, now_ms)

    def _multi_outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        report, effects = self.pipeline.outcome(outcome)
        match report:
            case Acknowledged(closed=unit):
                if self.mode is Mode.STARTING:
                    self._enter(ModeEvent.FIRST_MULTI_APPLIED)
                    self.verified = True
                    self.poison.healed()
                if unit is not None:
                    effects += self._confirmed(unit, now_ms)
                return effects + self._pump(now_ms)
            case Refused():
                effects += self._settling.refused(report)
                if not self.pipeline.unanswered:
                    return effects + self._begin_settle(ModeEvent.MULTI_REFUSED, now_ms)
                # Nothing more is sent until the multis in flight are answered.
                self._enter(ModeEvent.MULTI_REFUSED)
                return effects
            case InDoubt(refused=refused):
                if refused is not None:
                    effects += self._settling.refused(refused)
                if self.mode is Mode.DOUBT or self._settling.asking:
                    return effects  # one connection was lost, with each multi in flight
                return effects + self._doubt(ModeEvent.MULTI_UNANSWERED, "multis in flight", now_ms)
            case None:
                return effects

    def _confirmed(self, unit: Unit, now_ms: int) -> list[Effect]:
        self.comparing.confirmed(unit)
        if unit.full:
            self.confirmations.compared(self._reading_since_ms, now_ms)
            self.poison.healed()
        return [Row(self.confirmations.confirm(unit, self._stamp()))]

    def _enter(self, event: ModeEvent) -> None:
        before, self.mode = self.mode, after(self.mode, event, self._interrupted)
        self._interrupted = interruption(before, event, self._interrupted)

    def _doubt(self, event: ModeEvent, what: str, now_ms: int) -> list[Effect]:
        if self.mode in (Mode.STOPPED, Mode.DEPOSED):
            return []
        self.doubt_count += 1
        effects: list[Effect] = [Log("warning", "zookeeper writes in doubt", {"lost": what})]
        return effects + self._begin_settle(event, now_ms)

    def _begin_settle(self, event: ModeEvent, now_ms: int) -> list[Effect]:
        """Read the chain back; no multi of ours can be applied any more."""
        if not self._zk.connected:
            self._enter(ModeEvent.DISCONNECTED)
            return []
        self._enter(event)
        return self._settling.ask(now_ms)

    def _read_back(self, read: Round, now_ms: int) -> list[Effect]:
        if self.mode is not Mode.SETTLING:
            return []
        chain = self.pipeline.chain
        assert chain is not None
        found = conclude(chain, read, self.pipeline.unrefused)
        match found:
            case ReadLost():
                return self._begin_settle(ModeEvent.READ_UNANSWERED, now_ms)
            case Unreadable(path=path, cause=cause):
                return self._unreadable(path, cause, now_ms)
        if self._interrupted is not Mode.RECONCILING:
            self.poison.readable()
        refusal, self._settling.refusal = self._settling.refusal, None
        match found:
            case Deposed(why=why):
                self.pipeline.clear()
                self._reading = None
                self._enter(ModeEvent.CLAIM_LOST)
                self.why = why
                self.comparing.fail(why)
                return [Log("error", "deposed", {"why": why})]
            case Foreign():
                return self._touched(found, now_ms)
            case Applied(read=standing, count=count):
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

    def _touched(self, found: Foreign, now_ms: int) -> list[Effect]:
        """A foreign write changed one of our znodes: compare the whole tree with the image."""
        self._backlog.take_back(self.pipeline.start_over(found.read))
        # A multi in doubt may have been applied before the foreign write: without this, /migration
        # would go back to the position confirmed before it.
        self._backlog.confirmed = found.position or self._backlog.confirmed
        effects: list[Effect] = [
            Log("warning", "the whole tree in zookeeper is compared again", {"why": found.why})
        ]
        if self._interrupted in (Mode.STARTING, Mode.CLAIMED):
            self._enter(ModeEvent.FOREIGN_WRITE)
            return effects + self._pump(now_ms)
        return effects + self._begin_reconcile(ModeEvent.FOREIGN_WRITE, now_ms)

    def _continue(self, applied: int, now_ms: int) -> list[Effect]:
        """Return to the mode that the doubt interrupted."""
        mode = self._interrupted
        if mode is Mode.RECONCILING and self._reading is not None:
            # The claim was ours all the time, so what was read before still holds.
            self._enter(ModeEvent.CHAIN_READ_BACK)
            return self._reading.resume(now_ms)
        if mode is Mode.RECONCILING:
            return self._begin_reconcile(ModeEvent.CHAIN_READ_BACK, now_ms)
        first = mode is Mode.STARTING and applied
        self._enter(ModeEvent.FIRST_MULTI_APPLIED if first else ModeEvent.CHAIN_READ_BACK)
        self.verified = True
        return self._pump(now_ms)

    def _refused(self, refusal: Refused, now_ms: int) -> list[Effect]:
        """A data operation was refused and nothing is in flight."""
        self._take_back_units()
        before = frozenset(self.poison.skipped)
        if self.poison.refused(refusal, now_ms) is Reaction.RECONCILE:
            skipped: list[Effect] = [e.log() for e in self.poison.skipped if e not in before]
            return skipped + self._begin_reconcile(ModeEvent.ZNODE_SKIPPED, now_ms)
        return self._wait(ModeEvent.ZNODE_REFUSED)

    def _take_back_units(self) -> None:
        """Return unfinished units to the backlog: a reconcile covers them."""
        self._backlog.take_back(self.pipeline.clear())

    def _begin_reconcile(self, event: ModeEvent, now_ms: int) -> list[Effect]:
        assert not self.pipeline.in_flight
        self._take_back_units()
        self._enter(event)
        self.reconcile_count += 1
        self._reading = Reading(self._zk, sorted(self.poison.not_empty))
        self._reading_since_ns, self._reading_since_ms = self._stamp(), now_ms
        return self._reading.begin(now_ms)

    def _read(self, reading: Reading, now_ms: int) -> list[Effect]:
        """If the tree is read completely, compare it with everything committed so far."""
        if reading.lost:  # with each of its requests in flight
            reads = self.mode is Mode.RECONCILING
            return (
                self._doubt(ModeEvent.READ_UNANSWERED, "reading the tree", now_ms) if reads else []
            )
        if reading.failure is not None:
            self._reading = None
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
        self._enter(ModeEvent.TREE_READ)
        return self._pump(now_ms)

    def _unreadable(self, path: str, cause: str, now_ms: int) -> list[Effect]:
        self.poison.unreadable(path, cause, now_ms)
        return self._wait(ModeEvent.UNREADABLE)

    def _wait(self, event: ModeEvent) -> list[Effect]:
        self._enter(event)
        return [self.poison.znodes[0].log()]
