"""The ZooKeeper model with watches: what a broker needs of ZooKeeper and a controller does not."""

from __future__ import annotations

import struct

from kazoo.protocol import serialization as kazoo

from emulator.seam import Effect, Send
from emulator.simulation.zookeeper import ZooKeeperModel
from emulator.zookeeper import jute
from emulator.zookeeper.ops import WatchKind, ZkOp

_WATCHING = frozenset({jute.OP_EXISTS, jute.OP_GET_DATA, jute.OP_GET_CHILDREN})


class WatchedZooKeeper(ZooKeeperModel):
    """Fires a watch once, before the answer to the request that triggers it, as the real one."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._watches: dict[tuple[int, str, bool], int | None] = {}
        """(connection, path, of the children) -> zxid of the last change when the watch was set;
        None: the znode was absent."""

    def step(self, now_ms: int) -> list[Effect]:
        conn, frame = self.next_conn, self.next_frame
        effects = super().step(now_ms)
        self._set(conn, frame)
        return [*self._fired(), *effects]

    def expire(self, session_id: int) -> list[Effect]:
        effects = super().expire(session_id)
        return [*effects, *self._fired()]

    def disconnected(self, conn: int) -> None:
        super().disconnected(conn)
        self._watches = {key: seen for key, seen in self._watches.items() if key[0] != conn}

    def write(self, op: ZkOp, now_ms: int, session_id: int = 0) -> list[Effect]:
        """What another client writes."""
        self.tree.write(op, session_id, now_ms)
        return self._fired()

    def _set(self, conn: int, frame: bytes) -> None:
        if len(frame) < 9 or conn not in self._peers or not frame[-1]:
            return
        opcode = struct.unpack_from(">i", frame, 4)[0]
        if opcode not in _WATCHING or frame[:4] == b"\0\0\0\0":
            return
        path, _ = kazoo.read_string(frame, 8)
        children = opcode == jute.OP_GET_CHILDREN
        seen = self._changed_at(path, children=children)
        if seen is not None or opcode == jute.OP_EXISTS:
            self._watches[conn, path, children] = seen

    def _changed_at(self, path: str, *, children: bool) -> int | None:
        node = self.tree.nodes.get(path)
        if node is None:
            return None
        return node.stat().pzxid if children else node.stat().mzxid

    def _fired(self) -> list[Effect]:
        fired: list[Effect] = []
        for (conn, path, children), before in [*self._watches.items()]:
            now = self._changed_at(path, children=children)
            if now == before:
                continue
            del self._watches[conn, path, children]
            kind = WatchKind.CHILDREN_CHANGED if children else WatchKind.CHANGED
            if before is None:
                kind = WatchKind.CREATED
            elif now is None:
                kind = WatchKind.DELETED
            name = path.encode()
            body = struct.pack(">iqiiii", jute.XID_WATCH, -1, 0, kind, 3, len(name)) + name
            fired.append(Send(conn, struct.pack(">i", len(body)) + body))
        return fired
