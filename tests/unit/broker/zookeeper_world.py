"""A broker's ZooKeeper part beside a model of ZooKeeper; the wire can be cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random

from emulator.broker.zookeeper.part import ZooKeeperPart
from emulator.broker.zookeeper.znode import ZnodeOf
from emulator.metadata.brokers import Endpoint
from emulator.seam import Close, Closed, Connect, Connected, Effect, Log, Received, Send
from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import ZkOp

CLUSTER = "GM-0TRQsRn2jEBRruGoNQQ"
IN, CLIENT = Endpoint("INTERNAL", "127.0.0.1", 29090), Endpoint("CLIENT", "127.0.0.1", 29190, 2)


def about(
    broker_id: int = 0,
    *,
    endpoints: tuple[Endpoint, ...] = (IN, CLIENT),
    rack: str | None = None,
    stored: str | None = None,
) -> ZnodeOf:
    return ZnodeOf(broker_id, endpoints, rack, stored, CLUSTER)


class PartWorld:
    """Delivers everything at once; time moves only by ``advance``."""

    def __init__(
        self,
        znode: ZnodeOf | None = None,
        model: WatchedZooKeeper | None = None,
        first_conn: int = 1,
    ) -> None:
        self.now_ms = 1_700_000_000_000
        self.model = model or WatchedZooKeeper(Random(7))
        zk = ZkClient(
            [("zk", 2181)],
            "",
            6_000,
            3_000,
            count(first_conn).__next__,
            Random(1),
            keeps_session=True,
        )
        self.part = ZooKeeperPart(zk, znode or about())
        self.logs: list[Log] = []
        self.cut_off = False
        self.loses_reply: Callable[[], bool] = lambda: False

    @property
    def nodes(self) -> dict[str, object]:
        return dict(self.model.tree.nodes)

    def perform(self, effects: list[Effect]) -> None:
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Log():
                    self.logs.append(effect)
                case Connect(conn=conn) if self.cut_off:
                    todo += self.tell(Closed(conn, "refused"))
                case Connect(conn=conn):
                    self.model.accepted(conn)
                    todo += self.tell(Connected(conn))
                case Send(conn=conn, data=data):
                    self.model.received(conn, data, self.now_ms)
                    todo += self.deliver(self.model.run(self.now_ms))
                case Close(conn=conn):
                    self.model.disconnected(conn)

    def tell(self, event: Connected | Closed | Received) -> list[Effect]:
        self.part.handle(event, self.now_ms)
        return self.part.effects(self.now_ms)

    def deliver(self, answers: list[Effect]) -> list[Effect]:
        effects: list[Effect] = []
        for answer in answers:
            if isinstance(answer, Send) and not self.loses_reply():
                effects += self.tell(Received(answer.conn, answer.data))
            elif isinstance(answer, Close):
                effects += self.tell(Closed(answer.conn, "closed by server"))
        return effects

    def start(self) -> PartWorld:
        self.part.start(self.now_ms)
        self.perform(self.part.effects(self.now_ms))
        return self

    def write(self, op: ZkOp, session: int = 0) -> None:
        """Another client writes."""
        self.perform(self.deliver(self.model.write(op, self.now_ms, session)))

    def expire(self) -> None:
        """The session ends as if nothing had been heard."""
        self.perform(self.deliver(self.model.expire(self.part.zk.session_id)))

    def cut(self) -> None:
        """The connection ends."""
        conn = next(conn for conn in range(1, 2_000) if self.part.zk.owns(conn))
        self.model.disconnected(conn)
        self.perform(self.tell(Closed(conn, "cut")))

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while True:
            due = [d for d in (self.part.deadline_ms, self.model.deadline_ms) if d is not None]
            at = min(due, default=end + 1)
            if at > end:
                break
            self.now_ms = max(self.now_ms, at)
            self.perform(self.deliver(self.model.tick(self.now_ms)))
            self.part.tick(self.now_ms)
            self.perform(self.part.effects(self.now_ms))
        self.now_ms = end
