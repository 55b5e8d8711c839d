"""One controller node: every machine of the process behind one ``step``.

Start reading here. Bytes arrive as events, are decoded to requests (``connections``), and are
answered by the Raft machine or the controller. The controller's records go to the log (``raft``),
become durable, then committed. Committed and stable changes go to the migration driver, which
writes them to ZooKeeper and tells the brokers. ``_run_path`` does these steps in order, until
nothing changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from emulator.config.java_text import INT_MAX
from emulator.config.load import Config
from emulator.controller.answers import EncodedReply
from emulator.controller.context import Call
from emulator.controller.credentials import taken_away
from emulator.controller.failures import failure_line
from emulator.controller.machine import Controller
from emulator.controller.supported import supported_features
from emulator.metadata.delta import Delta
from emulator.migration.driver import MigrationDriver
from emulator.net.faults.script import FaultScript
from emulator.net.reply import Request
from emulator.node.assembly import accepted_connections, controller_config, raft_config
from emulator.node.known_users import KnownUsers
from emulator.node.migrating import migration_of
from emulator.node.office import NodeOffice
from emulator.node.peers import peers_of
from emulator.node.recovery import load_history
from emulator.node.snapshots import SnapshotSchedule
from emulator.node.stopping import OrderlyStop
from emulator.node.timers import Timers
from emulator.node.tracing import Causes, NodeCounters, block_row, request_row
from emulator.raft.format import MetaProperties
from emulator.raft.machine import Raft
from emulator.seam import (
    Accepted,
    Closed,
    Connected,
    DiskFailed,
    Effect,
    Event,
    FileNotWritten,
    FileWritten,
    Halt,
    Received,
    Reply,
    Row,
    Synced,
)
from emulator.trace.distribution import Distribution
from emulator.trace.rows import RangeRow, Stage
from emulator.zookeeper.client import ZkClient
from wire.frame import SLICED_BYTES

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
        new_conn: Callable[[], int],
        now_ms: int,
        descriptors: int = INT_MAX,
        faults: FaultScript | None = None,
    ) -> None:
        self.config = config
        self.cluster_id = identity.cluster_id
        self._stamp = stamp
        self.raft = Raft(raft_config(config, identity), files, rng, now_ms)
        self.history = load_history(self.raft, supported_features(config.release))
        settings = controller_config(config, identity, files, rng)
        self.controller = Controller(settings, self.raft, self.history, rng)
        self.peers = peers_of(self.raft, self.controller, new_conn, config.quorum_access)
        self.counters = NodeCounters()
        self._users = KnownUsers(self.raft, self.history)
        store = self._users.store(lambda: self.controller.stable, config.tokens.secret)
        self.connections = accepted_connections(config, stamp, descriptors, faults, store)
        self.controller.answers.budget = self.connections.budget
        self.migration = migration_of(
            config, self.raft, self.controller, self.peers, new_conn, rng, stamp
        )
        self.blocking_ms = Distribution()
        self.office = NodeOffice(
            self.raft, self.controller, self.history, self.migration, self.peers, self.counters
        )
        self._causes = Causes()
        self._unfinished = False
        self._left: set[int] = set()
        """Connections that are closed, and whose calls may still wait."""
        self._paused: set[int] = set()
        """Connections whose next requests are not taken, as one of them takes long."""
        self._tracing = bool(config.trace_dir)
        self._seen_end = self.raft.log_end_offset
        self._seen_high_watermark = -1
        self.snapshots = SnapshotSchedule(config, self.raft, self.history, now_ms)
        self._stop = OrderlyStop(self.raft, self.controller, self.migration, self.peers)
        self._timers = Timers(
            self.raft,
            self.controller,
            self.connections,
            self.migration,
            self.peers,
            self.office,
            self._stop,
            self._left.add,
        )
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
        return self.office.active

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
        effects = self.raft.start(now_ms)
        effects += self.office.take_effects(now_ms)
        effects += self.migration.start(now_ms)
        return effects + self._run_path(now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events, run the timers that are due, return the effects in order."""
        if self._halted:
            # A failed file effect prevents all effects after it: here the Halt.
            failed = [event.why for event in events if isinstance(event, DiskFailed)]
            return [Halt(1, f"the disk failed: {why}") for why in failed[:1]]
        begin_ns = self._stamp()
        effects: list[Effect] = []
        self.connections.budget.renew(busy=self.controller.busy)
        for conn in self.connections.turns():
            effects += self._requests(conn, b"", now_ms)
        # A sync last: what was asked for in this step is part of the group that follows it.
        for event in sorted(events, key=_is_synced):
            effects += self._event(event, now_ms)
        self._drop_left(now_ms)
        self.office.go_on()
        effects += self._tick(now_ms)
        self._to_raft(now_ms)  # what a long Envelope held
        self._pause()
        effects += self._run_path(now_ms)
        self.counters.longest_step_ns = max(self.counters.longest_step_ns, self._stamp() - begin_ns)
        return effects + self._stop_if_drained(now_ms)

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Orderly stop: new work is refused, what is committed goes to ZooKeeper, then ``Halt``.

        A second call stops at once, with exit code 1 if a change is missing in ZooKeeper.
        """
        if self._stop.begun:
            return self._halt("stopped at once; changes may be missing in ZooKeeper", 1)
        self.office.leaving = True
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
                self._drop_left(now_ms)
                return self.migration.handle(conn, event, now_ms)
            case Synced(token=token):
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
        if self._left:
            gone = self._left.copy()
            self._left.clear()
            self.controller.left(lambda ticket: ticket.conn in gone, now_ms)

    def _pause(self) -> None:
        """Whoever has a long request under way cannot get others in before it: they come later."""
        if not self._paused and not self.controller.busy:
            return
        paused, self._paused = self._paused, self.controller.busy_conns
        for conn in sorted(paused - self._paused):
            self.connections.resume(conn)
        for conn in sorted(self._paused - paused):
            self.connections.pause(conn)

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
            self.office.follow(now_ms)

    # ---------------------------------------------------------------- the path, in order
    def _tick(self, now_ms: int) -> list[Effect]:
        kept_from = self.migration.keep_from(self.controller.stable)
        trimmed = self.raft.keep_from(kept_from)
        self.controller.kept_from(kept_from)
        return trimmed + self._timers.tick(now_ms) + self.snapshots.begin_if_due(now_ms)

    def _run_path(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        self._causes.note(self.migration.mode, now_ms)
        for _round in range(ROUNDS_MAX):
            self._drop_left(now_ms)
            moved = self.migration.exchange(now_ms)
            moved += self.peers.exchange(now_ms)
            moved += self.office.take_effects(now_ms)
            moved += self._appended(now_ms)
            moved += self._committed(now_ms)
            moved += self._answers(now_ms)
            self._users.look()
            effects += moved
            self._unfinished = bool(moved) or self.controller.answers.ready
            if not moved:
                break
        tokens = self.controller.surroundings.tokens
        self._unfinished |= tokens.go_on(self.history.tip.delegation_tokens)
        return effects

    def _appended(self, now_ms: int) -> list[Effect]:
        end = self.raft.log_end_offset
        if end == self._seen_end:
            return []
        first, self._seen_end = self._seen_end, end
        effects = self.raft.flush(now_ms)
        if self._tracing and first < end:
            effects.append(Row(RangeRow(Stage.APPENDED, first, end - 1, self._stamp())))
        return effects

    def _committed(self, now_ms: int) -> list[Effect]:
        # A snapshot is replayed later than it is known to be committed.
        high_watermark = min(self.raft.high_watermark, self.history.tip.offset + 1)
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
            row = RangeRow(Stage.COMMITTED, first, high_watermark - 1, self._stamp(), no_ops)
            effects.append(Row(row))
        return effects + self._stable(deltas, now_ms)

    def _stable(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Hand on what became stable, oldest first."""
        return self.migration.metadata(deltas, now_ms)

    def _answers(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for appended in self.controller.take_appended():
            if appended.ticket is not None:
                appended.ticket.offsets = (appended.first_offset, appended.last_offset)
        for blocked in self.controller.gate.take_blocked():
            self.blocking_ms.observe(blocked.end_ms - blocked.begin_ms)
            if self._tracing:
                effects.append(Row(block_row(blocked, self._causes, self._stamp())))
        for reply in self.raft.take_replies():
            self.controller.answers.answer(reply)
        for answered in self.controller.take_replies():
            effects += self._answer(answered, now_ms)
        effects += [failure_line(one) for one in self.controller.answers.failures.take()]
        effects += self.controller.surroundings.registrations.take()
        return effects

    def _answer(self, reply: EncodedReply, now_ms: int) -> list[Effect]:
        self.counters.waiting -= 1
        effects = self.connections.reply(reply.ticket, reply.payload, now_ms)
        if effects and not self.connections.owns(reply.ticket.conn):
            self._left.add(reply.ticket.conn)
        error = reply.error
        answered_ns = self._stamp()
        self.counters.note_answer(reply, error, answered_ns)
        if self._tracing:
            effects.append(Row(request_row(reply, error, answered_ns)))
        return effects

    def _stop_if_drained(self, now_ms: int) -> list[Effect]:
        if self._halted or self.controller.answers.ready:
            return []
        begun = self._stop.break_off(self.office.broken, now_ms) or self._stop.leave_mark(now_ms)
        if begun:
            return begun + self._run_path(now_ms)
        handing_over = self._stop.hand_over(now_ms)
        if handing_over:
            # The term ends before the migration takes what ZooKeeper has answered.
            handing_over += self.office.take_effects(now_ms)
            handing_over += self._run_path(now_ms)
        effects, end = self._stop.go_on(now_ms)
        effects = handing_over + effects
        return effects if end is None else effects + self._halt(end.why, end.exit_code)

    def _halt(self, why: str, exit_code: int) -> list[Effect]:
        self._halted = True
        return [*self.connections.close_all(), Halt(exit_code, why)]


def _is_synced(event: Event) -> bool:
    return isinstance(event, Synced)
