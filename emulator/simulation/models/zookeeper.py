"""A ZooKeeper server as a model over bytes: sessions, one pipeline of requests, replies.

The simulator decides *when*: bytes that arrive are queued and nothing happens until ``run`` (or
``step``, for one request at a time). So a delayed request is one that was received and not yet
stepped; a lost reply is an effect that the simulator does not deliver; a cut is ``disconnected``; a
killed server is ``restart``; an expiry is ``expire``.

Like the real one (checked against 3.9.5 by one script run on both): requests of all connections
pass one pipeline; reattaching a session drops its older connection at once, and bytes that come
later on that connection are lost; what had been received before still applies, unless closeSession
stands before it; an expired session is answered with session id 0 and closed; a frame above
1,048,575 bytes closes the connection after everything before it was served.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from kazoo.protocol import serialization as kazoo

from emulator.seam import Close, Effect, Send
from emulator.simulation.models.zookeeper_tree import RefusedOp, ServerTree, Znode
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Check, Create, Delete, SetData, Stat, ZkOp, ZnodeAcl

_INT = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">ii")
_REPLY_HEADER = struct.Struct(">iqi")
_MULTI_HEADER = struct.Struct(">i?i")
_STAT = struct.Struct(">qqqqiiiqiiq")
_CONNECT_REPLY = struct.Struct(">iiqi16s?")

_CATCHING_UP = frozenset(
    {jute.OP_SYNC, jute.OP_MULTI, jute.OP_CREATE, jute.OP_DELETE, jute.OP_SET_DATA}
)


@dataclass(slots=True)
class ServerSession:
    """One that is not over; its client may have no connection."""

    id: int
    password: bytes
    timeout_ms: int
    last_contact_ms: int
    conn: int | None


@dataclass(slots=True)
class _Peer:
    buffer: bytearray
    session_id: int = 0
    handshaken: bool = False
    doomed: bool = False


class ZooKeeperModel:
    """One standalone server.

    Args:
        rng: session ids and passwords.
        tick_ms: ZooKeeper's tickTime; session timeouts are held between 2 and 20 of them.
    """

    def __init__(self, rng: Random, *, tick_ms: int = 2_000) -> None:
        self.tree = ServerTree()
        self.session_served = 0
        """Session of the request that was applied last; 0 for none, or one that is over."""
        self.reads: set[str] = set()
        """Paths that it has read."""
        self.frame_bytes_max = jute.FRAME_BYTES_MAX  # its jute.maxbuffer
        self._rng, self._tick_ms = rng, tick_ms
        self._peers: dict[int, _Peer] = {}
        self._sessions: dict[int, ServerSession] = {}
        self._pipeline: deque[tuple[int, int, bytes]] = deque()
        self._old: tuple[int, dict[str, Znode]] | None = None
        self._reads_old: set[int] = set()

    @property
    def lagging(self) -> bool:
        """Whether new clients come to a server that lags."""
        return self._old is not None

    def lag_behind(self) -> None:
        """From now on clients connect to a server of the ensemble that learns nothing more.

        What they read is as old as this call, until they sync or write: then their server has
        caught up with all that they have seen.
        """
        nodes = {
            path: replace(node, children=set(node.children))
            for path, node in self.tree.nodes.items()
        }
        self._old = (self.tree.zxid, nodes)

    def catch_up(self) -> None:
        """The server that lagged has everything."""
        self._old = None
        self._reads_old.clear()

    def accepted(self, conn: int) -> None:
        """A client's TCP connection is there."""
        self._peers[conn] = _Peer(bytearray())

    def received(self, conn: int, data: bytes, now_ms: int) -> None:
        """Queue what arrived; bytes on a connection that was dropped are lost."""
        peer = self._peers.get(conn)
        if peer is None or peer.doomed:
            return
        session = self._sessions.get(peer.session_id)
        if session is not None:
            session.last_contact_ms = now_ms
        peer.buffer += data
        while len(peer.buffer) >= 4:
            size = _INT.unpack_from(peer.buffer)[0]
            if not 0 <= size <= self.frame_bytes_max:
                peer.doomed = True
                self._pipeline.append((conn, peer.session_id, b""))
                return
            if len(peer.buffer) - 4 < size:
                return
            frame = bytes(peer.buffer[4 : 4 + size])
            del peer.buffer[: 4 + size]
            self._pipeline.append((conn, peer.session_id, frame))

    def disconnected(self, conn: int) -> None:
        """The client's connection is gone; what was received from it still applies."""
        peer = self._peers.pop(conn, None)
        session = self._sessions.get(peer.session_id) if peer else None
        if session is not None and session.conn == conn:
            session.conn = None

    @property
    def next_conn(self) -> int:
        """Connection of the request that :meth:`step` will apply next; -1 for none."""
        return self._pipeline[0][0] if self._pipeline else -1

    @property
    def next_frame(self) -> bytes:
        """The request that is served next, without its length."""
        return self._pipeline[0][2] if self._pipeline else b""

    @property
    def pending_count(self) -> int:
        """Requests received and not yet applied."""
        return len(self._pipeline)

    @property
    def session_ids(self) -> list[int]:
        """Live sessions, oldest first."""
        return list(self._sessions)

    def step(self, now_ms: int) -> list[Effect]:
        """Apply one queued request; nothing if there is none."""
        self.reads.clear()
        return self._serve(*self._pipeline.popleft(), now_ms) if self._pipeline else []

    def run(self, now_ms: int) -> list[Effect]:
        """Apply everything queued."""
        effects: list[Effect] = []
        while self._pipeline:
            effects += self.step(now_ms)
        return effects

    def expire(self, session_id: int) -> list[Effect]:
        """End a session as if its client had been silent for too long."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return []
        self.tree.end_session(session_id)
        return self._drop(session.conn)

    @property
    def deadline_ms(self) -> int | None:
        """When the next session expires if its client keeps silent."""
        return min(
            (session.last_contact_ms + session.timeout_ms for session in self._sessions.values()),
            default=None,
        )

    def tick(self, now_ms: int) -> list[Effect]:
        """Expire the sessions whose time is up."""
        silent = [
            session.id
            for session in self._sessions.values()
            if now_ms >= session.last_contact_ms + session.timeout_ms
        ]
        return [effect for session_id in silent for effect in self.expire(session_id)]

    def restart(self, now_ms: int) -> list[Effect]:
        """Kill and start again: what was not applied and connections are gone, sessions stay."""
        self._pipeline.clear()
        effects: list[Effect] = [Close(conn) for conn in self._peers]
        self._peers.clear()
        for session in self._sessions.values():
            session.conn = None
            session.last_contact_ms = now_ms
        return effects

    def _drop(self, conn: int | None) -> list[Effect]:
        if conn is None or self._peers.pop(conn, None) is None:
            return []
        return [Close(conn)]

    def _serve(self, conn: int, session_id: int, frame: bytes, now_ms: int) -> list[Effect]:
        peer = self._peers.get(conn)
        if not frame:
            self.disconnected(conn)
            return [Close(conn)] if peer else []
        if peer is not None and not peer.handshaken:
            return self._handshake(conn, peer, frame, now_ms)
        session_id = peer.session_id if peer is not None else session_id
        self.session_served = session_id if session_id in self._sessions else 0
        xid, opcode = _REQUEST_HEADER.unpack_from(frame)
        if session_id not in self._sessions:
            code, body = ZkCode.SESSION_EXPIRED, b""
        elif opcode == jute.OP_CLOSE_SESSION:
            self._sessions.pop(session_id)
            self.tree.end_session(session_id)
            self._peers.pop(conn, None)
            reply = Send(conn, _reply(xid, self.tree.zxid, ZkCode.OK, b""))
            return [reply, Close(conn)] if peer else []
        else:
            if opcode in _CATCHING_UP:
                self._reads_old.discard(conn)
            with self._server_of(conn):
                code, body = self._do(opcode, frame, session_id, now_ms)
        if code == ZkCode.UNIMPLEMENTED:
            self.disconnected(conn)
            return [Close(conn)] if peer else []
        return [Send(conn, _reply(xid, self.tree.zxid, code, body))] if peer else []

    @contextmanager
    def _server_of(self, conn: int) -> Iterator[None]:
        """What the server of a connection knows of the tree."""
        if self._old is None or conn not in self._reads_old:
            yield
            return
        now, self.tree.nodes = self.tree.nodes, self._old[1]
        try:
            yield
        finally:
            self.tree.nodes = now

    def _handshake(self, conn: int, peer: _Peer, frame: bytes, now_ms: int) -> list[Effect]:
        _, zxid, timeout_ms, session_id = struct.unpack_from(">iqiq", frame)
        password, _ = kazoo.read_buffer(frame, 24)
        peer.handshaken = True
        if self._old is not None and session_id == 0 and zxid <= self._old[0]:
            self._reads_old.add(conn)
        if zxid > self.tree.zxid:
            self._peers.pop(conn)
            return [Close(conn)]
        session = self._sessions.get(session_id)
        if session_id == 0:
            self.tree.zxid += 1
            bounds = (2 * self._tick_ms, 20 * self._tick_ms)
            session = ServerSession(
                id=self._rng.getrandbits(56) | 1,
                password=self._rng.randbytes(16),
                timeout_ms=min(max(timeout_ms, bounds[0]), bounds[1]),
                last_contact_ms=now_ms,
                conn=None,
            )
            self._sessions[session.id] = session
        if session is None or (session_id and session.password != password):
            self._peers.pop(conn)
            return [
                Send(conn, _framed(_CONNECT_REPLY.pack(0, 0, 0, 16, bytes(16), False))),
                Close(conn),
            ]
        effects = self._drop(session.conn)
        session.conn = conn
        session.last_contact_ms = now_ms
        peer.session_id = session.id
        answer = _CONNECT_REPLY.pack(0, session.timeout_ms, session.id, 16, session.password, False)
        return [*effects, Send(conn, _framed(answer))]

    def _do(self, opcode: int, frame: bytes, session_id: int, now_ms: int) -> tuple[ZkCode, bytes]:
        at = _REQUEST_HEADER.size
        try:
            if opcode == jute.OP_PING:
                return ZkCode.OK, b""
            if opcode == jute.OP_SYNC:
                return ZkCode.OK, kazoo.write_string(kazoo.read_string(frame, at)[0])
            if opcode == jute.OP_EXISTS:
                return ZkCode.OK, _STAT.pack(*self.tree.get(_path(frame, at)[0]).stat())
            if opcode in (jute.OP_GET_DATA, jute.OP_GET_CHILDREN):
                return ZkCode.OK, self._read(opcode, _path(frame, at)[0])
            if opcode == jute.OP_MULTI_READ:
                return self._multi_read(frame, at)
            if opcode == jute.OP_MULTI:
                return ZkCode.OK, self._multi(frame, at, session_id, now_ms)
            if opcode in (jute.OP_CREATE, jute.OP_DELETE, jute.OP_SET_DATA):
                value = self.tree.write(_op(opcode, frame, at)[0], session_id, now_ms)
                return ZkCode.OK, _value_bytes(value)
        except RefusedOp as refused:
            return refused.code, b""
        return ZkCode.UNIMPLEMENTED, b""

    def _read(self, opcode: int, path: str) -> bytes:
        self.reads.add(path)
        node = self.tree.get(path)
        self.tree.permit(path, write=False)
        if opcode == jute.OP_GET_DATA:
            return bytes(kazoo.write_buffer(node.data)) + _STAT.pack(*node.stat())
        names = b"".join(kazoo.write_string(name) for name in sorted(node.children))
        return _INT.pack(len(node.children)) + names

    def _multi_read(self, frame: bytes, at: int) -> tuple[ZkCode, bytes]:
        parts: list[bytes] = []
        while True:
            opcode, done, _ = _MULTI_HEADER.unpack_from(frame, at)
            at += _MULTI_HEADER.size
            if done:
                return ZkCode.OK, b"".join((*parts, _MULTI_HEADER.pack(-1, True, -1)))
            if opcode not in (jute.OP_GET_DATA, jute.OP_GET_CHILDREN):
                return ZkCode.MARSHALLING_ERROR, b""
            path, at = _path(frame, at)
            try:
                parts.append(_MULTI_HEADER.pack(opcode, False, 0) + self._read(opcode, path))
            except RefusedOp as refused:
                parts.append(_error_result(refused.code))

    def _multi(self, frame: bytes, at: int, session_id: int, now_ms: int) -> bytes:
        ops: list[ZkOp] = []
        codes: list[int] = []
        while True:
            opcode, done, _ = _MULTI_HEADER.unpack_from(frame, at)
            at += _MULTI_HEADER.size
            if done:
                break
            op, at = _op(opcode, frame, at)
            ops.append(op)
            codes.append(opcode)
        outcome = self.tree.multi(ops, session_id, now_ms)
        if isinstance(outcome, tuple):
            index, code = outcome
            after = [ZkCode.RUNTIME_INCONSISTENCY] * (len(ops) - index - 1)
            results = [_error_result(c) for c in [ZkCode.OK] * index + [code] + after]
        else:
            results = [
                _MULTI_HEADER.pack(opcode, False, 0) + _value_bytes(value)
                for opcode, value in zip(codes, outcome, strict=True)
            ]
        return b"".join((*results, _MULTI_HEADER.pack(-1, True, -1)))


def _framed(payload: bytes) -> bytes:
    return _INT.pack(len(payload)) + payload


def _reply(xid: int, zxid: int, code: ZkCode, body: bytes) -> bytes:
    return _framed(_REPLY_HEADER.pack(xid, zxid, code) + body)


def _error_result(code: ZkCode) -> bytes:
    return _MULTI_HEADER.pack(-1, False, code) + _INT.pack(code)


def _value_bytes(value: str | Stat | None) -> bytes:
    if value is None:
        return b""
    return bytes(kazoo.write_string(value)) if isinstance(value, str) else _STAT.pack(*value)


def _path(frame: bytes, at: int) -> tuple[str, int]:
    """A path and the watch byte behind it."""
    path, at = kazoo.read_string(frame, at)
    return path or "", at + 1


def _op(opcode: int, frame: bytes, at: int) -> tuple[ZkOp, int]:
    path, at = kazoo.read_string(frame, at)
    path = path or ""
    if opcode == jute.OP_CREATE:
        data, at = kazoo.read_buffer(frame, at)
        acls = []
        count = _INT.unpack_from(frame, at)[0]
        at += 4
        for _ in range(count):
            acl, at = kazoo.read_acl(frame, at)
            acls.append(ZnodeAcl(acl.perms, acl.id.scheme, acl.id.id))
        return Create(path, data, tuple(acls), _INT.unpack_from(frame, at)[0]), at + 4
    if opcode == jute.OP_SET_DATA:
        data, at = kazoo.read_buffer(frame, at)
        return SetData(path, data, _INT.unpack_from(frame, at)[0]), at + 4
    version = _INT.unpack_from(frame, at)[0]
    if opcode == jute.OP_DELETE:
        return Delete(path, version), at + 4
    if opcode == jute.OP_CHECK:
        return Check(path, version), at + 4
    raise RefusedOp(ZkCode.MARSHALLING_ERROR)
