"""ZooKeeper as one more machine among those that are joined in memory."""

from __future__ import annotations

from random import Random

from emulator.seam import Accepted, Closed, Effect, Event, Received
from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper
from emulator.zookeeper.ops import ZkOp
from tests.kit.joined import Joined, Party

ADDRESS = ("zk", 2181)


class ZooKeeperMachine:
    """A machine of the seam around the model."""

    def __init__(self) -> None:
        self.model = WatchedZooKeeper(Random(7))

    @property
    def deadline_ms(self) -> int | None:
        return self.model.deadline_ms

    def start(self, now_ms: int) -> list[Effect]:
        return self.step([], now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        for event in events:
            match event:
                case Accepted(conn):
                    self.model.accepted(conn)
                case Received(conn, data):
                    self.model.received(conn, data, now_ms)
                case Closed(conn):
                    self.model.disconnected(conn)
        return [*self.model.tick(now_ms), *self.model.run(now_ms)]

    def shutdown(self, now_ms: int) -> list[Effect]:
        return []


class JoinedZooKeeper:
    """The server, and what other clients do to it."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self.machine = ZooKeeperMachine()
        self.party: Party = joined.join("zookeeper", self.machine, {ADDRESS: "zk"})

    @property
    def nodes(self) -> dict[str, bytes | None]:
        """Data by path."""
        return {path: node.data for path, node in self.machine.model.tree.nodes.items()}

    def write(self, *ops: ZkOp, session: int = 0) -> None:
        """Another client writes."""
        for op in ops:
            self._joined.perform(
                self.party, self.machine.model.write(op, self._joined.now_ms, session)
            )
        self._joined.settle()

    def expire(self, session: int) -> None:
        """A session ends as if its client had been silent."""
        self._joined.perform(self.party, self.machine.model.expire(session))
        self._joined.settle()
