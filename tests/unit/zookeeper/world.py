"""A client machine and a ZooKeeper model; the wire between them can be held, cut, made deaf."""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random
from typing import Any

from emulator.seam import Close, Closed, Connect, Connected, Effect, Received, Send
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import ZkOutcome, ZkRequest


class World:
    """Delivers everything at once unless told otherwise; time moves only by ``advance``."""

    def __init__(
        self,
        *,
        chroot: str = "",
        servers: int = 1,
        model: type[ZooKeeperModel] = ZooKeeperModel,
        **client: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.model = model(Random(7))
        self.client = ZkClient(
            [("zk", 2181 + i) for i in range(servers)],
            chroot,
            client.pop("session_timeout_ms", 6_000),
            client.pop("connect_timeout_ms", 3_000),
            count(1).__next__,
            Random(1),
            **client,
        )
        self.refusing: set[int] = set()  # ports that refuse connections
        self.silent: set[int] = set()  # ports that accept and never answer
        self.held: list[tuple[int, bytes]] | None = None  # bytes to the server, kept in the network
        self.dropping_replies = False
        self.log: list[Effect] = []
        self.dialled: list[tuple[int, int]] = []  # (time, port)
        self._ports: dict[int, int] = {}

    def perform(self, effects: list[Effect]) -> None:
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            self.log.append(effect)
            match effect:
                case Connect(conn=conn, port=port):
                    self.dialled.append((self.now_ms, port))
                    self._ports[conn] = port
                    if port in self.refusing:
                        todo += self.client.handle(Closed(conn, "refused"), self.now_ms)
                    else:
                        self.model.accepted(conn)
                        todo += self.client.handle(Connected(conn), self.now_ms)
                case Send(conn=conn, data=data) if self.client.owns(conn):
                    if self._ports[conn] in self.silent:
                        continue
                    if self.held is not None:
                        self.held.append((conn, data))
                        continue
                    self.model.received(conn, data, self.now_ms)
                    todo += self.answers()
                case Close(conn=conn):
                    if self.held is None:
                        self.model.disconnected(conn)

    def answers(self) -> list[Effect]:
        effects: list[Effect] = []
        for answer in self.model.run(self.now_ms):
            effects += self.deliver(answer)
        return effects

    def deliver(self, answer: Effect) -> list[Effect]:
        match answer:
            case Send(conn=conn, data=data):
                if self.dropping_replies:
                    return []
                return self.client.handle(Received(conn, data), self.now_ms)
            case Close(conn=conn):
                return self.client.handle(Closed(conn, "closed by server"), self.now_ms)
        raise AssertionError(answer)

    def start(self) -> World:
        self.perform(self.client.start(self.now_ms))
        return self

    def submit(self, tag: object, request: ZkRequest) -> None:
        self.perform(self.client.submit(tag, request, self.now_ms))

    def ask(self, request: ZkRequest) -> ZkOutcome:
        self.submit("ask", request)
        (outcome,) = self.client.take_results()
        return outcome

    def cut(self) -> None:
        conn = next(conn for conn in self._ports if self.client.owns(conn))
        self.model.disconnected(conn)
        self.perform(self.client.handle(Closed(conn, "cut"), self.now_ms))

    def release(self) -> None:
        held, self.held = self.held or [], None
        for conn, data in held:
            self.model.received(conn, data, self.now_ms)
            self.perform(self.answers())

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while True:
            due = [d for d in (self.client.deadline_ms, self.model.deadline_ms) if d is not None]
            at = min(due, default=end + 1)
            if at > end:
                break
            self.now_ms = max(self.now_ms, at)
            expired = [e for answer in self.model.tick(self.now_ms) for e in self.deliver(answer)]
            self.perform(expired)
            self.perform(self.client.tick(self.now_ms))
        self.now_ms = end
