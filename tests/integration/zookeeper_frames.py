"""Requests to ZooKeeper read back from their bytes: what passed the proxy, decoded a second time.

Only what the tests look at: paths, data and versions; access rules are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

CREATE, DELETE, GET_DATA, SET_DATA, GET_CHILDREN, CHECK = 1, 2, 4, 5, 8, 13
MULTI, MULTI_READ = 14, 22


class Op(NamedTuple):
    """One operation; ``version`` is the expected one, for a create its flags."""

    code: int
    path: str
    data: bytes | None = None
    version: int = -1

    @property
    def json(self) -> dict[str, Any]:
        """Its data as a JSON object."""
        return dict(msgspec.json.decode(self.data or b"null"))


class Cursor:
    """Reads jute."""

    def __init__(self, frame: bytes, at: int = 0) -> None:
        self._frame = frame
        self._at = at

    def read_int(self) -> int:
        (value,) = struct.unpack_from(">i", self._frame, self._at)
        self._at += 4
        return int(value)

    def read_bool(self) -> bool:
        self._at += 1
        return self._frame[self._at - 1] != 0

    def read_buffer(self) -> bytes | None:
        size = self.read_int()
        if size < 0:
            return None
        self._at += size
        return self._frame[self._at - size : self._at]

    def read_text(self) -> str:
        return (self.read_buffer() or b"").decode()

    def read_op(self, code: int) -> Op:
        path = self.read_text()
        match code:
            case 1:
                data = self.read_buffer()
                for _ in range(self.read_int()):
                    self.read_int(), self.read_text(), self.read_text()
                return Op(code, path, data, self.read_int())
            case 5:
                return Op(code, path, self.read_buffer(), self.read_int())
            case 2 | 13:
                return Op(code, path, None, self.read_int())
            case 4 | 8:
                self.read_bool()
                return Op(code, path)
        raise ValueError(f"operation {code} on {path}")


def operation(frame: bytes) -> int:
    """Operation code of a request; what a session begins with has none: 0."""
    return Cursor(frame, 4).read_int() if len(frame) >= 8 else 0


def decode(frame: bytes) -> tuple[int, list[Op]]:
    """Operation code of a request, and its operations: one, or those inside a multi."""
    cursor = Cursor(frame, 4)
    code = cursor.read_int()
    if code in (MULTI, MULTI_READ):
        return code, list(_inside(cursor))
    if code in (CREATE, DELETE, GET_DATA, SET_DATA, GET_CHILDREN):
        return code, [cursor.read_op(code)]
    return code, []


def _inside(cursor: Cursor) -> Iterator[Op]:
    while True:
        code, done, _error = cursor.read_int(), cursor.read_bool(), cursor.read_int()
        if done:
            return
        yield cursor.read_op(code)
