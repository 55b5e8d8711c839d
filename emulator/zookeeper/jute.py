"""Requests and replies of ZooKeeper's client protocol as bytes.

Built on kazoo's primitives (strings, buffers, header structs, the connect handshake). The four
write ops are laid out here because the size of a multi must be known before it is built, because
kazoo turns the codes inside a failed multi into exceptions, and because kazoo has no multiRead
(22).

Traps, measured on 3.6.4, 3.8.4 and 3.9.5: a failed multi has header error 0, and its first result
may be 0 as well, so every result is checked. A frame of more than 1,048,575 bytes makes the
server close the connection without an answer, so the size is checked before anything is sent.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TypeAlias, cast

from kazoo.protocol import serialization as kazoo

from emulator.seam import Slices, whole
from emulator.zookeeper.ops import (
    OPEN,
    AddAuth,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    Failure,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    OpValue,
    ReadFailed,
    ReadValue,
    SaslToken,
    SetData,
    Stat,
    Sync,
    Value,
    WatchFired,
    ZkOp,
    ZkRequest,
    ZnodeAcl,
)

FRAME_BYTES_MAX = 1_048_575
"""ZooKeeper's default ``jute.maxbuffer`` (0xfffff), without the four length bytes."""

OP_CREATE, OP_DELETE, OP_EXISTS, OP_GET_DATA, OP_SET_DATA = 1, 2, 3, 4, 5
OP_GET_CHILDREN, OP_SYNC, OP_PING, OP_CHECK, OP_MULTI = 8, 9, 11, 13, 14
OP_MULTI_READ, OP_CLOSE_SESSION, OP_ERROR = 22, -11, -1
OP_AUTH, OP_SASL = 100, 102
XID_WATCH, XID_PING, XID_AUTH = -1, -2, -4

_INT = struct.Struct(">i")
_pack_int = _INT.pack
_REQUEST_HEADER = struct.Struct(">iii")
_REPLY_HEADER = struct.Struct(">iqi")
_MULTI_HEADER = struct.Struct(">i?i")
_READ_HEADER = struct.Struct(">i?ii")  # and a length or an error code
_STAT = struct.Struct(">qqqqiiiqiiq")
_stat = partial(tuple.__new__, Stat)  # of eleven numbers, which ``Stat._make`` counts again
_MULTI_END = _MULTI_HEADER.pack(-1, True, -1)
_HEADER_OF = {
    op: _MULTI_HEADER.pack(op, False, -1)
    for op in (OP_CREATE, OP_SET_DATA, OP_DELETE, OP_CHECK, OP_GET_DATA, OP_GET_CHILDREN)
}
_NULL = _INT.pack(-1)
NAMES_PER_SLICE = 5_000
"""Names of children that one slice reads and sorts: two or three milliseconds."""
MULTI_OVERHEAD_BYTES = 8 + len(_MULTI_END)
"""Bytes of a multi besides its ops: xid, opcode and the closing header."""


class JuteError(ValueError):
    """The server sent bytes that are not a valid reply to the request."""


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


def _buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT.pack(len(data)) + data


def _acls(acls: tuple[ZnodeAcl, ...]) -> bytes:
    parts = [_INT.pack(len(acls))]
    for acl in acls:
        parts += (_INT.pack(acl.perms), _string(acl.scheme), _string(acl.id))
    return b"".join(parts)


_OPEN_BYTES = _acls(OPEN)
_PLAIN_END = _OPEN_BYTES + _INT.pack(0)
_CREATE_HEADER, _SET_DATA_HEADER = _HEADER_OF[OP_CREATE], _HEADER_OF[OP_SET_DATA]
_STAT_RESULT_BYTES = _MULTI_HEADER.size + _STAT.size


def full_path(path: str, chroot: str) -> str:
    """Prefix a path with the chroot (empty, or ``/a/b``).

    >>> full_path("/", "/kafka"), full_path("/x", "/kafka"), full_path("/x", "")
    ('/kafka', '/kafka/x', '/x')
    """
    if not chroot:
        return path
    return chroot if path == "/" else chroot + path


