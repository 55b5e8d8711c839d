"""The controller: takes calls, appends records to the log, answers when they are committed.

Single-threaded: a call is validated on the newest image (``tip``), its records are replayed and
appended at once, and the response waits in the purgatory. A response never waits for ZooKeeper;
only the number of records that may be appended before ZooKeeper has them is bounded (``hold``).

Source: QuorumController, Kafka 3.9; KIP-631, KIP-866.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from emulator.controller.api.broker_heartbeat import stays_unfenced, unfenced
from emulator.controller.context import Call, ControllerConfig
from emulator.controller.queue.answers import Answers, EncodedReply
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.queue.journal import Appended, Journal, ReplicatedLog
from emulator.controller.queue.periodic import Periodic
from emulator.controller.queue.purgatory import Until, deadline_of
from emulator.controller.queue.sweeps import SWEEPS
from emulator.controller.queue.writes import Writes
from emulator.controller.registry import Handler, handlers
from emulator.controller.result import Record, Result
from emulator.controller.rules import authorizer, broker_changes
from emulator.controller.rules.activation import activation, registration
from emulator.controller.rules.broker_changes import Moves
from emulator.controller.surroundings import Surroundings
from emulator.controller.tables.index import TipIndex
from emulator.metadata.brokers import Broker
from emulator.metadata.brokers import registration as broker_registration
from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.migration_state import MigrationState
from emulator.net.raft_requests import RAFT_REQUESTS
from emulator.seam import NO_OTHERS, OtherLimits, Slices, Ticket, earliest, whole
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

# Fences brokers whose session has timed out, one at a time, oldest contact first.
#
# Source: QuorumController.maybeFenceReplicas and
# ReplicationControlManager.maybeFenceOneStaleBroker, Kafka 3.9.


class SessionTimer:
    """Fences the broker with the oldest heartbeat when its session ends.

    Args:
        config: what fencing depends on.
        history, journal: the metadata.
        heartbeats: the sessions.
        work: makes records in slices, and appends them, in as many batches as needed; they count
            for the bounds on what ZooKeeper does not have.
    """

    def __init__(
        self,
        config: ControllerConfig,
        history: History,
        journal: Journal,
        heartbeats: Heartbeats,
        work: Callable[[Moves, int], None],
    ) -> None:
        self._config = config
        self._history = history
        self._journal = journal
        self._heartbeats = heartbeats
        self._work = work

    @property
    def deadline_ms(self) -> int | None:
        """When the next session ends; None if there is none."""
        oldest = self._silent_longest()
        return None if oldest is None else oldest[1]

    def tick(self, now_ms: int) -> None:
        """Fence the broker with the oldest heartbeat, if its session has ended."""
        oldest = self._silent_longest()
        if oldest is not None and oldest[1] <= now_ms:
            self._fence(oldest[0], now_ms)

    def fence_if_lapsed(self, broker_id: int, now_ms: int) -> None:
        """Fence a broker whose session has expired before the timer reaches it."""
        broker = self._history.tip.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return
        if not self._heartbeats.has_valid_session(self._history.tip, broker_id, now_ms):
            self._fence(broker_id, now_ms)

    def _fence(self, broker_id: int, now_ms: int) -> None:
        tip = self._history.tip
        broker = tip.brokers[broker_id]
        if broker.fenced:
            moves = broker_changes.abdicate(tip, self._config, broker)
        else:
            moves = broker_changes.fence(tip, self._config, self._journal.index, broker)
        self._work(moves, now_ms)

    def _silent_longest(self) -> tuple[int, int] | None:
        tip = self._history.tip
        if tip.migration_state is MigrationState.PRE_MIGRATION:
            return self._heartbeats.oldest(tip)
        return self._heartbeats.oldest(tip, self._journal.index.leads)


# Keeps what was acknowledged to brokers inside a metadata transaction when it is aborted.
#
# Registrations, heartbeats and unregistrations are answered as soon as they are committed, while a
# transaction is open. An abort removes their records, and a broker whose epoch is unknown does not
# register again until it is restarted. So the acknowledged records are appended again after the
# abort. Kafka's controllers do not do this.
#
# Source: KIP-868; the events of QuorumController that run in pre-migration, Kafka 3.9.


def unkept(
    promised: Image, image: Image, config: ControllerConfig, index: TipIndex
) -> tuple[Record, ...]:
    """Records for the next acknowledgement that the abort removed; none when all are restored.

    A registration keeps its epoch and is fenced; one heartbeat unfences it. A broker that was
    fenced, or was allowed to shut down, is fenced again; one that was unregistered is unregistered
    again. Append the records and call again: two brokers may share a partition.

    Args:
        promised: the image just before the abort.
        image: the newest image.
        config: this controller.
        index: over ``image``.
    """
    for broker in promised.brokers.values():
        now = image.brokers.get(broker.id)
        if now is None or now.epoch != broker.epoch:
            return (_registration(broker, image),)
        if broker.fenced and not now.fenced:
            return whole(broker_changes.fence(image, config, index, now))
    for now in image.brokers.values():
        if now.id not in promised.brokers:
            return whole(broker_changes.unregister(image, config, index, now))
    return ()


def _registration(broker: Broker, image: Image) -> r.RegisterBrokerRecord:
    record = broker_registration(broker)
    record.fenced = True
    record.in_controlled_shutdown = False
    if not image.metadata_version.supports(Feature.DIRECTORIES):
        record.log_dirs = ()
    return record


# How often a log that gets nothing else gets a NoOp: less often while none of them can be trimmed.
#
# The log is kept from what ZooKeeper has confirmed. While ZooKeeper is away, or refuses a znode,
# NoOps alone would fill disk and memory: 172,800 a day. So after each :data:`NO_OPS_AT_PACE` of
# them that are kept, the interval is doubled, up to :data:`INTERVAL_MS_MAX`: 33,000 in the first
# day, 53,000 in a week. A record that changes something is never delayed.
#
# Source: KIP-835 for the interval; Kafka's controllers never keep NoOps for ZooKeeper's sake.

NO_OPS_AT_PACE: Final = 7_200
"""An hour of them at the default interval."""
INTERVAL_MS_MAX: Final = 60_000


class IdlePace:
    """The interval of NoOps now.

    Args:
        idle_ms: ``metadata.max.idle.interval.ms``; 0: no NoOps.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self.interval_ms = idle_ms

    def kept_from(self, offset: int | None, log: History) -> None:
        """The log is kept from that offset on; None: nothing is kept for ZooKeeper's sake."""
        if offset is None or log.tip.offset - offset < NO_OPS_AT_PACE:
            self.interval_ms = self._idle_ms
            return
        no_ops = log.tip.offset - offset - sum(log.changes_after(offset))
        slower = self._idle_ms << min(no_ops // NO_OPS_AT_PACE, 16)
        self.interval_ms = max(self._idle_ms, min(slower, INTERVAL_MS_MAX))


TIMED_OUT: Final = "The request timed out before it was complete."


class Controller:
    """One controller; before ``activate`` and after ``resign`` it refuses what needs the leader.

    ``history`` holds the log up to its end when the controller is activated. ``rng`` decides
    placement and topic ids, ``pace`` how often there is a NoOp. ``answers`` holds the responses
    to send and the calls that the Raft machine answers, ``gate`` the operations that wait for
    ZooKeeper, ``next_batch`` those that are appended together next, ``surroundings`` what calls
    leave behind besides records.
    """

    def __init__(
        self, config: ControllerConfig, log: ReplicatedLog, history: History, rng: random.Random
    ) -> None:
        self.config = config
        self.active = False
        self.leader_id = -1
        self.heartbeats = Heartbeats(config.broker_session_timeout_ms)
        self.history = history
        self._log = log
        self._journal = Journal(log, history, self.heartbeats)
        self._periodic = Periodic(config, SWEEPS)
        self.pace = IdlePace(config.metadata_max_idle_interval_ms)
        self.surroundings = Surroundings(config, self._journal, self.heartbeats, rng)
        self.answers = Answers(config.release)
        self._refuse = self.answers.refuse
        self._writes = Writes(
            self._journal, self.answers, self.surroundings, self.heartbeats, self._too_early
        )
        self.next_batch = self._writes.next_batch
        self._purgatory, self._turns = self._writes.purgatory, self._writes.turns
        self.gate = self._writes.gate
        self._sessions = SessionTimer(
            config, history, self._journal, self.heartbeats, self._writes.work
        )
        self._ending = False
        self._now_ms = 0

    # State that other machines read.

    @property
    def tip(self) -> Image:
        """The image of everything appended, committed or not."""
        return self.history.tip

    @property
    def stable(self) -> Image:
        """The image of everything that may be shown."""
        return self.history.stable

    @property
    def appended_bytes(self) -> int:
        """Bytes of all records appended by this process, without NoOps; never falls."""
        return self._journal.appended_bytes

    def changes_after(self, offset: int) -> ChangeCount:
        """Number of records appended above an offset, without those known to change nothing."""
        return self.history.changes_after(offset)

    def take_appended(self) -> list[Appended]:
        """Records appended since the last call."""
        return self._journal.take_appended()

    def take_replies(self) -> list[EncodedReply]:
        """Responses that became ready since the last call, in that order."""
        return self.answers.take()

    # Leadership.

    @property
    def indexed(self) -> bool:
        """Whether :meth:`activate` finds the index over the tip made."""
        return self._journal.indexed

    def index(self) -> Slices[None]:
        """Make the index over the tip, in slices; :meth:`activate` makes it at once."""
        return self._journal.reindex()

    def activate(self, now_ms: int) -> str:
        """Become the active controller: append activation records, start broker sessions anew.

        Returns:
            One line on the state of the migration, for the log.

        Raises:
            ActivationRefusedError: log and configuration contradict each other; nothing is
                appended.
        """
        began = activation(
            self._journal.before_transaction,
            self.config,
            empty=self.history.empty,
            in_transaction=self.history.in_transaction,
            epoch=self._journal.leader_epoch,
        )
        whole(self.index())
        for batch in began.batches:
            self.append(batch, now_ms)
        if (own := registration(self.tip, self.config)) is not None:
            self._journal.append((own,), now_ms)
        self._writes.begin_term()
        self.resume(now_ms)
        return began.note

    def suspend(self, now_ms: int, leader_id: int = -1) -> None:
        """Answer NOT_CONTROLLER to all callers, and append nothing that nobody asks for."""
        self.active = False
        self.leader_id = leader_id
        calls = self._writes.drain(now_ms)
        self.answers.refuse_all(calls, ErrorCode.NOT_CONTROLLER, self._who_leads())

    def resume(self, now_ms: int) -> None:
        """Serve callers; brokers' sessions and periodic work start anew."""
        self.active = True
        self.leader_id = self.config.node_id
        self._periodic.reset(now_ms)
        self.heartbeats.activate(self.tip.brokers, now_ms)

    def resign(self, now_ms: int, leader_id: int = -1) -> None:
        """Another node leads: drop uncommitted records, answer NOT_CONTROLLER to all callers."""
        self.suspend(now_ms, leader_id)
        self._journal.rewind()

    def begin_anew(self, image: Image) -> None:
        """A snapshot has replaced the log of this node, which follows."""
        self._journal.begin_anew(image)

    def end(self) -> None:
        """Begin to shut down: finish accepted calls, refuse new ones, stop broker timers."""
        self._ending = True

    # Calls.

    def request(self, call: Call, now_ms: int) -> None:
        """Take one call; its response appears in ``take_replies``, now or later.

        A failure before anything is appended is answered to the caller.

        Raises:
            DivergedError: the node must stop.
        """
        request = call.message
        try:
            if isinstance(request, m.BrokerHeartbeatRequest) and self._beat(call, request, now_ms):
                return
        except Exception as error:  # noqa: BLE001  # as below, without its cost for each heartbeat
            self.answers.raised(call, error)
            return
        with self.answers.to(call):
            self._request(call, now_ms)

    def _beat(self, call: Call, request: m.BrokerHeartbeatRequest, now_ms: int) -> bool:
        """Answer a heartbeat as ``broker_heartbeat`` does, if it changes nothing but the session.

        Nearly all are so, and a thousand brokers send 500 in a second. False: it is not answered.
        """
        tip = self.history.tip
        if not self.active or self._ending or call.outer is not None or self._turns.busy:
            return False
        waits = self._purgatory.highest_pending_offset(Until.COMMITTED) is not None
        if waits or self.next_batch.calls or self._log.high_watermark <= tip.offset:
            return False
        if not stays_unfenced(tip, request, self.heartbeats):
            return False
        rules = self.config.authorizer
        if rules is not None and authorizer.refusal(call, self._journal, rules):
            return False
        offset, header = request.current_metadata_offset, call.header
        self.surroundings.queue_ms.observe(max(0, now_ms - call.received_ms))
        self.heartbeats.contact(request.broker_id, offset, now_ms)
        answer, rest = unfenced(header.api_version, caught_up=offset >= request.broker_epoch)
        payload = header.correlation_id.to_bytes(4, "big", signed=True) + rest
        self.answers.give(EncodedReply(call, answer, answer, payload))
        return True

    def _request(self, call: Call, now_ms: int) -> None:
        if refusal := authorizer.refusal(call, self._journal, self.config.authorizer):
            self.surroundings.denied(call, refusal, now_ms)
            self.answers.refuse(call, refusal.code, refusal.message)
            return
        if call.header.api_key in RAFT_REQUESTS:
            self.answers.forward(call)
            return
        handler = handlers()[call.header.api_key]
        if handler.read:
            self._read(handler, call, now_ms)
        elif not self.active:
            self._refuse(call, ErrorCode.NOT_CONTROLLER, self._who_leads())
        elif self._ending and not self._turns.called(call):
            self._refuse(call, ErrorCode.NOT_CONTROLLER, "The controller is shutting down.")
        elif not self._too_early(handler, call):
            self._write(handler, call, now_ms)

    def _too_early(self, handler: Handler, call: Call) -> bool:
        """Whether the call was refused because it needs the metadata of ZooKeeper."""
        if handler.pre_migration or not self._in_pre_migration:
            return False
        self._refuse(call, ErrorCode.NOT_CONTROLLER, "The controller is in pre-migration mode.")
        return True

    def left(self, gone: Callable[[Ticket], bool], now_ms: int) -> None:
        """Connections with these tickets are closed: drop their calls that have to wait."""
        for call in (*self._writes.drop(gone, now_ms), *self.answers.long.drop(gone)):
            self._refuse(call, ErrorCode.NETWORK_EXCEPTION, "The caller has hung up.")

    def flush(self) -> None:
        """Append the records of the calls that were taken together; due when a step has taken all.

        Also before the high watermark may move, so that they are part of the next sync.

        Raises:
            DivergedError: the node must stop.
        """
        self._writes.flush()

    def hold(
        self,
        *,
        now_ms: int,
        room: int | None = None,
        hard_room: int | None = None,
        others: OtherLimits = NO_OTHERS,
    ) -> None:
        """Bound what may be appended while ZooKeeper is behind, until the next call of this.

        ``room`` is how many records ordinary calls may append, ``hard_room`` urgent ones; the last
        admitted call may exceed it. None for no limit. The other calls wait in order until their
        deadline.
        """
        self.gate.hold(room, hard_room, others)
        self._writes.release(self.leader_id, now_ms)

    @property
    def busy(self) -> bool:
        """Whether :meth:`go_on` has something to do at once: a long call, or calls behind it."""
        return self._turns.busy or self.answers.under_way

    @property
    def under_way(self) -> bool:
        """Whether a call is done in slices: :meth:`append` would do the rest of it first."""
        return self._turns.under_way

    def go_on(self, now_ms: int) -> None:
        """Do a slice of a long answer, and of a long call; then take those that waited for it."""
        self._now_ms = now_ms
        self.answers.go_on()
        if self.active and self._turns.busy:
            self._take_turns(now_ms)
        self._writes.flush()

    def _take_turns(self, now_ms: int) -> None:
        self._writes.go_on(now_ms)
        # Before the next one: as long as long calls wait, one is under way at each tick.
        self._own_work(now_ms)
        self._writes.release(self.leader_id, now_ms)
        for call in self._turns.waiting():
            deadline_ms = deadline_of(call)
            if deadline_ms is not None and deadline_ms <= now_ms:
                self._refuse(call, ErrorCode.REQUEST_TIMED_OUT, TIMED_OUT)
            else:
                self.request(call, now_ms)

    # The log.

    def append(self, records: Sequence[Record], now_ms: int, *, atomic: bool = True) -> int:
        """Append records that no caller asked for, such as those of the migration.

        The caller provides Begin and End of a metadata transaction. Not subject to ``hold``.

        Args:
            records: at least one. After an AbortTransactionRecord the controller adds the
                registrations and fencings that were acknowledged inside the transaction.
            now_ms: the clock.
            atomic: write all in one batch; else in batches of at most 1,000 records and 8 MiB.

        Returns:
            Offset of the last record.

        Raises:
            ValueError: too many records for one batch, or one that the metadata.version in force
                does not write.
            ReplayError: a record does not fit the metadata before it. Its batch and the batches
                after it are not appended.
        """
        self._writes.finish(now_ms)
        promised = self.tip
        last_offset = self._journal.append(records, now_ms, atomic=atomic)
        if any(isinstance(record, r.AbortTransactionRecord) for record in records):
            while again := unkept(promised, self.tip, self.config, self._journal.index):
                last_offset = self._journal.append(again, now_ms, atomic=False)
        return last_offset

    def committed(self, now_ms: int) -> list[Delta]:
        """The high watermark has moved: send the responses that waited for it.

        Returns:
            What became stable, in order; a whole metadata transaction is one delta.
        """
        del now_ms
        journal = self._journal
        deltas = journal.advance()
        shown = self.history.stable.offset
        for reply in self._purgatory.reached(journal.committed_offset, shown):
            self.answers.give(reply)
        return deltas

    # Time.

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` has something to do next; None while not active, without long answers."""
        if self.busy:
            return 0
        if not self.active:
            return None
        deadlines = [self._purgatory.deadline_ms, self.gate.deadline_ms]
        if not self._ending:
            no_op_ms = self._journal.no_op_ms(self.pace.interval_ms)
            deadlines += [self._sessions.deadline_ms, self._sweep_ms, no_op_ms]
        return earliest(deadlines)

    def tick(self, now_ms: int) -> None:
        """Do what is due: a slice, time out calls, fence the most silent broker, sweep, NoOp.

        Brokers are fenced one per call, oldest first; ``deadline_ms`` is already past while more
        are due. This runs before the metadata copy too: a broker that dies before it must not count
        as ready. Partitions that the copy shows to be led by such a broker get other leaders.
        """
        if self.busy:
            self.go_on(now_ms)
        if not self.active:
            return
        for call in self._purgatory.expired(now_ms):
            self._refuse(call, ErrorCode.REQUEST_TIMED_OUT, TIMED_OUT)
        for call in self.gate.expired(now_ms):
            self.answers.refuse_blocked(call, self.gate.others.retry_ms)
        self._own_work(now_ms)

    # Inside.

    def _own_work(self, now_ms: int) -> None:
        """Append what is due and nobody asks for, unless a long call is under way."""
        if self._turns.under_way or self._ending:
            return  # what a call was decided on does not change
        self._writes.flush()
        self._sessions.tick(now_ms)
        self._small_work(now_ms)

    def _small_work(self, now_ms: int) -> None:
        if self._turns.under_way:
            return  # the end of a session goes on
        self._sweep(now_ms)
        due_ms = self._journal.no_op_ms(self.pace.interval_ms)
        if due_ms is not None and due_ms <= now_ms:
            self._journal.append((r.NoOpRecord(),), now_ms)

    @property
    def _sweep_ms(self) -> int | None:
        """When periodic work is due; None while it has to wait for ZooKeeper."""
        tip, at = self.history.tip, self._journal
        if tip.migration_state is MigrationState.PRE_MIGRATION:
            return None
        return self._periodic.deadline_ms(tip, at.index, at.last_append_ms, self.gate.room)

    def _sweep(self, now_ms: int) -> None:
        if (due_ms := self._sweep_ms) is None or due_ms > now_ms:
            return
        at = self._journal
        records = self._periodic.next(self.history.tip, at.index, now_ms, self.gate.room)
        if records:
            self._writes.admit(records, now_ms, atomic=True)

    @property
    def _in_pre_migration(self) -> bool:
        return self.history.tip.migration_state is MigrationState.PRE_MIGRATION

    def _read(self, handler: Handler, call: Call, now_ms: int) -> None:
        self._now_ms = now_ms
        context = self.surroundings.of(call, now_ms, self.leader_id)
        result = handler.function(self.stable, call.message, context)
        if isinstance(result, Result) and not isinstance(result.response, Call):
            self.answers.give(self.answers.made(call, result.response))
        else:
            self.answers.begin(call, self._reading(call, result))

    def _reading(self, call: Call, result: Result[object] | Slices[Result[object]]) -> Slices[None]:
        if not isinstance(result, Result):
            result = yield from result
        assert not result.records, "a read appends nothing"
        if isinstance(result.response, Call):
            self.request(result.response, self._now_ms)
        else:
            yield from self.answers.giving(call, result.response)

    def _write(self, handler: Handler, call: Call, now_ms: int) -> None:
        if isinstance(call.message, m.BrokerRegistrationRequest) and not self._turns.waits(call):
            # Its session may have ended before the timer ran: fence it first.
            self._writes.flush()
            self._sessions.fence_if_lapsed(call.message.broker_id, now_ms)
        self._writes.take(handler, call, self.leader_id, now_ms)

    def _who_leads(self) -> str:
        if self.leader_id < 0:
            return "No controller appears to be active."
        return f"The active controller appears to be node {self.leader_id}."
