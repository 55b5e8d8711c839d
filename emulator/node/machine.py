"""One controller node: every machine of the process behind one ``step``.

Start reading here. Bytes arrive as events, are decoded to requests (``connections``), and are
answered by the Raft machine or the controller. The controller's records go to the log (``raft``),
become durable, then committed. Committed and stable changes go to the migration driver, which
writes them to ZooKeeper and tells the brokers. ``_run_path`` does these steps in order, until
nothing changes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from emulator.config.java_text import INT_MAX
from emulator.config.load import Config
from emulator.controller.context import Call
from emulator.controller.machine import Controller
from emulator.controller.queue.answers import EncodedReply
from emulator.controller.registry import supported_features
from emulator.controller.result import failure_line
from emulator.controller.rules.credentials import ImageCredentials, taken_away
from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.snapshot import to_records
from emulator.migration.driver import MigrationDriver
from emulator.migration.dual_write.modes import Mode
from emulator.net.faults.script import FaultScript
from emulator.net.reply import Request
from emulator.node.assembly import (
    Machines,
    accepted_connections,
    controller_config,
    migration_of,
    raft_config,
)
from emulator.node.peers import peers_of
from emulator.node.recovery import load_history
from emulator.node.role import NodeRole
from emulator.node.stopping import OrderlyStop
from emulator.node.tracing import Causes, NodeCounters, block_row, request_row
from emulator.raft.format import MetaProperties
from emulator.raft.machine import Raft
from emulator.seam import (
    Accepted,
    Close,
    Closed,
    Connected,
    DiskFailed,
    Effect,
    Event,
    FileNotWritten,
    FileWritten,
    Halt,
    Part,
    Received,
    Reply,
    Row,
    Synced,
    earliest,
)
from emulator.trace.distribution import Distribution
from emulator.trace.rows import PipelineStage, RangeRow
from emulator.zookeeper.client import ZkClient
from wire.frame import SLICED_BYTES
from wire.record_serde import encode_record

# When a snapshot of the metadata begins: enough bytes were appended, or enough time has passed.

RETRY_MS: Final = 60_000
"""Pause after a snapshot that could not be written; it doubles up to ``RETRY_MS_MAX``."""
RETRY_MS_MAX: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class SnapshotFailure:
    """The newest snapshot that could not be written, and none was since. Times are in ms."""

    why: str
    at_ms: int
    again_ms: int
    """When the next one begins at the earliest."""
    times: int
    """How many failed, one after the other."""


class SnapshotSchedule:
    """Counts what the newest snapshot lacks, also what an earlier process has appended of it.

    Otherwise a node that is restarted more often than snapshots are due would never begin one, and
    its log would only grow. The Raft machine writes what was begun in slices. One that cannot be
    written, as on a disk with room for records only, is tried again: a node that ended would end
    again soon after each start.

    Source: SnapshotGenerator, Kafka 3.9, which counts from the start of the process; KIP-630,
    KIP-876. There a failure is told and counted, too, and the node goes on.
    """

    def __init__(self, config: Config, raft: Raft, history: History, now_ms: int) -> None:
        self._bytes_between = config.snapshot_bytes_between
        self._interval_ms = config.snapshot_interval_ms
        self._raft = raft
        self._history = history
        self._alone = len(config.voters) == 1
        self._bytes = 0
        self.failure: SnapshotFailure | None = None
        self.failures = 0
        """How many could not be written in the life of this process."""
        self._due_ms = _lacks_since_ms(raft, now_ms) + config.snapshot_interval_ms

    def begin_if_due(self, now_ms: int) -> list[Effect]:
        """Begin one of what is stable, if that ends where a batch does; else wait until it does."""
        raft = self._raft
        if self.failure is not None:
            due = now_ms >= self.failure.again_ms
        else:
            old = self._interval_ms > 0 and now_ms >= self._due_ms
            due = raft.replica.appended_bytes - self._bytes >= self._bytes_between or old
        if not due or raft.snapshotting:
            return []
        image, latest = self._history.stable, raft.latest_snapshot
        covered = latest.end_offset if latest is not None else 0
        if image.offset < covered or self._unconfirmed(image):
            return []
        last = next(raft.read(image.offset, image.offset), None)
        if last is None or last.last_offset != image.offset:
            return []
        self._bytes = raft.appended_bytes
        self._due_ms = now_ms + self._interval_ms
        values = (encode_record(record, version) for record, version in to_records(image))
        return raft.snapshot(image.offset + 1, image.epoch, values, last.base_timestamp)

    def ended(self, event: FileWritten | FileNotWritten, now_ms: int) -> list[Effect]:
        """The one that was begun, or the leader's, is durable; or ours could not be written."""
        if isinstance(event, FileWritten):
            own = self._raft.writes(event.path)
            effects = self._raft.written(event.path, now_ms)
            if own:
                self.failure = None
                self._history.trimmed(self._raft.log_start_offset)
            return effects
        self._failed(event.why, now_ms)
        return self._raft.snapshot_failed(event.why)

    def _failed(self, why: str, now_ms: int) -> None:
        times = 1 if self.failure is None else self.failure.times + 1
        pause_ms = min(RETRY_MS << min(times - 1, 10), RETRY_MS_MAX)
        self.failure = SnapshotFailure(why, now_ms, now_ms + pause_ms, times)
        self.failures += 1

    def _unconfirmed(self, image: Image) -> bool:
        """Whether ZooKeeper may follow another log than that of the leader of several voters.

        A leader that it has not confirmed appends its activation alone. The log of restored folders
        would grow by that beyond the place that ZooKeeper names, and if it were trimmed to behind
        it, nothing could be compared there any more (``continuity``).
        """
        if self._alone or image.migration_state is not MigrationState.MIGRATION:
            return False
        return self._raft.epoch_at(self._history.confirmed_leader) != image.epoch