def op_bytes(op: ZkOp, chroot: str = "") -> bytes:
    """Lay out one op of a multi, its header included."""
    path = (full_path(op.path, chroot) if chroot else op.path).encode()
    length = _pack_int(len(path))
    match op:
        case Create():
            data = op.data
            plain = op.acl is OPEN and not op.flags
            end = _PLAIN_END if plain else _acls(op.acl) + _INT.pack(op.flags)
            if data is None:
                return b"".join((_CREATE_HEADER, length, path, _NULL, end))
            return b"".join((_CREATE_HEADER, length, path, _pack_int(len(data)), data, end))
        case SetData():
            version = _INT.pack(op.version)
            return b"".join((_SET_DATA_HEADER, length, path, _buffer(op.data), version))
        case Delete():
            return b"".join((_HEADER_OF[OP_DELETE], length, path, _INT.pack(op.version)))
        case Check():
            return b"".join((_HEADER_OF[OP_CHECK], length, path, _INT.pack(op.version)))


_OPCODE: dict[type, int] = {
    Create: OP_CREATE,
    SetData: OP_SET_DATA,
    Delete: OP_DELETE,
    Check: OP_CHECK,
    GetData: OP_GET_DATA,
    GetChildren: OP_GET_CHILDREN,
    Exists: OP_EXISTS,
    Sync: OP_SYNC,
    CloseSession: OP_CLOSE_SESSION,
    Multi: OP_MULTI,
    MultiRead: OP_MULTI_READ,
    SaslToken: OP_SASL,
    AddAuth: OP_AUTH,
}


def op_size(op: ZkOp, chroot: str = "") -> int:
    """Bytes that one op adds to a multi, its header included: exactly what will be sent."""
    size = 9 + 4 + len(full_path(op.path, chroot).encode()) + 4
    match op:
        case SetData():
            return size + 4 + (len(op.data) if op.data is not None else 0)
        case Create():
            acl = len(_OPEN_BYTES) if op.acl is OPEN else len(_acls(op.acl))
            return size + 4 + acl + (len(op.data) if op.data is not None else 0)
        case Delete() | Check():
            return size


def encode_request(request: ZkRequest, xid: int, chroot: str = "") -> bytes:
    """Lay out one request with its length in front.

    Raises:
        ValueError: the frame would be longer than ``FRAME_BYTES_MAX``, a path is not absolute, or
            a multiRead is to set a watch.
    """
    opcode = _OPCODE[type(request)]
    match request:
        case Multi(body=bytes(encoded)):
            body = encoded + _MULTI_END
        case Multi():
            body = b"".join((*(op_bytes(op, chroot) for op in request.ops), _MULTI_END))
        case MultiRead():
            parts = [
                _HEADER_OF[_OPCODE[type(read)]] + _string(full_path(read.path, chroot)) + b"\0"
                for read in request.reads
            ]
            if any(read.watch for read in request.reads):
                raise ValueError("a multiRead sets no watches")
            body = b"".join((*parts, _MULTI_END))
        case Create() | SetData() | Delete():
            body = op_bytes(request, chroot)[_MULTI_HEADER.size :]
        case GetData() | GetChildren() | Exists():
            body = _string(full_path(request.path, chroot)) + bytes((request.watch,))
        case Sync():
            body = _string(full_path(request.path, chroot))
        case SaslToken():
            body = _buffer(request.token)
        case AddAuth():
            body = _INT.pack(0) + _string(request.scheme) + _buffer(request.auth)
        case CloseSession():
            body = b""
    size = len(body) + 8
    if size > FRAME_BYTES_MAX:
        raise ValueError(
            f"{type(request).__name__} of {size} bytes; ZooKeeper takes {FRAME_BYTES_MAX}"
        )
    return _REQUEST_HEADER.pack(size, xid, opcode) + body


def encode_ping() -> bytes:
    """The keep-alive; its reply has the same xid."""
    return _REQUEST_HEADER.pack(8, XID_PING, OP_PING)


def encode_connect(timeout_ms: int, session_id: int, password: bytes, last_zxid: int) -> bytes:
    """The handshake. ``session_id`` 0 with 16 zero bytes asks for a new session."""
    body = bytes(kazoo.Connect(0, last_zxid, timeout_ms, session_id, password, False).serialize())
    return _INT.pack(len(body)) + body


