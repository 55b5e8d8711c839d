"""The migration driver: leads a controller through the migration states up to dual write.

The states, what is done in each, and the allowed changes are in ``states.py``. Of several voters
each has a driver: only the leader's writes to ZooKeeper.

Temporary ZooKeeper errors are retried with back-off in every state; errors that an operator must
repair are shown in the status. Source: KIP-866; KRaftMigrationDriver, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration import states
from emulator.migration.authority import Authority, authority
from emulator.migration.dual_write.bound import Bound, Holder
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.write_behind import WriteBehind
from emulator.migration.phases import PhaseRow
from emulator.migration.propagation.channels import Channels
from emulator.migration.propagation.gate import PropagationGate
from emulator.migration.propagation.propagator import Propagator
from emulator.migration.rounds import Retry, Zk
from emulator.migration.settings import Settings
from emulator.migration.states import DriverEvent, State
from emulator.migration.status import Status, Waiting, Waits, phase_of
from emulator.migration.taking_over import preconditions
from emulator.migration.taking_over.checking import CheckTask, ClaimTask
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.conversations import Conversations
from emulator.migration.taking_over.copying import Appender, CopyTask
from emulator.migration.taking_over.preconditions import Reason, deposed
from emulator.migration.taking_over.purge import LOOK_MS, PurgeTask
from emulator.migration.taking_over.tasks import (
    Claimed,
    Done,
    GuardTask,
    Lost,
    Missing,
    RecoverTask,
    Task,
)
from emulator.seam import Effect, Event, Log, Row, earliest, state_after
from emulator.trace.rows import PipelineStage, RangeRow
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from emulator.zookeeper.ops import ZkOutcome


class MigratingController(Appender, Holder, Protocol):
    """The part of the controller that the driver uses."""


class MigrationDriver:
    """See the module's docstring.

    Args:
        settings: configuration.
        zk: the ZooKeeper client; its outcomes come back by :meth:`zk_results`, a new session by
            :meth:`zk_connected`. controller: appends records. log: our metadata log. channels:
            connections to the brokers. stamp: monotonic clock in ns, for trace rows.
    """

    def __init__(  # noqa: PLR0917  # one argument per machine beside this one
        self,
        settings: Settings,
        zk: Zk,
        controller: MigratingController,
        log: LogView,
        channels: Channels,
        stamp: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._zk = zk
        self._controller = controller
        self._log = log
        self._stamp = stamp
        self.channels = channels
        self.propagator = Propagator(
            channels, settings.node_id, settings.inter_broker_listener_name
        )
        classes = entities(Passwords(settings.passwords))
        self.write_behind = WriteBehind(
            zk,
            stamp,
            log.digest_at,
            ops_max=settings.write_behind_multi_ops,
            skip_poison=settings.write_behind_poison == "skip",
            entities=classes,
        )
        self._conversations = Conversations(
            settings, zk, controller, log, self.write_behind, classes
        )
        self.state = State.UNINITIALIZED
        self.records_copied = self.claim_count = self._now_ms = 0
        self._epoch = -1
        self._needed_offset = -1
        self._retry = Retry()
        self._guards_passed: bool | None = None
        self._task: Task | None = None
        self._zk_epoch = self._epoch_version = -1
        self.propagation_gate = PropagationGate(self.propagator)
        self.bound = Bound(controller, settings.bounds)
        self.write_behind.sending.bound = self.bound
        self.waits = Waits()
        self.why_not_ready: preconditions.WhyNot = lambda _voter: ""

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self.propagator.busy or (self._task is not None and self._task.busy):
            return self._now_ms
        behind, due_ms = self.write_behind, self._retry.due_ms
        times = [
            due_ms if due_ms is not None and self._zk.connected else None,
            behind.deadline_ms(self._now_ms),
            self.propagation_gate.due_ms,
        ]
        if self.channels.open:
            times.append(self.channels.deadline_ms)
        if self.channels.half_done.due_ms is not None and self._may_elect_again:
            times.append(self.channels.half_done.due_ms)
        if behind.poison.since_ms is not None:
            times.append(self.propagation_gate.ahead_ms(behind.poison.since_ms))
        if self.bound.bounds.age_ms:
            times.append(self.bound.deadline_ms(behind.lag.oldest_ms))
        return earliest(times)

    @property
    def drained(self) -> bool:
        """Whether ZooKeeper has everything committed, or the driver does not write there."""
        return self.write_behind.mode in (Mode.STOPPED, Mode.DEPOSED) or self.write_behind.idle

    @property
    def authority(self) -> Authority:
        """Whether brokers and callers may be answered."""
        passed, mode = self._guards_passed, self.write_behind.mode
        if passed and mode is not Mode.DEPOSED:
            return Authority.GRANTED  # asked for several times in each step
        return authority(self._controller.tip.migration_state, passed, mode)

    @property
    def copy_progress(self) -> tuple[int, int] | None:
        """Topics that the copy under way has appended, and how many it copies.

        None: there is no copy, or its tree is not read yet.
        """
        if not isinstance(self._task, CopyTask) or self._task.topics is None:
            return None
        return min(len(self._controller.tip.topics), self._task.topics), self._task.topics

    def row(self, waiting: Iterable[Waiting], image: Image | None = None) -> PhaseRow:
        """The phase that is shown; at a follower the log alone shows the state of the cluster.

        Args:
            waiting: the reasons to wait.
            image: the newest stable one.
        """
        return phase_of(
            self._controller.stable if image is None else image,
            self.state,
            self.authority if self._epoch >= 0 else Authority.GRANTED,
            waiting,
        )

    def status(self, now_ms: int) -> Status:
        """Describe the state of the migration, for ``/status`` and ``kraft-bridge status``."""
        image = self._controller.stable
        lag = self.write_behind.lag
        return Status(
            state=self.state.value,
            phase=self.row((), image).older,
            migration_state=MigrationState(image.migration_state).name,
            waiting=self.waits.reasons,
            records_copied=self.records_copied,
            lag_known=self.write_behind.confirmations.reconciled,
            lag_records=lag.records,
            lag_longest_records=lag.longest,
            lag_changed_records=lag.changed_records,
            lag_ms=lag.age_ms(now_ms),
            bounds=self.bound.bounds,
            bound=self.bound.status,
            committed_offset=image.offset,
            confirmed_offset=lag.confirmed,
            zk_epoch=self._zk_epoch,
            write_behind=self.write_behind.mode.value,
            deposed_because=self.write_behind.why,
            poisoned=self.write_behind.poison.znodes,
            blocked_since_ms=self.write_behind.poison.since_ms,
            may_roll_back=image.migration_state != MigrationState.POST_MIGRATION,
        )

    def start(self, now_ms: int) -> list[Effect]:
        """The process has started; ZooKeeper may not be connected yet."""
        self._retry.begin(now_ms)
        return self._proceed([], now_ms)

    def became_leader(self, epoch: int, now_ms: int) -> list[Effect]:
        """We lead in a new epoch; the activation records are appended."""
        effects = self._deactivate(now_ms)
        self._epoch = epoch
        self._needed_offset = self._controller.tip.offset
        self.bound.bind(self._controller.tip.migration_state == MigrationState.MIGRATION)
        if self.state is State.INACTIVE:
            effects += self._enter(DriverEvent.BECAME_LEADER, now_ms)
        return self._proceed(effects, now_ms)

    def resigned(self, now_ms: int) -> list[Effect]:
        """Leadership is lost: nothing is written or propagated any more; the claim is forgotten.

        ZooKeeper may still apply what was sent, but only before the next leader's claim.
        """
        self._epoch = self._needed_offset = self._zk_epoch = self._epoch_version = -1
        if self.state is State.UNINITIALIZED:
            self._drop_task()
            self._retry.begin(now_ms)
        self.waits.clear()
        return self._proceed(self._deactivate(now_ms), now_ms)

    def metadata(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Stable deltas, oldest first; to be called whenever the high watermark has moved."""
        effects: list[Effect] = []
        if self.write_behind.mode is not Mode.STOPPED:
            if self.state is not State.INACTIVE:
                self.propagation_gate.committed(deltas)
            effects += self.write_behind.metadata(deltas, now_ms)
        for delta in deltas:
            if delta.touched.brokers or delta.touched.controllers:
                self._sooner(now_ms)
        return self._proceed(effects, now_ms)

    def zk_results(self, outcomes: Iterable[ZkOutcome], now_ms: int) -> list[Effect]:
        """Results of requests submitted to the ZooKeeper client."""
        effects: list[Effect] = []
        for outcome in outcomes:
            effects += self.write_behind.outcome(outcome, now_ms)
            if self._task is not None:
                effects += self._task.outcome(outcome, now_ms)
        return self._proceed(effects, now_ms)

    def zk_connected(self, now_ms: int) -> list[Effect]:
        """A session is open; no request of an older one can be applied any more."""
        self._sooner(now_ms)
        return self._proceed(self.write_behind.zk_connected(now_ms), now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Run timers, and continue work that was split into pieces."""
        effects = self.channels.tick(now_ms) + self.write_behind.tick(now_ms)
        return self._proceed(effects, now_ms)

    def owns(self, conn: int) -> bool:
        """Whether a connection is one of our broker channels."""
        return self.channels.owns(conn)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """An event of a broker channel."""
        return self.channels.handle(event, now_ms)

    def drain(self, now_ms: int) -> list[Effect]:
        """Clean shutdown: write what is left at once; ready when :attr:`drained` (B03)."""
        return self._proceed(self.write_behind.drain(now_ms), now_ms)

    def _sooner(self, now_ms: int) -> None:
        """What a poll waits for may have changed; a purge comes by the clock alone."""
        if self.state is not State.DUAL_WRITE:
            self._retry.sooner(now_ms)

    def _proceed(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """Take the next steps that the current state allows, in a fixed order."""
        self._now_ms = now_ms
        effects += self._work(now_ms)
        effects += self._follow_writes(now_ms)
        if self.channels.half_done.due_ms is not None and self._may_elect_again:
            self._elect_again(now_ms)
        if busy := self.propagator.busy:
            effects += self.propagator.step(now_ms)
            busy = self.propagator.busy
        if not busy:
            effects += self._after_propagation(now_ms)
        if self.write_behind.mode is Mode.DEPOSED and self.state is not State.INACTIVE:
            effects += self._give_up(now_ms)
        stopped = self.write_behind.mode is Mode.STOPPED
        confirmed = self._needed_offset if stopped else self.write_behind.lag.confirmed
        return effects + self.bound.apply(confirmed, self.write_behind.lag, now_ms)

    @property
    def _may_elect_again(self) -> bool:
        """Whether followers that a broker left half done get another leader epoch now."""
        return not (self.bound.waits or self._controller.under_way)

    def _elect_again(self, now_ms: int) -> None:
        if records := self.channels.half_done.take(self._controller.tip, now_ms):
            self._controller.append(records, now_ms, atomic=False)

    def _work(self, now_ms: int) -> list[Effect]:
        """Run the task of the state, if it has one; else wait for the write-behind."""
        effects: list[Effect] = []
        task = self._task
        if task is not None and task.result is None:
            effects += task.tick(now_ms)
        if task is not None and task.result is not None:
            effects += self._finished(task, now_ms)
        if self.state is State.WAIT_FOR_CONTROLLER_QUORUM:
            effects += self._check_quorum(now_ms)
        due_ms = self._retry.due_ms
        if self._task is None and due_ms is not None and due_ms <= now_ms and self._zk.connected:
            self._retry.due_ms = None
            self._task = self._conversations.next(
                self.state, self._epoch, self._epoch_version, now_ms
            )
            if self._task is not None:
                effects += self._task.begin(now_ms)
        started = self.write_behind.mode is Mode.CLAIMED
        if self.state is State.BECOME_CONTROLLER and started:
            effects += self._after_claim(now_ms)
        if self.state is State.SYNC_KRAFT_TO_ZK and started:
            effects += self.write_behind.reconcile(now_ms)
        return effects

    def _finished(self, task: Task, now_ms: int) -> list[Effect]:
        self._task = None
        self._conversations.ended(task)
        if isinstance(task, CopyTask):
            self.records_copied = task.records
            self.propagation_gate.copied()
        if isinstance(task, ClaimTask):
            self.claim_count += task.raised
        self._guards_passed = task.guards_result(self._guards_passed)
        match task.result:
            case Missing(reasons=reasons):
                return self._wait_for(reasons, now_ms)
            case Claimed(term=term, counters=counters, position=position):
                self._zk_epoch, self._epoch_version = term.zk_epoch, term.epoch_version
                self.waits.clear()
                image = self._controller.stable
                behind = self.bound.behind(position.offset, image)
                return self.write_behind.begin(term, counters, position, image, now_ms, behind)
            case Done():
                return self._after(task, now_ms)
            case Lost() | None:
                self._retry.later(now_ms)
                return []

    def _after(self, task: Task, now_ms: int) -> list[Effect]:
        match task:
            case RecoverTask() if self.state is not State.UNINITIALIZED:
                return []
            case GuardTask():
                return []
            case RecoverTask():
                effects = self._enter(DriverEvent.RECOVERED, now_ms)
                if self._epoch >= 0:
                    effects += self._enter(DriverEvent.BECAME_LEADER, now_ms)
                return effects
            case CheckTask():
                return self._enter(DriverEvent.BROKERS_READY, now_ms)
            case PurgeTask():
                self._retry.due_ms = now_ms + LOOK_MS
                return []
            case _:
                assert isinstance(task, CopyTask), "a claim ends with Claimed, not with Done"
                # Callers are served from here on. ZooKeeper has the copied records already.
                self.bound.bind(True, after=self._controller.stable.offset)
                return self._enter(DriverEvent.COPIED, now_ms, poll=False)

    def _check_quorum(self, now_ms: int) -> list[Effect]:
        image = self._controller.stable
        if not self._conversations.recovered:
            return []
        if image.offset < self._needed_offset:
            self._retry.due_ms = None  # it is asked again when the commit is known
            return []
        event, missing = preconditions.quorum_event(
            image, self._settings.voters, self.why_not_ready
        )
        effects = [] if event is None else self._enter(event, now_ms)
        if missing and self._guards_passed is not False:
            effects += self.waits.set_reasons(missing, now_ms)
            asked = self._task is not None or self._guards_passed
            self._retry.due_ms = None if asked else now_ms
        self.bound.bind(event is DriverEvent.MIGRATION_UNDER_WAY)
        return effects

    def _after_claim(self, now_ms: int) -> list[Effect]:
        if self._controller.stable.migration_state == MigrationState.MIGRATION:
            return self._enter(DriverEvent.CLAIMED_AGAIN, now_ms, poll=False)
        return self._enter(DriverEvent.CLAIMED, now_ms)

    def _follow_writes(self, now_ms: int) -> list[Effect]:
        """Propagate what ZooKeeper has confirmed: brokers read topic configs there."""
        effects: list[Effect] = []
        behind, gate = self.write_behind, self.propagation_gate
        refused_ms = behind.poison.since_ms
        if not behind.confirmations.written and gate.due_ms is None and refused_ms is None:
            return effects
        newest, zk_epoch = self._controller.stable, self._zk_epoch
        written = behind.confirmations.take()
        if written and self.state is State.SYNC_KRAFT_TO_ZK:
            effects += self._enter(DriverEvent.RECONCILED, now_ms, poll=False)
            effects += gate.full(written.pop(0), zk_epoch, now_ms)
        effects += gate.written(written, newest, zk_epoch, now_ms)
        ahead_ms = gate.ahead_ms(refused_ms)
        if ahead_ms is not None and ahead_ms <= now_ms:
            effects += gate.propagate_ahead(newest, zk_epoch, now_ms)
        return effects

    def _after_propagation(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.propagation_gate.handed:
            stamp = self._stamp()
            effects += [
                Row(
                    RangeRow(
                        PipelineStage.PROPAGATED, written.first_offset, written.last_offset, stamp
                    )
                )
                for written in self.propagation_gate.take_handed()
            ]
        if self.state is State.KRAFT_CONTROLLER_TO_BROKER_COMM:
            effects += self._enter(DriverEvent.METADATA_SENT, now_ms)
            self._retry.due_ms = now_ms + LOOK_MS
        return effects

    def _enter(self, event: DriverEvent, now_ms: int, *, poll: bool = True) -> list[Effect]:
        before, self.state = self.state, state_after(states.NEXT, self.state, event)
        self._retry.begin(now_ms if poll else None)
        self._drop_task()
        self._conversations.entered()
        self.waits.clear()
        fields: dict[str, object] = {"from": before.value, "to": self.state.value}
        return [Log("info", "migration driver", fields)]

    def _drop_task(self) -> None:
        if self._task is not None:
            self._task.end()
        self._task = None

    def _deactivate(self, now_ms: int) -> list[Effect]:
        if self.state is State.UNINITIALIZED:
            return []
        led = self.state is not State.INACTIVE
        effects = self._enter(DriverEvent.LEADERSHIP_LOST, now_ms) if led else []
        self._retry.due_ms = self._guards_passed = None
        self._conversations.forget()
        self.write_behind.stop()
        self.bound.bind(False)
        return effects + self.propagation_gate.clear()

    def _give_up(self, now_ms: int) -> list[Effect]:
        """The claim is lost: nothing more is written, and callers are refused."""
        if isinstance(self._task, CopyTask):
            self._task.abort(now_ms)
        effects = self._enter(DriverEvent.CLAIM_LOST, now_ms) + self.propagation_gate.clear()
        effects += self._wait_for([deposed(self.write_behind.why)], now_ms)
        self._retry.due_ms = None
        return effects

    def _wait_for(self, reasons: Sequence[Reason], now_ms: int) -> list[Effect]:
        """Record what is missing and since when; log new reasons."""
        effects = self.waits.set_reasons(reasons, now_ms)
        self._retry.later(now_ms)
        return effects
