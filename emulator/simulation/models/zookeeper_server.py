"""The ZooKeeper model as a server on the simulated network."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from emulator.seam import Close, Effect, Send
from emulator.simulation.aftermath import What, Where
from emulator.simulation.models.network import Address, Network
from emulator.simulation.models.scheduler import MS, Scheduler
from emulator.simulation.models.zookeeper_watches import Backup, WatchedZooKeeper
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode

# What the answers of the ZooKeeper model mean for a client: refused, or repeated.

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


ADDRESS: Address = ("zookeeper", 2181)
SERVICE_US = (100, 2 * MS)


class ZooKeeperServer:
    """Serves one request after the other; can be frozen (SIGSTOP), killed and started again.

    ``watch`` is called after each request served, with the name of its client; ``happened`` when
    a request is lost, is refused or comes again.
    """

    name = "zookeeper"

    def __init__(  # noqa: PLR0917  # what a server is, and what it runs in
        self,
        model: WatchedZooKeeper,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        watch: Callable[[str], None],
        happened: Callable[[What, Where], None],
    ) -> None:
        self.model = model
        self.frozen = False
        self._scheduler = scheduler
        self._network = network
        self._rng = rng
        self._watch = watch
        self._happened = happened
        self._judge = AnswerJudge(happened)
        self._waiting: list[Callable[[], None]] = []
        self._clients: dict[int, str] = {}
        self._owners: dict[int, str] = {}
        """The name of the client of each session."""
        self._serving = False
        self._expiry_ms: int | None = None
        self.swallow_replies = 0
        """So many replies to come are lost, with the connection they would have used."""
        network.listen(ADDRESS, self)

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """A client connected; its system accepts even while the server is frozen."""
        self._clients[conn] = self._network.opener(conn)
        self._do(lambda: self.model.accepted(conn))

    def connected(self, conn: int) -> None:
        """Never happens: the server opens no connection."""
        raise AssertionError(conn)

    def received(self, conn: int, data: bytes) -> None:
        """A client's bytes."""
        self._do(lambda: self.model.received(conn, data, self._scheduler.now_ms))

    def closed(self, conn: int, why: str) -> None:
        """A client's connection is gone."""
        del why
        self._do(lambda: self.model.disconnected(conn))

    # ---------------------------------------------------------------- what faults do
    def freeze(self) -> None:
        """Stop serving; what arrives waits."""
        self.frozen = True
        self._scheduler.add_line(self.name, "frozen")

    def thaw(self) -> None:
        """Serve on; sessions whose time ran out meanwhile may live or not, as in the real one."""
        self.frozen = False
        self._scheduler.add_line(self.name, "thawed")
        if self._rng.random() < 0.5:
            self._perform(self.model.tick(self._scheduler.now_ms))
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
        self._wake()

    def restart(self) -> None:
        """Kill and start again: what was received and not served is lost."""
        self._scheduler.add_line(self.name, "killed and started again")
        if self._waiting or self.model.pending_count:
            self._happened("lost", "zookeeper")
        self._waiting.clear()
        self._perform(self.model.restart(self._scheduler.now_ms))

    def restore(self, backup: Backup) -> None:
        """All servers begin again from a backup; what was received and not served is lost.

        Sessions of brokers are over. One that lived on from before its znode was made would leave a
        broker of Kafka without it until somebody restarts the broker.
        """
        self._scheduler.add_line(self.name, "restored from a backup")
        self._waiting.clear()
        self._happened("lost", "zookeeper")
        self._perform(self.model.restore(backup, self._scheduler.now_ms))
        for session_id in self.model.session_ids:
            if _is_broker(self._owners.get(session_id, "")):
                self._perform(self.model.expire(session_id))
        self.model.tree.changed.clear()
        self._wake()

    def expire_sessions(self, *, brokers: bool) -> None:
        """End every session; ``brokers``: also those of brokers."""
        for session_id in self.model.session_ids:
            if brokers or not _is_broker(self._owners.get(session_id, "")):
                self._scheduler.add_line(self.name, "session expired")
                self._perform(self.model.expire(session_id))

    def expire_sessions_of(self, client: str) -> None:
        """End the sessions of a client that is dead, as soon as the server runs."""

        def expire() -> None:
            for session_id in self.model.session_ids:
                if self._owners.get(session_id) == client:
                    self._perform(self.model.expire(session_id))

        self._do(expire)

    @property
    def has_request_of_a_controller(self) -> bool:
        """Whether a controller's request waits to be served."""
        conns = self.model.waiting_conns
        return any(not _is_broker(self._clients.get(conn, "")) for conn in conns)

    # ---------------------------------------------------------------- serving
    def _do(self, action: Callable[[], None]) -> None:
        if self.frozen:
            self._waiting.append(action)
            return
        action()
        self._wake()

    def _wake(self) -> None:
        if self.frozen:
            return
        if not self._serving and self.model.pending_count:
            self._serving = True
            self._scheduler.after(self._rng.randint(*SERVICE_US), self._serve)
        deadline_ms = self.model.deadline_ms
        if deadline_ms is not None and (self._expiry_ms is None or deadline_ms < self._expiry_ms):
            self._expiry_ms = deadline_ms
            self._scheduler.at_ms(deadline_ms, self._expire)

    def _serve(self) -> None:
        self._serving = False
        if self.frozen:
            return
        client = self._clients.get(self.model.next_conn, "")
        frame = self.model.next_frame
        effects = self.model.step(self._scheduler.now_ms)
        if not _is_broker(client):
            self._judge.judge(frame, effects)
        if self.model.session_served:
            self._owners.setdefault(self.model.session_served, client)
        self._perform(effects)
        self._watch(client)
        self._wake()

    def _expire(self) -> None:
        self._expiry_ms = None
        if not self.frozen:
            self._perform(self.model.tick(self._scheduler.now_ms))
        self._wake()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(conn, _) if self.swallow_replies and not self._of_broker(conn):
                    self.swallow_replies -= 1
                    self._happened("lost", "zookeeper")
                    self._scheduler.add_line(self.name, "a reply is lost with its connection")
                    self.model.disconnected(conn)
                    self._network.close(self, conn)
                case Send(conn, data):
                    self._network.send(self, conn, data)
                case Close(conn):
                    self._network.close(self, conn)
                case _:
                    raise TypeError(f"unknown effect {effect!r}")

    def _of_broker(self, conn: int) -> bool:
        return _is_broker(self._clients.get(conn, ""))


def _is_broker(client: str) -> bool:
    return client.startswith("broker")