def decode_connect(frame: bytes) -> tuple[int, int, bytes]:
    """Read the handshake's answer: negotiated timeout in ms, session id (0: expired), password."""
    try:
        answer, _ = kazoo.Connect.deserialize(frame, 0)
    except struct.error as error:
        raise JuteError(f"handshake answer of {len(frame)} bytes: {error}") from error
    return int(answer.time_out), int(answer.session_id), bytes(answer.passwd or b"")


def reply_header(frame: bytes) -> tuple[int, int, int]:
    """Split off xid, zxid and error code.

    Raises:
        JuteError: the frame is shorter than a header.
    """
    try:
        return cast("tuple[int, int, int]", _REPLY_HEADER.unpack_from(frame))
    except struct.error as error:
        raise JuteError(f"reply of {len(frame)} bytes: {error}") from error


def decode_reply(request: ZkRequest, frame: bytes, chroot: str = "") -> Value | Failure:
    """Read the answer to ``request``.

    Returns:
        The value each request's docstring names, or a ``Failure``.

    Raises:
        JuteError: the bytes are not an answer to this request.
    """
    return whole(decoding_reply(request, frame, chroot))


def decoding_reply(request: ZkRequest, frame: bytes, chroot: str = "") -> Slices[Value | Failure]:
    """The same, in slices of ``NAMES_PER_SLICE`` names of children; only reads have many.

    Raises:
        JuteError: the bytes are not an answer to this request.
    """
    _, _, error = reply_header(frame)
    if error:
        return Failure(error)
    try:
        match request:
            case MultiRead():
                return (yield from _read_results(request, frame, _REPLY_HEADER.size))
            case GetChildren():
                return (yield from _children(frame, _REPLY_HEADER.size))[0]
            case _:
                return _decode_body(request, frame, chroot)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise JuteError(f"reply to {type(request).__name__}: {problem}") from problem


def decode_watch(frame: bytes, chroot: str = "") -> WatchFired:
    """Read the notice of a watch that fired; its path is below the chroot.

    Raises:
        JuteError: the bytes are not such a notice.
    """
    at = _REPLY_HEADER.size
    try:
        kind = _INT.unpack_from(frame, at)[0]
        path = _text(frame, at + 8)[0]
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise JuteError(f"notice of a watch: {problem}") from problem
    if chroot and not f"{path}/".startswith(f"{chroot}/"):
        raise JuteError(f"notice of a watch at {path!r}, which is not below {chroot}")
    return WatchFired(path[len(chroot) :] or "/", kind)


_Short: TypeAlias = (
    Create | SetData | Delete | GetData | Exists | Sync | CloseSession | Multi | SaslToken | AddAuth
)
"""What is never answered with the names of many children."""


def _decode_body(request: _Short, frame: bytes, chroot: str) -> Value | Failure:
    at = _REPLY_HEADER.size
    match request:
        case Multi(body=bytes()) if _applied(request, frame, at):
            return _last_results(frame)
        case Multi():
            return _multi_results(request, frame, at, chroot)
        case GetData():
            data, at = _bytes(frame, at)
            return NodeData(data, _stat(_STAT.unpack_from(frame, at)))
        case Create():
            return _text(frame, at)[0][len(chroot) :]
        case SetData() | Exists():
            return Stat._make(_STAT.unpack_from(frame, at))
        case SaslToken():
            return _bytes(frame, at)[0]
        case Delete() | Sync() | CloseSession() | AddAuth():
            return None


def _text(frame: bytes, at: int) -> tuple[str, int]:
    size = _INT.unpack_from(frame, at)[0]
    end = at + 4 + size
    if size < 0 or end > len(frame):
        raise IndexError(f"string of {size} bytes at {at}")
    return frame[at + 4 : end].decode(), end


def _bytes(frame: bytes, at: int) -> tuple[bytes | None, int]:
    size = _INT.unpack_from(frame, at)[0]
    at += 4
    return (bytes(frame[at : at + size]), at + size) if size >= 0 else (None, at)


