"""The ZooKeeper client: connect, keep alive, pipeline, and after any loss fence before reading.

Theory of operation. A request whose reply is lost may have been applied, and worse, may still be
applied *after* a later read on another connection: its bytes may wait in a buffer. So after any
loss everything outstanding is reported as ``ZkLost`` and the machine first fences the old session:
it reattaches it (same id and password; the server then drops the older connection), closes it, and
only then opens a new one, syncs and is ``connected`` again. A session that the server calls expired
is fenced as well. An owner of ephemeral znodes asks to keep its session instead (``session``).

    CONNECTING -> CONNECTED -> (loss) FENCING -> CONNECTING -> CONNECTED ...
    close(): CLOSING -> CLOSED

What an owner knows of the tree may be out of date whenever ``generation`` has risen. ``fenced`` is
False only in the first session of a process: requests of an earlier process are not known then,
and only a claim fences them.

Source: mechanisms measured on ZooKeeper 3.6.4, 3.8.4, 3.9.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple

from emulator.config.zookeeper import OPEN, TLS, ZooKeeperSecurity
from emulator.seam import Close, Closed, Connect, Connected, Effect, Event, Log, Received, Send
from emulator.zookeeper import acl, jute
from emulator.zookeeper.channel import Answer, Channel, Opening
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.jute import JuteError
from emulator.zookeeper.ops import (
    CloseSession,
    Failure,
    Value,
    WatchFired,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)
from emulator.zookeeper.states import Phase, Step, ZkState

# Selects the server to try next, and the wait before it.

BACKOFF_MS_MIN: Final = 100
BACKOFF_MS_MAX: Final = 1_000


def mute(last_zxid: int) -> str:
    """Why a server may hang up before it has answered anything, as an addition to a sentence.

    Args:
        last_zxid: the newest transaction that this client has seen; 0 for none. A server that does
            not have it serves no session to this client.

    >>> mute(0)
    ' (before it answered: it is starting, or it expects TLS at this port)'
    """
    if not last_zxid:
        return " (before it answered: it is starting, or it expects TLS at this port)"
    return (
        f" (before it answered: it is starting, or it is behind transaction {last_zxid:#x}, "
        "which this client has seen. If ZooKeeper was restored from an older state, restart this "
        "process)"
    )


class Down(NamedTuple):
    """There is no session: since when, and the error of the last attempt."""

    since_ms: int
    why: str


class Servers:
    """The servers in an order shuffled once, with a pause after each round without success.

    Source: org.apache.zookeeper.client.StaticHostProvider, ZooKeeper 3.9.5 (one pause of up to 1
        s); here the pause doubles from 100 ms to 1 s.
    """

    def __init__(self, servers: Sequence[tuple[str, int]], rng: Random) -> None:
        if not servers:
            raise ValueError("at least one ZooKeeper server")
        self._servers = rng.sample(list(servers), len(servers))
        self._index = -1
        self._failures = 0
        self.down: Down | None = None
        """Since when there is no session, and why; None with a session or before any attempt."""

    @property
    def name(self) -> str:
        """host:port last given, or "" before the first."""
        if self._index < 0:
            return ""
        host, port = self._servers[self._index]
        return f"{host}:{port}"

    def next(self) -> tuple[str, int]:
        """Host and port to try now."""
        self._index = (self._index + 1) % len(self._servers)
        return self._servers[self._index]

    def stay(self) -> None:
        """Return the same server again next time, because it has just answered."""
        self._index -= 1

    def served(self) -> None:
        """A session is established."""
        self.down = None

    def failed(self, why: str, now_ms: int, *, after_success: bool) -> int:
        """A connection failed or was lost; returns how many ms to wait.

        ``after_success``: it had worked for a while, so the back-off begins again.
        """
        self.down = Down(now_ms if self.down is None else self.down.since_ms, why)
        self._failures = 0 if after_success else self._failures + 1
        rounds, in_round = divmod(self._failures, len(self._servers))
        if not rounds or in_round:
            return 0
        return min(BACKOFF_MS_MIN << min(rounds - 1, 10), BACKOFF_MS_MAX)


_NO_PASSWORD = bytes(16)


class SessionHold:
    """The session in use, and the one of a lost connection.

    Two policies. *Fenced*: the next connection takes the old session up only to close it, so
    nothing sent in it can be applied later; its ephemeral znodes go. *Kept*: the next connection
    continues it, so its ephemeral znodes stay, as long as ZooKeeper has not ended it; requests in
    doubt may still be applied until the ``sync`` of the new connection is answered. Kafka's brokers
    keep theirs. Source: org.apache.zookeeper.ClientCnxn, ZooKeeper 3.9.5.

    Args:
        kept: the policy.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._current: tuple[int, bytes] | None = None
        self._lost: tuple[int, bytes] | None = None

    @property
    def id(self) -> int:
        """Id of the session in use, 0 when there is none."""
        return self._current[0] if self._current else 0

    @property
    def fencing(self) -> bool:
        """Whether an old session has to be closed before a new one begins."""
        return self._lost is not None and not self._kept

    @property
    def lost_id(self) -> int:
        """Id of the session of the lost connection, 0 when there is none."""
        return self._lost[0] if self._lost else 0

    @property
    def asked(self) -> tuple[int, bytes]:
        """Id and password for the handshake; zeros ask for a new session."""
        return self._lost or (0, _NO_PASSWORD)

    def granted(self, session_id: int, password: bytes, timeout_ms: int) -> bool:
        """Take the answer to a handshake; False: the session that we asked for has expired.

        Raises:
            JuteError: another session than the one asked for, or none at all.
        """
        if self._lost is not None:
            if session_id == 0:
                return False
            if session_id != self._lost[0]:
                raise JuteError(f"asked for session {self._lost[0]:#x}, got {session_id:#x}")
        if session_id == 0 or timeout_ms <= 0:
            raise JuteError("the server refused a new session")
        if not self.fencing:
            self._current, self._lost = (session_id, password), None
        return True

    def lose(self) -> None:
        """The connection has ended."""
        if self._current is not None:
            self._lost, self._current = self._current, None

    def forget_lost(self) -> None:
        """The old session is over: closed, or expired."""
        self._lost = None

    def end(self) -> None:
        """There is no session any more."""
        self._current = self._lost = None