def _lacks_since_ms(raft: Raft, now_ms: int) -> int:
    """When the first record was appended that the newest snapshot lacks; now, if there is none."""
    latest = raft.latest_snapshot
    first = 0 if latest is None else latest.end_offset
    batch = next(raft.read(first, first), None)
    # Another machine's clock wrote it, which may be ahead.
    return now_ms if batch is None else min(batch.base_timestamp, now_ms)


_NEVER_MS: Final = 1 << 63


class Timers:
    """The timers of a node: when the next one is due, and what is done then.

    Deadlines are asked for after each step, as the environment sets its timer by them. Until that
    time nothing is due but for what events have caused since; so a step before it looks at no
    timer. What its events made due is found when the deadlines are asked for after it, and done in
    the next step, which is then due at once.

    Args:
        machines, role, stop: of the node.
        left: told the connections that are closed here.
    """

    def __init__(
        self, machines: Machines, role: NodeRole, stop: OrderlyStop, left: Callable[[int], None]
    ) -> None:
        raft, _, controller, connections, migration, peers = machines
        self._of = machines
        self._parts: tuple[Part, ...] = (
            raft,
            controller,
            connections,
            migration,
            peers,
            stop,
            role,
        )
        self._role = role
        self._left = left
        self._quiet_until_ms = 0
        """Nothing is due before, but for what events have caused since; 0: that is not known."""

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do; None: never, if nothing happens."""
        found = earliest([part.deadline_ms for part in self._parts])
        self._quiet_until_ms = _NEVER_MS if found is None else found
        return found

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due, unless nothing can be that was not when ``deadline_ms`` was asked for."""
        quiet, self._quiet_until_ms = now_ms < self._quiet_until_ms, 0
        if quiet:
            return []
        raft, _, controller, connections, migration, peers = self._of
        effects: list[Effect] = []
        if (due_ms := raft.deadline_ms) is not None and due_ms <= now_ms:
            effects += raft.tick(now_ms)
            self._role.follow(now_ms)
        if (due_ms := peers.deadline_ms) is not None and due_ms <= now_ms:
            peers.tick(now_ms)
        if (due_ms := controller.deadline_ms) is not None and due_ms <= now_ms:
            controller.tick(now_ms)
        effects += migration.tick(now_ms)
        if (due_ms := connections.deadline_ms) is not None and due_ms <= now_ms:
            for conn in connections.tick(now_ms):
                self._left(conn)
                effects.append(Close(conn))
        return effects


