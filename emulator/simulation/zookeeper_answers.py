"""What the answers of the ZooKeeper model mean for a client: refused, or repeated."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from emulator.seam import Effect, Send
from emulator.simulation.aftermath import What, Where
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode

_WRITES: Final = frozenset({jute.OP_MULTI, jute.OP_CREATE, jute.OP_DELETE, jute.OP_SET_DATA})
_REFUSALS: Final = frozenset(
    {
        ZkCode.NO_AUTH,
        ZkCode.BAD_VERSION,
        ZkCode.NOT_EMPTY,
        ZkCode.SESSION_EXPIRED,
        ZkCode.SESSION_MOVED,
    }
)
_OPCODE: Final = struct.Struct(">i")
_REPLY: Final = struct.Struct(">iiqi")
"""Length, xid, zxid, error code."""
_RESULT: Final = struct.Struct(">i?i")


class AnswerJudge:
    """Looks at every request and its answer.

    Refused is what a client does not get without a fault: no right, another version, a multi that
    was not done, a session that is over. Repeated is a write that was served before, byte for byte.
    Lost is an answer that its client does not wait for any more.
    """

    def __init__(self, happened: Callable[[What, Where], None]) -> None:
        self._happened = happened
        self._seen: set[int] = set()

    def judge(self, frame: bytes, effects: Sequence[Effect]) -> None:
        """A request, without its length, was served with these effects."""
        sent = next((one.data for one in effects if isinstance(one, Send)), b"")
        if frame and not sent:
            self._happened("lost", "zookeeper")
        opcode = _OPCODE.unpack_from(frame, 4)[0] if len(frame) >= 8 else 0
        if len(sent) >= _REPLY.size:
            _, xid, zxid, code = _REPLY.unpack_from(sent)
            no_session = not xid and not zxid and not code and sent[4:24] == bytes(20)
            if no_session or code in _REFUSALS or (opcode == jute.OP_MULTI and _failed(sent)):
                self._happened("refused", "zookeeper")
        if opcode in _WRITES and _OPCODE.unpack_from(frame)[0] > 0:
            key = hash(frame[4:])
            if key in self._seen:
                self._happened("repeated", "zookeeper")
            self._seen.add(key)


def _failed(reply: bytes) -> bool:
    return len(reply) >= _REPLY.size + _RESULT.size and _RESULT.unpack_from(reply, _REPLY.size)[
        :2
    ] == (-1, False)