SERVED_MS = 1_000
"""A connection that lasted this long does not count as a failed attempt."""
_SEEN_AS = {
    Phase.READY: ZkState.CONNECTED,
    Phase.CLOSING: ZkState.CLOSING,
    Phase.CLOSED: ZkState.CLOSED,
}


class ZkClient:
    """Keeps a session with one of several servers. See the module's theory of operation.

    Args:
        servers: (host, port) of every server; tried in an order shuffled once, as ZooKeeper's own
            client does.
        chroot: "" or "/a/b": prefix of every path, created if it is missing.
        session_timeout_ms: requested timeout; the server may negotiate another.
        connect_timeout_ms: for TCP connect plus handshake; a starting server may never answer the
            request.
        new_conn: allocates an outbound connection id.
        rng: order of servers.
        max_in_flight: requests sent before waiting for a reply (zookeeper.max.in.flight.requests).
        security: our identities, and the ACLs of our znodes.
        keeps_session: a lost connection is followed by one that continues the session.
    """

    def __init__(  # noqa: PLR0917  # one argument per thing the owner decides
        self,
        servers: Sequence[tuple[str, int]],
        chroot: str,
        session_timeout_ms: int,
        connect_timeout_ms: int,
        new_conn: Callable[[], int],
        rng: Random,
        *,
        max_in_flight: int = 10,
        security: ZooKeeperSecurity = OPEN,
        keeps_session: bool = False,
    ) -> None:
        if max_in_flight < 1:
            raise ValueError("at least one request in flight")
        if chroot and (not chroot.startswith("/") or chroot.endswith("/")):
            raise ValueError(f"chroot {chroot!r} must start with / and not end with it")
        self.servers = Servers(servers, rng)
        self._chroot = chroot
        self._asked_timeout_ms = session_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._new_conn = new_conn
        self._max_in_flight = max_in_flight
        self._security = security
        self.op_bytes: Callable[[ZkOp], bytes] = self._protected_bytes
        """One op of a multi of ours as it is sent; see ``Multi.body``."""
        if not security.set_acl:
            self.op_bytes = partial(jute.op_bytes, chroot=chroot)
        self._rng = rng
        self._opening: Opening | None = None
        self._phase = Phase.IDLE
        self._channel: Channel | None = None
        self._deadline: int | None = None
        self._ready_since_ms = 0
        self._session = SessionHold(kept=keeps_session)
        self._last_zxid = 0
        self._waiting: deque[tuple[object, ZkRequest]] = deque()
        self.outcomes: list[ZkOutcome] = []
        """What :meth:`take_results` will return."""
        self.generation = 0
        self.limit = FrameLimit()

    @property
    def state(self) -> ZkState:
        """See ``ZkState``."""
        if self._session.fencing:
            return ZkState.FENCING
        return _SEEN_AS.get(self._phase, ZkState.CONNECTING)

    @property
    def connected(self) -> bool:
        """Requests are accepted; no older one of ours can be applied after reads from now on."""
        return self._phase is Phase.READY

    @property
    def fenced(self) -> bool:
        """The session before this one is closed or expired; False in the first of a process."""
        return self.generation > 1

    @property
    def session_id(self) -> int:
        """Id of the current session, 0 when there is none."""
        return self._session.id

    @property
    def server(self) -> str:
        """host:port last dialled, or "" before the first attempt."""
        return self.servers.name

    @property
    def in_flight_count(self) -> int:
        """Requests sent or waiting to be sent."""
        return (self._channel.in_flight_count if self._channel else 0) + len(self._waiting)

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` wants to be called, None: never."""
        channel = self._channel
        if channel is None or (self._deadline is not None and channel.reading is None):
            return self._deadline
        return channel.deadline_ms

    def owns(self, conn: int) -> bool:
        """Whether events of this connection are for us."""
        return self._channel is not None and self._channel.conn == conn

    def take_results(self) -> list[ZkOutcome]:
        """Outcomes since the last call, in the order in which the requests were submitted."""
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def take_fired(self) -> list[WatchFired]:
        """Watches that fired since the last call, in order.

        Those of a lost connection are gone: set them again whenever ``generation`` has risen.
        """
        return [] if self._channel is None else self._channel.take_fired()

    def start(self, now_ms: int) -> list[Effect]:
        """Begin to connect."""
        return self._dial(now_ms)

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        """Send a request; ``take_results`` returns its outcome with the same tag.

        While not ``connected`` the outcome is ``ZkLost`` at once: a plan made before the loss is
        invalid.

        Raises:
            ValueError: the request is larger than a frame.
        """
        if self._phase is not Phase.READY or self._channel is None:
            self.outcomes.append(ZkLost(tag))
            return []
        if self._security.set_acl:
            request = acl.protected(request)
        if self._waiting or self._channel.in_flight_count >= self._max_in_flight:
            jute.encode_request(request, 0, self._chroot)
            self._waiting.append((tag, request))
            return []
        return [Send(self._channel.conn, self._channel.request(tag, request, now_ms))]

    def withdraw(self) -> None:
        """Send nothing of what waits until others are answered: it is lost."""
        self._lose_waiting()

    def _protected_bytes(self, op: ZkOp) -> bytes:
        return jute.op_bytes(acl.protected_op(op), self._chroot)

    def op_size(self, op: ZkOp) -> int:
        """Bytes that one op adds to a multi of ours: its path below the chroot, its ACL."""
        return acl.op_size(op, self._chroot, set_acl=self._security.set_acl)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take ``Connected``, ``Received`` or ``Closed`` of a connection we own.

        Ignores the rest.
        """
        channel = self._channel
        if channel is None:
            return []
        match event:
            case Connected(conn=conn) if conn == channel.conn:
                return self._handshake(channel, now_ms)
            case Received(conn=conn, data=data) if conn == channel.conn:
                return self._received(channel, data, now_ms)
            case Closed(conn=conn, why=why) if conn == channel.conn:
                return self._lost(why, now_ms, close=False)
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        """Timers: back-off, handshake timeout, ping, read timeout."""
        due = self.deadline_ms
        if due is None or now_ms < due:
            return []
        if (channel := self._channel) is None:
            return self._dial(now_ms)
        if channel.reading is not None:
            return self._read_on(channel, now_ms)
        if self._phase in (Phase.DIALLING, Phase.HANDSHAKE):
            return self._lost("handshake timed out", now_ms)
        if self._phase is Phase.CLOSING and self._deadline is not None:
            return self._lost("closeSession timed out", now_ms)
        if why := channel.give_up(now_ms):
            return self._lost(why, now_ms)
        return [Send(channel.conn, channel.ping(now_ms))]

    def close(self, now_ms: int) -> list[Effect]:
        """End the session by closeSession after what is in flight; waiting requests are lost.

        ``state`` is CLOSED after the reply, or after ``connect_timeout_ms`` without one. Without a
        connection it is CLOSED at once and the server lets the session expire.
        """
        if self._phase in (Phase.CLOSING, Phase.CLOSED):
            return []
        self._lose_waiting()
        if self._phase is not Phase.READY or self._channel is None:
            return self._end()
        self._phase = Phase.CLOSING
        self._deadline = now_ms + self._connect_timeout_ms
        return [Send(self._channel.conn, self._channel.request(Step.CLOSE, CloseSession(), now_ms))]

    def _dial(self, now_ms: int) -> list[Effect]:
        host, port = self.servers.next()
        self._channel = Channel(self._new_conn(), self._chroot, now_ms, self.limit)
        self._phase = Phase.DIALLING
        self._deadline = now_ms + self._connect_timeout_ms
        tls = "" if self._security.tls is None else TLS
        return [Connect(self._channel.conn, host, port, tls)]

    def _handshake(self, channel: Channel, now_ms: int) -> list[Effect]:
        session_id, password = self._session.asked
        self._phase = Phase.HANDSHAKE
        channel.last_sent_ms = now_ms
        asked = (self._asked_timeout_ms, session_id, password, self._last_zxid)
        return [Send(channel.conn, jute.encode_connect(*asked))]

    def _handshaken(self, channel: Channel, frame: bytes, now_ms: int) -> list[Effect]:
        timeout_ms, session_id, password = jute.decode_connect(frame)
        self._deadline = None
        if not self._session.granted(session_id, password, timeout_ms):
            return self._old_is_dead("expired", now_ms)
        channel.timeout_ms = timeout_ms
        self._phase = Phase.OPENING
        own = (self._security, self._chroot, self._nonce)
        self._opening = Opening(channel, *own, closes=self._session.fencing)
        return [Send(channel.conn, self._opening.begin(now_ms))]

    def _nonce(self) -> str:
        return self._rng.randbytes(24).hex()

    def _old_is_dead(self, how: str, now_ms: int) -> list[Effect]:
        assert self._channel is not None
        fields: dict[str, object] = {"session": f"{self._session.lost_id:#x}", "how": how}
        conn = self._channel.conn
        event = "zookeeper session fenced" if self._session.fencing else "zookeeper session expired"
        log = Log("info", event, fields)
        self._session.forget_lost()
        self.servers.stay()
        return [log, Close(conn), *self._dial(now_ms)]

    def _ready(self, channel: Channel, now_ms: int) -> list[Effect]:
        self._phase = Phase.READY
        self._ready_since_ms = now_ms
        self.generation += 1
        self.servers.served()
        fields: dict[str, object] = {"server": self.server, "session": f"{self.session_id:#x}"}
        fields |= {"timeout_ms": channel.timeout_ms, "fenced": self.fenced}
        fields |= {"as": ", ".join(self._security.identities) or "anyone"}
        return [Log("info", "zookeeper connected", fields)]

    def _received(self, channel: Channel, data: bytes, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        try:
            for frame in channel.frames(data, now_ms):
                effects += self._frame(channel, frame, now_ms)
                if self._channel is not channel:
                    break
        except JuteError as error:
            return effects + self._lost(str(error), now_ms)
        if self._channel is channel:
            effects += self._send_waiting(channel, now_ms)
        return effects

    def _read_on(self, channel: Channel, now_ms: int) -> list[Effect]:
        """A slice of a long answer; after the last one what has arrived behind it."""
        try:
            answer = channel.read_on()
        except JuteError as error:
            return self._lost(str(error), now_ms)
        if answer is None:
            return []
        effects = self._answered(channel, answer, now_ms)
        return effects + self._received(channel, b"", now_ms)

    def _frame(self, channel: Channel, frame: bytes, now_ms: int) -> list[Effect]:
        if self._phase is Phase.HANDSHAKE:
            return self._handshaken(channel, frame, now_ms)
        answer = channel.reply(frame)
        self._last_zxid = max(self._last_zxid, channel.last_zxid)
        return [] if answer is None else self._answered(channel, answer, now_ms)

    def _answered(self, channel: Channel, answer: Answer, now_ms: int) -> list[Effect]:
        tag, value = answer
        if isinstance(tag, Step):
            return self._own_answer(channel, tag, value, now_ms)
        if isinstance(value, Failure):
            self.outcomes.append(ZkFailed(tag, value.code, value.index))
        else:
            self.outcomes.append(ZkResult(tag, value))
        return []

    def _own_answer(
        self, channel: Channel, step: Step, value: Value | Failure, now_ms: int
    ) -> list[Effect]:
        if step is Step.CLOSE:
            return self._end()
        assert self._opening is not None
        data = self._opening.answer(step, value, now_ms)
        if data:
            return [Send(channel.conn, data)]
        if not self._opening.done:
            return []
        if self._session.fencing:
            return self._old_is_dead("closed", now_ms)
        return self._ready(channel, now_ms)

    def _send_waiting(self, channel: Channel, now_ms: int) -> list[Effect]:
        parts = []
        while self._waiting and channel.in_flight_count < self._max_in_flight:
            tag, request = self._waiting.popleft()
            parts.append(channel.request(tag, request, now_ms))
        return [Send(channel.conn, b"".join(parts))] if parts else []

    def _lose_waiting(self) -> None:
        self.outcomes += [ZkLost(tag) for tag, _ in self._waiting]
        self._waiting.clear()

    def _lost(self, why: str, now_ms: int, *, close: bool = True) -> list[Effect]:
        """A connection ended without our closing it.

        Reports it, keeps the session to fence, and reconnects.
        """
        assert self._channel is not None
        channel = self._channel
        effects: list[Effect] = [Close(channel.conn)] if close else []
        ended = channel.abandon(by_server=not close)
        lost = [tag for tag in ended if not isinstance(tag, Step)]
        self.outcomes += [ZkLost(tag) for tag in lost]
        lost_count = len(lost) + len(self._waiting)
        self._lose_waiting()
        if self._phase is Phase.CLOSING:
            return effects + self._end()
        was_ready = self._phase is Phase.READY
        if self._phase is Phase.HANDSHAKE and not (
            close or channel.has_received or self._security.tls
        ):
            why += mute(self._last_zxid)
        fields: dict[str, object] = {"server": self.server, "why": why, "in_doubt": lost_count}
        down = self.servers.down
        level = "warning" if was_ready or down is None or down.why != why else "debug"
        effects.append(Log(level, "zookeeper connection lost", fields))
        self._session.lose()
        served_ms = now_ms - self._ready_since_ms if was_ready else 0
        delay_ms = self.servers.failed(why, now_ms, after_success=served_ms >= SERVED_MS)
        self._channel = None
        self._phase = Phase.IDLE
        self._deadline = now_ms + delay_ms
        return effects if delay_ms else effects + self._dial(now_ms)

    def _end(self) -> list[Effect]:
        effects: list[Effect] = [Close(self._channel.conn)] if self._channel else []
        self._channel = None
        self._session.end()
        self._deadline = None
        self._phase = Phase.CLOSED
        return effects