def _children(frame: bytes, at: int) -> Slices[tuple[tuple[str, ...], int]]:
    """Names of children and where they end: each slice is in order, so that all soon are.

    ZooKeeper has them in no order, and to sort 100,000 takes 30 ms.
    """
    read, size = _INT.unpack_from, len(frame)
    left, end = read(frame, at)[0], at + 4
    names: list[str] = []
    while left > 0:
        some = []
        for _ in range(min(left, NAMES_PER_SLICE)):
            # As ``_text`` does, of which an answer may have tens of thousands.
            begin = end + 4
            length = read(frame, end)[0]
            end = begin + length
            if length < 0 or end > size:
                raise IndexError(f"string of {length} bytes at {begin - 4}")
            some.append(frame[begin:end].decode())
        if left > NAMES_PER_SLICE:
            some.sort()
            yield
        left -= len(some)
        names += some
    return tuple(names), end


def _applied(request: Multi, frame: bytes, at: int) -> bool:
    """Whether the answer is that of an applied multi which ends with two ``SetData``.

    All results of a multi that was refused are errors, the first one too.
    """
    kind, done, _ = _MULTI_HEADER.unpack_from(frame, at)
    return (
        kind != OP_ERROR
        and not done
        and len(frame) >= at + 2 * _STAT_RESULT_BYTES + len(_MULTI_END)
        and frame.endswith(_MULTI_END)
        and {*map(type, request.ops[-2:])} == {SetData}
    )


def _last_results(frame: bytes) -> Value:
    """The values of two ``SetData`` at the end of an answer."""
    values: list[OpValue] = []
    end = len(frame) - len(_MULTI_END)
    for at in (end - 2 * _STAT_RESULT_BYTES, end - _STAT_RESULT_BYTES):
        kind, done, _ = _MULTI_HEADER.unpack_from(frame, at)
        if kind != OP_SET_DATA or done:
            raise IndexError(f"result of kind {kind} at the end of a multi")
        values.append(Stat._make(_STAT.unpack_from(frame, at + _MULTI_HEADER.size)))
    return values


def _multi_results(request: Multi, frame: bytes, at: int, chroot: str) -> Value | Failure:
    values: list[OpValue] = []
    codes: list[int] = []
    for _ in request.ops:
        kind, done, _ = _MULTI_HEADER.unpack_from(frame, at)
        at += _MULTI_HEADER.size
        if done:
            break
        if kind == OP_ERROR:
            codes.append(_INT.unpack_from(frame, at)[0])
            at += 4
        elif kind == OP_CREATE:
            path, at = _text(frame, at)
            values.append(path[len(chroot) :])
        elif kind == OP_SET_DATA:
            values.append(Stat._make(_STAT.unpack_from(frame, at)))
            at += _STAT.size
        elif kind in (OP_DELETE, OP_CHECK):
            values.append(None)
        else:
            raise IndexError(f"result of kind {kind} in a multi")
    if codes:
        for index, code in enumerate(codes):
            if code:
                return Failure(code, index)
        raise IndexError("a failed multi without a failed op")
    if len(values) != len(request.ops):
        raise IndexError(f"{len(values)} results for {len(request.ops)} ops")
    return values


def _read_results(request: MultiRead, frame: bytes, at: int) -> Slices[list[ReadValue]]:
    values: list[ReadValue] = []
    names: tuple[str, ...] = ()
    read = b""
    for _ in request.reads:
        kind, done, _, size = _READ_HEADER.unpack_from(frame, at)
        if done:
            raise IndexError(f"{len(values)} results for {len(request.reads)} reads")
        at += _MULTI_HEADER.size
        value: ReadValue
        if kind == OP_GET_DATA:
            at += 4 + max(size, 0)
            data = frame[at - size : at] if size >= 0 else None
            value = NodeData(data, _stat(_STAT.unpack_from(frame, at)))
            at += _STAT.size
        elif kind == OP_GET_CHILDREN:
            # Topics with as many partitions have the same names.
            if not (read and frame.startswith(read, at)):
                begin = at
                names, at = yield from _children(frame, begin)
                read = frame[begin:at]
            else:
                at += len(read)
            value = names
        elif kind == OP_ERROR:
            value = ReadFailed(size)
            at += 4
        else:
            raise IndexError(f"result of kind {kind} in a multiRead")
        values.append(value)
    return values