class KnownUsers:
    """Whether a voter knows which users of SCRAM and which delegation tokens there are.

    After a start it knows those of its newest snapshot, and what its log says may not be committed:
    a user that was deleted since then would get in. So nobody logs in by either until the log has
    reached what a leader said to be committed, and is replayed that far; nor from the moment on
    when the leader no longer has the records that follow ours, until its snapshot is loaded and
    those behind it.
    """

    def __init__(self, raft: Raft, history: History) -> None:
        self.known = False
        self._replica = raft.replica
        self._history = history

    def store(self, image: Callable[[], Image], token_secret: str | None) -> ImageCredentials:
        """Users and tokens of an image, for logins; see there."""
        return ImageCredentials(image, token_secret, lambda: self.known)

    def look(self) -> None:
        """Look at the log: after each event, and before the next login."""
        replica = self._replica
        if replica.outrun:
            self.known = False
        elif not self.known and replica.caught_up:
            # A new epoch, or a moment behind its leader, changes nothing.
            self.known = self._history.committed.offset + 1 >= replica.high_watermark


FREED_PER_STEP: Final = 8
"""Deltas that a step lets go of, with the parts of images that nobody else has. After
a restart all batches behind the snapshot become stable at once, hundreds of 500 records: 32 of them
took 8 ms at 100,000 partitions, 8 took 95 ms at 1,000,000."""
ROUNDS_MAX: Final = 100
"""Maximum rounds of one step; the next step continues, so no step is endless."""


