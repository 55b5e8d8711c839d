"""The ZooKeeper model with watches, which brokers need, and with backups of an ensemble."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

from kazoo.protocol import serialization as kazoo
from typing_extensions import override

from emulator.seam import Effect, Send
from emulator.simulation.models.zookeeper import ServerSession, ZooKeeperModel
from emulator.simulation.models.zookeeper_tree import Znode
from emulator.zookeeper import jute
from emulator.zookeeper.ops import WatchKind, ZkOp


@dataclass(frozen=True, slots=True)
class Backup:
    """What the servers of an ensemble had on their disks at one instant."""

    nodes: dict[str, Znode]
    sessions: dict[int, ServerSession]


_WATCHING: Final = frozenset({jute.OP_EXISTS, jute.OP_GET_DATA, jute.OP_GET_CHILDREN})
_OPCODE: Final = struct.Struct(">i")
_EVENT: Final = struct.Struct(">iqiiii")
_CONNECTED: Final = 3


class WatchedZooKeeper(ZooKeeperModel):
    """Fires a watch once, before the answer to the request that triggers it, as the real one.

    The watches of a client of a server that lags are fired when that server has caught up.
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # passed on as they are
        self._watches: dict[tuple[int, str, bool], int | None] = {}
        """(connection, path, of the children) -> zxid of the last change when the watch was set;
        None: the znode was absent."""
        self._looked_at: tuple[int, int] = (-1, 0)
        """zxid, and how many read from a server that lags, when all watches were looked at."""

    @property
    def waiting_conns(self) -> list[int]:
        """Connections of the requests received and not yet applied."""
        return [conn for conn, _, _ in self._pipeline]

    @override
    def step(self, now_ms: int) -> list[Effect]:
        conn, frame = self.next_conn, self.next_frame
        effects = super().step(now_ms)
        self._set_watch(conn, frame)
        return [*self._fired(), *effects]

    @override
    def expire(self, session_id: int) -> list[Effect]:
        effects = super().expire(session_id)
        return [*effects, *self._fired()]

    @override
    def disconnected(self, conn: int) -> None:
        super().disconnected(conn)
        for key in [key for key in self._watches if key[0] == conn]:
            del self._watches[key]

    def write(self, op: ZkOp, now_ms: int, session_id: int = 0) -> list[Effect]:
        """What another client writes."""
        self.tree.write(op, session_id, now_ms)
        return self._fired()

    def back_up(self) -> Backup:
        """Copy the tree and the sessions as they are now."""
        nodes = {
            path: replace(one, children=set(one.children)) for path, one in self.tree.nodes.items()
        }
        return Backup(nodes, {one: replace(each) for one, each in self._sessions.items()})

    def restore(self, backup: Backup, now_ms: int) -> list[Effect]:
        """All servers stop, get a backup, and begin again; what was done since is forgotten.

        Sessions of the backup live again until their time is over, later ones are over. The servers
        elect a leader, so their next transaction is above all that clients have seen: an ensemble
        whose transactions were behind would refuse every client that has seen more.
        """
        effects = self.restart(now_ms)
        self.catch_up()
        self._watches.clear()
        self.tree.nodes.clear()
        for path, one in backup.nodes.items():
            self.tree.nodes[path] = replace(one, children=set(one.children))
        self.tree.changed.clear()
        self.tree.zxid = ((self.tree.zxid >> 32) + 1) << 32
        self._sessions.clear()
        for session_id, each in backup.sessions.items():
            self._sessions[session_id] = replace(each, conn=None, last_contact_ms=now_ms)
        return effects

    def _set_watch(self, conn: int, frame: bytes) -> None:
        if len(frame) < 9 or conn not in self._peers or not frame[-1]:
            return
        opcode = _OPCODE.unpack_from(frame, 4)[0]
        if opcode not in _WATCHING or frame[:4] == b"\0\0\0\0":
            return
        path, _ = kazoo.read_string(frame, 8)
        children = opcode == jute.OP_GET_CHILDREN
        nodes = self.tree.nodes
        if self._old is not None and conn in self._reads_old:
            nodes = self._old[1]
        seen = _changed_at(nodes.get(path or ""), children=children)
        if seen is not None or opcode == jute.OP_EXISTS:
            self._watches[conn, path or "", children] = seen

    def _fired(self) -> list[Effect]:
        now = (self.tree.zxid, len(self._reads_old))
        if now == self._looked_at:
            return []
        self._looked_at = now
        fired: list[Effect] = []
        for key, before in [*self._watches.items()]:
            conn, path, children = key
            if conn not in self._peers:
                del self._watches[key]
                continue
            if conn in self._reads_old:
                continue
            changed_at = _changed_at(self.tree.nodes.get(path), children=children)
            if changed_at == before:
                continue
            del self._watches[key]
            kind = WatchKind.CHILDREN_CHANGED if children else WatchKind.CHANGED
            if before is None:
                kind = WatchKind.CREATED
            elif changed_at is None:
                kind = WatchKind.DELETED
            name = path.encode()
            body = _EVENT.pack(jute.XID_WATCH, -1, 0, kind, _CONNECTED, len(name)) + name
            fired.append(Send(conn, _OPCODE.pack(len(body)) + body))
        return fired


def _changed_at(node: Znode | None, *, children: bool) -> int | None:
    if node is None:
        return None
    return node.pzxid if children else node.mzxid
