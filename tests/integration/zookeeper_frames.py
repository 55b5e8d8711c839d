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

    def int(self) -> int:
        (value,) = struct.unpack_from(">i", self._frame, self._at)
        self._at += 4
        return int(value)

    def bool(self) -> bool:
        self._at += 1
        return self._frame[self._at - 1] != 0

    def buffer(self) -> bytes | None:
        size = self.int()
        if size < 0:
            return None
        self._at += size
        return self._frame[self._at - size : self._at]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def op(self, code: int) -> Op:
        path = self.text()
        match code:
            case 1:
                data = self.buffer()
                for _ in range(self.int()):
                    self.int(), self.text(), self.text()
                return Op(code, path, data, self.int())
            case 5:
                return Op(code, path, self.buffer(), self.int())
            case 2 | 13:
                return Op(code, path, None, self.int())
            case 4 | 8:
                self.bool()
                return Op(code, path)
        raise ValueError(f"operation {code} on {path}")


def decode(frame: bytes) -> tuple[int, list[Op]]:
    """Operation code of a request, and its operations: one, or those inside a multi."""
    cursor = Cursor(frame, 4)
    code = cursor.int()
    if code in (MULTI, MULTI_READ):
        return code, list(_inside(cursor))
    if code in (CREATE, DELETE, GET_DATA, SET_DATA, GET_CHILDREN):
        return code, [cursor.op(code)]
    return code, []


def _inside(cursor: Cursor) -> Iterator[Op]:
    while True:
        code, done, _error = cursor.int(), cursor.bool(), cursor.int()
        if done:
            return
        yield cursor.op(code)
