"""One connection to one ZooKeeper server: frames, xids, requests in flight, how long to wait.

``client`` handles retries and the sessions before and after this one.

A request is given up after 2/3 of the session timeout, counted from the answer before it, because
the server handles one after the other. While the answer itself arrives, however slowly, it is not
given up. Source: org.apache.zookeeper.ClientCnxn (read timeout 2/3 of the session, ping after 1/3),
which waits for any bytes only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.seam import Slices
from emulator.zookeeper import acl, jute
from emulator.zookeeper.errors import SESSION_GONE, ZkCode, code_name
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.jute import JuteError
from emulator.zookeeper.ops import (
    AddAuth,
    CloseSession,
    Create,
    Exists,
    Failure,
    GetChildren,
    MultiRead,
    SaslToken,
    Sync,
    Value,
    WatchFired,
    ZkRequest,
)
from emulator.zookeeper.sasl import DigestMd5, SaslError
from emulator.zookeeper.states import Step

REPLY_BYTES_MAX: Final = 1 << 30
"""The names of very many topics are one answer."""
SLICED_BYTES: Final = 64 * 1024
"""A longer answer to a read is read in slices, if it has many names of children."""
Answer: TypeAlias = tuple[object, Value | Failure]
"""The tag of a request, and what ZooKeeper says to it."""
PROGRESS_BYTES = 1_024
"""An answer that grows by less within the patience is not on its way: pings are answered too."""
_TLS_ALERT = b"\x15\x03"
_GONE: dict[int, str] = {
    ZkCode.SESSION_CLOSED_REQUIRE_AUTH: "the ensemble requires another kind of login "
    "(SESSION_CLOSED_REQUIRE_AUTH)"
}


class Channel:
    """Frames and the order of replies. ZooKeeper answers a connection's requests in order.

    Args:
        conn: id of the connection.
        chroot: prefix of every path.
        now_ms: the clock.
        limit: learns which sizes of requests the server takes, and the line in time.

    ``timeout_ms``: of the session; set by the answer of the server.
    """

    def __init__(
        self, conn: int, chroot: str, now_ms: int, limit: FrameLimit | None = None
    ) -> None:
        self.conn = conn
        self._limit = FrameLimit() if limit is None else limit
        self.last_sent_ms = now_ms
        self.last_received_ms = now_ms
        self.last_zxid = 0
        self._chroot = chroot
        self._buffer = bytearray()
        self._xid = 0
        self._in_flight: deque[tuple[int, object, ZkRequest, int]] = deque()
        """Xid, tag, request and its bytes."""
        self.timeout_ms = 0
        self._turn_ms = now_ms
        """When the oldest request was sent, or the one before it answered."""
        self._progress_ms = now_ms
        """The same, or when a part of its answer arrived."""
        self._arrived = 0
        """Bytes of the incomplete frame when it was last seen to grow."""
        self._has_received = False
        self._fired: list[WatchFired] = []
        self.reading: Slices[Answer] | None = None
        """An answer that is read in slices; what follows it waits."""

    @property
    def in_flight_count(self) -> int:
        """Requests sent and not yet answered, pings not counted."""
        return len(self._in_flight)

    @property
    def has_received(self) -> bool:
        """Whether the server has sent anything."""
        return self._has_received

    @property
    def deadline_ms(self) -> int:
        """When a ping is due, or the connection is to be given up; 0: there is more to read."""
        if self.reading is not None:
            return 0
        received_ms = self.last_received_ms
        if self._in_flight:
            received_ms = min(received_ms, self._progress_ms)
        patience_ms = self.timeout_ms * 2 // 3
        return min(self.last_sent_ms + self.timeout_ms // 3, received_ms + patience_ms)

    @property
    def _patience_ms(self) -> int:
        return self.timeout_ms * 2 // 3

    def give_up(self, now_ms: int) -> str:
        """Why to end the connection now, empty if not; the limit learns what took too long."""
        waits = bool(self._in_flight)
        if now_ms >= self.last_received_ms + self._patience_ms:
            why = "nothing received for 2/3 of the session timeout"
        elif waits and now_ms >= self._progress_ms + self._patience_ms:
            # Pings are answered but a request is not: its reply is lost.
            why = "no reply for 2/3 of the session timeout"
        else:
            return ""
        if waits and self._progress_ms == self._turn_ms:
            size = self._in_flight[0][3]
            self._limit.in_time.overdue(size)
            why += f"; the oldest request has {size} bytes"
        return why

    def request(
        self, tag: object, request: ZkRequest, now_ms: int, *, absolute: bool = False
    ) -> bytes:
        """Bytes to send for one request. ``absolute``: its path is not below the chroot.

        Raises:
            ValueError: the frame would be too long; nothing was recorded as sent.
        """
        chroot = "" if absolute else self._chroot
        xid = (self._xid + 1) & 0x3FFFFFFF
        if isinstance(request, AddAuth):
            xid = jute.XID_AUTH
        data = jute.encode_request(request, xid, chroot)
        if xid != jute.XID_AUTH:
            self._xid = xid
        if not self._in_flight:
            self._turn_ms = self._progress_ms = now_ms
        self._in_flight.append((xid, tag, request, len(data) - 4))
        self.last_sent_ms = now_ms
        return data

    def ping(self, now_ms: int) -> bytes:
        """Bytes of a keep-alive."""
        self.last_sent_ms = now_ms
        return jute.encode_ping()

    def frames(self, data: bytes, now_ms: int) -> Iterator[bytes]:
        """Split received bytes into frames, without their length; none while one is being read.

        Raises:
            JuteError: an impossible length.
        """
        self.last_received_ms = now_ms
        if not self._has_received and data[:2] == _TLS_ALERT:
            raise JuteError("the server speaks TLS at this port: zookeeper.ssl.client.enable=true")
        self._has_received = True
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while self.reading is None and len(buffer) - at >= 4:
                size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
                if not 0 <= size <= REPLY_BYTES_MAX:
                    raise JuteError(f"a frame of {size} bytes")
                if len(buffer) - at - 4 < size:
                    self._arrives(len(buffer) - at, now_ms)
                    return
                at += 4 + size
                self._arrived = 0
                yield bytes(buffer[at - size : at])
        finally:
            del buffer[:at]

    def _arrives(self, size: int, now_ms: int) -> None:
        """So many bytes of the next frame are there: it is on its way if it has grown enough."""
        if size - self._arrived >= PROGRESS_BYTES or not self._arrived:
            self._arrived, self._progress_ms = size, now_ms

    def reply(self, frame: bytes) -> Answer | None:
        """Match one reply with its request; None for pings, watches, and what is read in slices.

        Raises:
            JuteError: a reply without a request, or one that reports an ended session: the
                connection is then unusable and everything in flight is in doubt.
        """
        xid, zxid, error = jute.reply_header(frame)
        if zxid > 0:
            self.last_zxid = zxid
        if xid == jute.XID_WATCH:
            self._fired.append(jute.decode_watch(frame, self._chroot))
        if xid < 0 and xid != jute.XID_AUTH:
            return None
        if not self._in_flight or self._in_flight[0][0] != xid:
            expected = self._in_flight[0][0] if self._in_flight else None
            raise JuteError(f"reply with xid {xid}, expected {expected}")
        _, tag, request, size = self._in_flight[0]
        if error in SESSION_GONE and not isinstance(request, SaslToken | AddAuth):
            raise JuteError(_GONE.get(error) or f"server answered {code_name(error)}")
        if len(frame) > SLICED_BYTES and isinstance(request, MultiRead | GetChildren):
            self.reading = self._reading(tag, request, size, frame)
            return self.read_on()
        return self._answered(tag, request, size, jute.decode_reply(request, frame, self._chroot))

    def read_on(self) -> Answer | None:
        """Do the next slice of what is being read; returns the answer with the last one.

        Raises:
            JuteError: the bytes are not an answer to the request.
        """
        assert self.reading is not None
        try:
            next(self.reading)
        except StopIteration as end:
            self.reading = None
            answer: Answer = end.value
            return answer
        return None

    def _reading(self, tag: object, request: ZkRequest, size: int, frame: bytes) -> Slices[Answer]:
        value = yield from jute.decoding_reply(request, frame, self._chroot)
        return self._answered(tag, request, size, value)

    def _answered(
        self, tag: object, request: ZkRequest, size: int, value: Value | Failure
    ) -> Answer:
        self._in_flight.popleft()
        self._limit.answered(size)
        took_ms = self.last_received_ms - self._turn_ms
        reads = isinstance(request, MultiRead)
        self._limit.in_time.took(size, took_ms, self._patience_ms, reads=reads)
        self._turn_ms = self._progress_ms = self.last_received_ms
        return tag, value

    def take_fired(self) -> list[WatchFired]:
        """Watches that fired since the last call, in order."""
        fired, self._fired = self._fired, []
        return fired

    def abandon(self, *, by_server: bool) -> list[object]:
        """The connection has ended: tags of everything in flight, in order."""
        if by_server and self._in_flight:
            size = max(size for _, _, _, size in self._in_flight)
            reads = any(isinstance(request, MultiRead) for _, _, request, _ in self._in_flight)
            self._limit.broken(size, reads=reads)
        tags = [tag for _, tag, _, _ in self._in_flight]
        self._in_flight.clear()
        return tags


# The requests of a connection between the handshake and regular use: login, then chroot.
#
#     SASL (two tokens) -> addauth digest -> close the old session        -> over
#                                         -> sync -> make sure of the chroot -> over
#
# One request at a time until the login is complete: an ensemble that demands authentication closes
# the session at the first request it refuses, and the old session is closed by a request too.
# Source: ZooKeeper 3.9.5 ClientCnxn.primeConnection, ZooKeeperServer.processSasl; Kafka 3.9
# KafkaZkClient.createZkClient (chroot).


class AuthError(JuteError):
    """ZooKeeper refused the login; only an operator can change that."""


class Opening:
    """The requests of one connection before regular use.

    Args:
        channel: after the handshake, no request sent yet.
        security: identities; whether the chroot is made with Kafka's ACLs.
        chroot: "" or "/a/b".
        nonce: unpredictable printable text.
        closes: the session is an old one and is only reattached to be closed.
    """

    def __init__(
        self,
        channel: Channel,
        security: ZooKeeperSecurity,
        chroot: str,
        nonce: Callable[[], str],
        *,
        closes: bool,
    ) -> None:
        self._channel = channel
        self._security = security
        self._chroot = chroot
        self._closes = closes
        self._sasl: DigestMd5 | None = None
        self._challenges = 0
        if security.sasl is not None:
            login = security.sasl
            self._sasl = DigestMd5(login.username, login.password, nonce())
        self.done = False
        """Whether the connection is ready, or the old session is closed."""

    def begin(self, now_ms: int) -> bytes:
        """Bytes of the first requests."""
        if self._sasl is not None:
            return self._ask(Step.SASL, SaslToken(b""), now_ms)
        return self._after_sasl(now_ms)

    def answer(self, step: Step, value: Value | Failure, now_ms: int) -> bytes:
        """Take an answer; returns the bytes to send next, possibly none.

        Raises:
            AuthError: a login is refused.
            JuteError: the answer does not allow the connection to continue.
        """
        code = value.code if isinstance(value, Failure) else ZkCode.OK
        match step:
            case Step.SASL:
                return self._sasl_token(value, now_ms)
            case Step.ADD_AUTH if code == ZkCode.OK:
                return self._authenticated(now_ms)
            case Step.ADD_AUTH:
                assert self._security.digest is not None
                raise _refused("digest", self._security.digest.username, code)
            case Step.SYNC if code == ZkCode.OK:
                self.done = not self._chroot
            case Step.CHROOT_EXISTS if code == ZkCode.NO_NODE:
                return self._create_chroot(now_ms)
            case Step.CLOSE_OLD | Step.CHROOT_EXISTS if code == ZkCode.OK:
                self.done = True
            case Step.CHROOT_CREATE if code in (ZkCode.OK, ZkCode.NODE_EXISTS):
                self.done = self._channel.in_flight_count == 0
            case Step.CHROOT_CREATE | Step.CHROOT_EXISTS:
                raise JuteError(f"the chroot {self._chroot}: {code_name(code)}")
            case _:
                raise JuteError(f"{step.name}: {code_name(code)}")
        return b""

    def _sasl_token(self, value: Value | Failure, now_ms: int) -> bytes:
        assert self._sasl is not None
        assert self._security.sasl is not None
        user = self._security.sasl.username
        if isinstance(value, Failure):
            raise _refused("SASL DIGEST-MD5", user, value.code)
        if not isinstance(value, bytes):
            raise AuthError(
                "SASL: the server does not support it: it has no authProvider or JAAS section"
            )
        try:
            self._challenges += 1
            if self._challenges == 1:
                return self._ask(Step.SASL, SaslToken(self._sasl.respond(value)), now_ms)
            self._sasl.finish(value)
        except SaslError as error:
            raise AuthError(f"SASL DIGEST-MD5 as {user}: {error}") from error
        return self._after_sasl(now_ms)

    def _after_sasl(self, now_ms: int) -> bytes:
        login = self._security.digest
        if login is None:
            return self._authenticated(now_ms)
        auth = f"{login.username}:{login.password}".encode()
        return self._ask(Step.ADD_AUTH, AddAuth("digest", auth), now_ms)

    def _authenticated(self, now_ms: int) -> bytes:
        if self._closes:
            return self._ask(Step.CLOSE_OLD, CloseSession(), now_ms)
        data = self._ask(Step.SYNC, Sync("/"), now_ms)
        if self._chroot:
            data += self._ask(Step.CHROOT_EXISTS, Exists("/"), now_ms)
        return data

    def _create_chroot(self, now_ms: int) -> bytes:
        names = self._chroot[1:].split("/")
        prefixes = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        creates: list[ZkRequest] = [Create(prefix, None) for prefix in prefixes]
        if self._security.set_acl:
            creates = [acl.protected(create) for create in creates]
        step = Step.CHROOT_CREATE
        frames = [self._channel.request(step, op, now_ms, absolute=True) for op in creates]
        return b"".join(frames)

    def _ask(self, step: Step, request: ZkRequest, now_ms: int) -> bytes:
        return self._channel.request(step, request, now_ms)


def _refused(how: str, user: str, code: int) -> AuthError:
    return AuthError(f"{how}: ZooKeeper refuses the user {user} ({code_name(code)})")