class Node:
    """See the module's docstring.

    Args:
        config: validated configuration.
        identity: content of ``meta.properties``.
        files: relative path -> content of the node's folder.
        rng: placement, back-off, ids.
        stamp: monotonic nanoseconds, for the trace only.
        cpu: nanoseconds that this thread has run, for the metrics only; None: not known.
        new_conn: allocates a connection id.
        now_ms: milliseconds since the Unix epoch, never going back.
        descriptors: number of accepted connections with file descriptors.
        faults: strikes requests, for tests of clients; None: nothing does.

    Raises:
        RecoveryError: the files are damaged or belong to another node; nothing was written.
    """

    def __init__(
        self,
        config: Config,
        identity: MetaProperties,
        files: Mapping[str, bytes],
        *,
        rng: random.Random,
        stamp: Callable[[], int],
        cpu: Callable[[], int] | None = None,
        new_conn: Callable[[], int],
        now_ms: int,
        descriptors: int = INT_MAX,
        faults: FaultScript | None = None,
    ) -> None:
        self.config = config
        self.cluster_id = identity.cluster_id
        self._stamp = stamp
        self._cpu = cpu or int
        self._begin_ns = stamp()
        """When the step began: the same instant as its ``now_ms``."""
        self.raft = Raft(raft_config(config, identity), files, rng, now_ms)
        self.history = load_history(self.raft, supported_features(config.release))
        settings = controller_config(config, identity, files, rng)
        self.controller = Controller(settings, self.raft, self.history, rng)
        self.peers = peers_of(self.raft, self.controller, new_conn, config.quorum_access)
        self.counters = NodeCounters()
        self._replica = self.raft.replica
        self._users = KnownUsers(self.raft, self.history)
        store = self._users.store(lambda: self.controller.stable, config.tokens.secret)
        self.connections = accepted_connections(config, stamp, descriptors, faults, store)
        self.controller.answers.budget = self.connections.budget
        self.migration = migration_of(
            config, self.raft, self.controller, self.peers, new_conn, rng, stamp
        )
        self.blocking_ms = Distribution()
        machines = Machines(
            self.raft, self.history, self.controller, self.connections, self.migration, self.peers
        )
        self.role = NodeRole(machines, self.counters)
        self._causes = Causes()
        self._mode: Mode | None = None
        self._unfinished = False
        self._spent: deque[Delta] = deque()
        """Deltas that all have taken, if they were too many to be let go of in one step."""
        self._left: set[int] = set()
        """Connections that are closed, and whose calls may still wait."""
        self._tracing = bool(config.trace_dir)
        self._seen_end = self.raft.log_end_offset
        self._seen_high_watermark = -1
        self.snapshots = SnapshotSchedule(config, self.raft, self.history, now_ms)
        self._stop = OrderlyStop(machines)
        self._timers = Timers(machines, self.role, self._stop, self._left.add)
        self._halted = False

    @property
    def zk(self) -> ZkClient | None:
        """The client of ZooKeeper; None without a migration."""
        return self.migration.zk

    @property
    def driver(self) -> MigrationDriver | None:
        """The driver of the migration; None without one."""
        return self.migration.driver

    @property
    def active(self) -> bool:
        """Whether this node is the active controller, and may speak for the cluster."""
        return self.role.active

    @property
    def deadline_ms(self) -> int | None:
        """When ``step`` is due even if nothing happens."""
        if self._unfinished:
            return 0
        return self._timers.deadline_ms

    def blocked_union_ms(self, now_ms: int) -> int:
        """Time in which at least one operation waited for ZooKeeper."""
        return self.controller.gate.union_ms(now_ms)

    def blocked_total_ms(self, now_ms: int) -> int:
        """Sum of the waits of all operations for ZooKeeper."""
        return self.controller.gate.total_ms(now_ms)

    def release_hold(self) -> None:
        """``kraft-bridge finalise --yes``; a step must follow. See ``finalising``."""
        self.migration.release()

    def start(self, now_ms: int) -> list[Effect]:
        """Take part in elections, connect to ZooKeeper; a quorum of one leads at once."""
        self._begin_ns = self._stamp()
        effects = self.raft.start(now_ms)
        self.role.follow(now_ms)
        effects += self.role.take_effects() + self.migration.start(now_ms)
        return effects + self._run_path(now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events, run the timers that are due, return the effects in order."""
        if self._halted:
            # A failed file effect prevents all effects after it: here the Halt.
            failed = [event.why for event in events if isinstance(event, DiskFailed)]
            return [Halt(1, f"the disk failed: {why}") for why in failed[:1]]
        self._begin_ns, begin_cpu_ns = self._stamp(), self._cpu()
        effects: list[Effect] = []
        self.connections.budget.renew(busy=self.controller.busy)
        for conn in self.connections.turns():
            effects += self._requests(conn, b"", now_ms)
        # A sync last: what was asked for in this step is part of the group that follows it.
        for event in events if len(events) == 1 else sorted(events, key=_is_synced):
            effects += self._event(event, now_ms)
        if self.controller.next_batch.calls:
            self.controller.flush()
        if self._left:
            self._drop_left(now_ms)
        if self.role.behind:
            self.role.go_on()
        effects += self._tick(now_ms)
        if self.controller.answers.forwarded:  # a long Envelope held them
            self._to_raft(now_ms)
        self._pause()
        effects += self._run_path(now_ms)
        for _ in range(min(FREED_PER_STEP, len(self._spent))):
            self._spent.popleft()
        counters = self.counters
        counters.longest_step_ns = max(counters.longest_step_ns, self._stamp() - self._begin_ns)
        took_ns = self._cpu() - begin_cpu_ns
        counters.longest_step_cpu_ns = max(counters.longest_step_cpu_ns, took_ns)
        if self._stop.begun or self.role.broken:
            effects += self._stop_if_drained(now_ms)
        return effects

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Orderly stop: new work is refused, what is committed goes to ZooKeeper, then ``Halt``.

        A second call stops at once, with exit code 1 if a change is missing in ZooKeeper.
        """
        if self._stop.begun:
            return self._halt("stopped at once; changes may be missing in ZooKeeper", 1)
        self.role.leaving = True
        self._begin_ns = self._stamp()
        effects = self._stop.begin(now_ms)
        effects += self._run_path(now_ms)
        return effects + self._stop_if_drained(now_ms)

    # ---------------------------------------------------------------- events and requests
    def _event(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Accepted():
                return self.connections.accepted(event, now_ms)
            case Received(conn=conn, data=data) if self.connections.owns(conn):
                return self._requests(conn, data, now_ms)
            case Closed(conn=conn) if self.connections.owns(conn):
                self.connections.closed(conn)
                self._left.add(conn)
                return []
            case Received(conn=conn) | Closed(conn=conn) | Connected(conn=conn):
                if self.peers.owns(conn):
                    self.peers.handle(event, now_ms)
                    return []
                if self._left:
                    self._drop_left(now_ms)
                if self.controller.next_batch.calls:
                    self.controller.flush()
                return self.migration.handle(conn, event, now_ms)
            case Synced(token=token):
                if self.controller.next_batch.calls:
                    self.controller.flush()
                return self.raft.synced(token, now_ms)
            case FileNotWritten(path=path) if self.raft.writes(path):
                return self.snapshots.ended(event, now_ms)
            case FileWritten():
                return self.snapshots.ended(event, now_ms)
            case DiskFailed(why=why) | FileNotWritten(why=why):  # the leader's snapshot
                return self._stop.failed(why) + self._halt(f"the disk failed: {why}", 1)

    def _requests(self, conn: int, data: bytes, now_ms: int) -> list[Effect]:
        requests, effects = self.connections.received(conn, data, now_ms)
        for request in requests:
            self.counters.waiting += 1
            self._request(request, now_ms)
        if requests and requests[-1].ticket.bytes >= SLICED_BYTES:
            self._pause()  # the next event may be of the same connection
        if effects and not self.connections.owns(conn):
            self._left.add(conn)
        return effects

    def _drop_left(self, now_ms: int) -> None:
        """Drop the waiting calls of all who hung up, in one look, as one may be long."""
        gone = self._left.copy()
        self._left.clear()
        self.controller.left(lambda ticket: ticket.conn in gone, now_ms)

    def _pause(self) -> None:
        """Whoever has a long request under way cannot get others in before it: they come later."""
        busy_conns = self.controller.answers.busy_conns
        if not busy_conns.moves:
            return
        for conn, busy in busy_conns.take_changed().items():
            if busy:
                self.connections.pause(conn)
            else:
                self.connections.resume(conn)

    def _request(self, request: Request, now_ms: int) -> None:
        call = Call(
            ticket=request.ticket,
            header=request.ticket.header,
            message=request.message,
            principal=request.principal.name,
            client_address=request.peer_address,
            listener=request.listener,
            received_ms=now_ms,
            token_authenticated=request.principal.token_authenticated,
        )
        self.controller.request(call, now_ms)
        if self.controller.answers.forwarded:
            self._to_raft(now_ms)

    def _to_raft(self, now_ms: int) -> None:
        for one in self.controller.answers.take_forwarded():
            refusal = self.peers.refusal(one.header.client_id, one.message, now_ms)
            if refusal is not None:
                self.controller.answers.answer(Reply(one.ticket, refusal))
                continue
            with self.controller.answers.to(one):
                self.raft.request(one.message, one.header.api_version, now_ms, one.ticket)
            # A Vote may end our leadership before the next request is looked at.
            self.role.follow(now_ms)

    # ---------------------------------------------------------------- the path, in order
    def _tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        kept_from = self.migration.keep_from(self.history.stable)
        if kept_from != self._replica.keep_from:
            effects += self._replica.keep(kept_from)
        self.controller.pace.kept_from(kept_from, self.history)
        effects += self._timers.tick(now_ms)
        return effects + self.snapshots.begin_if_due(now_ms)

    def _run_path(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if (mode := self.migration.mode) is not self._mode:
            self._mode = mode
            self._causes.note(mode, now_ms)
        for _round in range(ROUNDS_MAX):
            if self._left:
                self._drop_left(now_ms)
            committed = self._seen_high_watermark
            moved: list[Effect] = []
            if self.migration.dirty:
                moved += self.migration.exchange(now_ms)
            if self.peers.dirty or self.raft.effects:
                moved += self.peers.exchange(now_ms)
            self.role.follow(now_ms)
            if turned := self.role.effects:
                moved += self.role.take_effects()
            moved += self._appended(now_ms)
            moved += self._committed(now_ms)
            moved += self._answers(now_ms)
            if self._replica.outrun or not self._users.known:
                self._users.look()
            effects += moved
            same = not turned and committed == self._seen_high_watermark
            settled = not moved or (same and self._settled)
            if settled:
                break
        self._unfinished = not settled or bool(self.controller.answers.ready or self._spent)
        if self.config.tokens.secret is not None:
            tokens = self.controller.surroundings.tokens
            self._unfinished |= tokens.go_on(self.history.tip.delegation_tokens)
        return effects

    @property
    def _settled(self) -> bool:
        """Whether no machine has anything for another one, though the last round moved something.

        Of several voters, and of a migration that ends, that is not known before the next round.
        """
        if self.peers.dirty or self.migration.dirty:
            return False
        return not self._left and self._seen_end == self._replica.log.end_offset

    def _appended(self, now_ms: int) -> list[Effect]:
        end = self._replica.log.end_offset
        if end == self._seen_end:
            return []
        first, self._seen_end = self._seen_end, end
        for appended in self.controller.take_appended():
            if appended.ticket is not None:
                appended.ticket.offsets = (appended.first_offset, appended.last_offset)
        effects = self.raft.flush(now_ms)
        if self._tracing and first < end:
            effects.append(Row(RangeRow(PipelineStage.APPENDED, first, end - 1, self._stamp())))
        return effects

    def _committed(self, now_ms: int) -> list[Effect]:
        # A snapshot is replayed later than it is known to be committed.
        high_watermark = min(self._replica.high_watermark, self.history.tip.offset + 1)
        if high_watermark <= self._seen_high_watermark:
            return []  # a new leader does not know it at first: what was committed is so once
        first = max(self._seen_high_watermark, 0)
        self._seen_high_watermark = high_watermark
        deltas = self.controller.committed(now_ms)
        if (logins := self.connections.logins) is not None:
            logins.taken_away(taken_away(deltas))
        effects: list[Effect] = []
        if self._tracing:
            no_ops = sum(d.last_offset - d.first_offset + 1 for d in deltas if not d.touched)
            # As old as the gauges take it to be, which count from ``now_ms``.
            last, epoch = (
                high_watermark - 1,
                self.raft.leader_epoch if self.raft.is_leader else None,
            )
            row = RangeRow(PipelineStage.COMMITTED, first, last, self._begin_ns, no_ops, epoch)
            effects.append(Row(row))
        if len(deltas) > FREED_PER_STEP:
            self._spent += deltas
        return effects + self._stable(deltas, now_ms)

    def _stable(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Hand on what became stable, oldest first."""
        return self.migration.metadata(deltas, now_ms)

    def _answers(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        controller = self.controller
        if controller.gate.blocked:
            for blocked in controller.gate.take_blocked():
                self.blocking_ms.observe(blocked.end_ms - blocked.begin_ms)
                if self._tracing:
                    effects.append(Row(block_row(blocked, self._causes, self._stamp())))
        if self.raft.replies:
            for reply in self.raft.take_replies():
                controller.answers.answer(reply)
        if controller.answers.ready:
            for answered in controller.answers.take():
                effects += self._answer(answered, now_ms)
        if controller.answers.failures.new:
            effects += map(failure_line, controller.answers.failures.take())
        if controller.surroundings.registrations.lines:
            effects += controller.surroundings.registrations.take()
        return effects

    def _answer(self, reply: EncodedReply, now_ms: int) -> list[Effect]:
        self.counters.waiting -= 1
        ticket = reply.call.ticket
        effects = self.connections.reply(ticket, reply.payload, now_ms)
        if effects and not self.connections.owns(ticket.conn):
            self._left.add(ticket.conn)
        error = reply.error
        answered_ns = self._stamp()
        self.counters.note_answer(reply, error, answered_ns)
        if self._tracing:
            effects.append(Row(request_row(reply, error, answered_ns)))
        return effects

    def _stop_if_drained(self, now_ms: int) -> list[Effect]:
        if self._halted or self.controller.answers.ready:
            return []
        begun = self._stop.break_off(self.role.broken, now_ms) or self._stop.leave_mark(now_ms)
        if begun:
            return begun + self._run_path(now_ms)
        handing_over = self._stop.hand_over(now_ms)
        if handing_over:
            # The term ends before the migration takes what ZooKeeper has answered.
            self.role.follow(now_ms)
            handing_over += self.role.take_effects()
            handing_over += self._run_path(now_ms)
        effects, end = self._stop.go_on(now_ms)
        effects = handing_over + effects
        return effects if end is None else effects + self._halt(end.why, end.exit_code)

    def _halt(self, why: str, exit_code: int) -> list[Effect]:
        self._halted = True
        return [*self.connections.close_all(), Halt(exit_code, why)]


def _is_synced(event: Event) -> bool:
    return isinstance(event, Synced)
