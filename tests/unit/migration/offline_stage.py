"""A comparison from a stopped folder, over a world's log and its model of ZooKeeper."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random

from emulator.migration.offline import OfflineReconcile, OfflineStage
from emulator.migration.position import Claimer
from emulator.migration.taking_over.tasks import Attempt
from emulator.seam import Close, Closed, Connect, Connected, Effect, Event, Log, Received, Send
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.zookeeper.client import ZkClient
from tests.unit.migration.journal import Journal
from tests.unit.migration.world import CLUSTER_ID, NODE_ID, ZK_PORT, World

_CONNS = count(5_000_000)
_PROCESSES = count(1)
STAGES = {stage.value for stage in OfflineStage}


class Offline:
    """Runs the machine to its end.

    ``before``: called with the number of each request, may raise ``KilledError``. ``meanwhile``:
    called as soon as a stage begins, before its requests arrive.
    """

    def __init__(
        self,
        world: World,
        *,
        dry_run: bool = False,
        log: Journal | None = None,
        node_id: int = NODE_ID,
        timeout_ms: int = 60_000,
    ) -> None:
        self.world = world
        self.before: Callable[[int], None] = lambda _request: None
        self.meanwhile: Callable[[OfflineStage], None] = lambda _stage: None
        self.requests = self.conn = 0
        journal = log or world.journal
        image = journal.stable
        self.machine = OfflineReconcile(
            ZkClient([("zk", ZK_PORT)], "", 6_000, 3_000, _CONNS.__next__, Random(1)),
            Attempt(
                image,
                journal,
                Claimer(node_id, image.epoch, f"offline-{next(_PROCESSES)}", stopped=True),
                ENTITIES_WITHOUT_SECRETS,
                CLUSTER_ID,
            ),
            lambda: world.now_ms * 1_000_000,
            dry_run=dry_run,
            timeout_ms=timeout_ms,
        )

    def run(self) -> Offline:
        world, machine = self.world, self.machine
        self._perform(machine.start(world.now_ms))
        while machine.stage is not OfflineStage.ENDED:
            due = machine.deadline_ms
            assert due is not None
            world.now_ms = max(world.now_ms, due)
            for answer in world.model.tick(world.now_ms):
                self.take(self._answer(answer))
            self._perform(machine.step([], world.now_ms))
        return self

    def take(self, events: list[Event]) -> None:
        """Let the machine take what arrives."""
        if events:
            self._perform(self.machine.step(events, self.world.now_ms))

    def _perform(self, effects: list[Effect]) -> None:
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Connect(conn=conn):
                    self.conn = conn
                    if self.world.zk_up:
                        self.world.model.accepted(conn)
                    told: Event = Connected(conn) if self.world.zk_up else Closed(conn, "refused")
                    todo += self.machine.step([told], self.world.now_ms)
                case Send(conn=conn, data=data):
                    self.requests += 1
                    self.before(self.requests)
                    self.world.model.received(conn, data, self.world.now_ms)
                    for answer in self.world.model.run(self.world.now_ms):
                        todo += self.machine.step(self._answer(answer), self.world.now_ms)
                case Close(conn=conn):
                    self.world.model.disconnected(conn)
                case Log(event=event) if event in STAGES:
                    self.meanwhile(OfflineStage(event))
                case _:
                    pass

    @staticmethod
    def _answer(answer: Effect) -> list[Event]:
        match answer:
            case Send(conn=conn, data=data):
                return [Received(conn, data)]
            case Close(conn=conn):
                return [Closed(conn, "closed by server")]
        raise AssertionError(answer)


class KilledError(Exception):
    """The process dies here."""
