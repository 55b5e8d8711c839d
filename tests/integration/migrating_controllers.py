"""Several controllers that migrate, each behind a proxy to a real ZooKeeper; brokers are a fleet.

The proxies hold back what one controller sends to ZooKeeper while the others go on. What is judged
is read around them: ZooKeeper's tree and transaction log, and each metadata log by Kafka's tool.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.chaos.quorum import Leader, described
from bench.judge import stores as judge
from bench.judge.transactions import Transaction, read
from bench.rig.bridge import Bridge
from bench.rig.fault_proxy import FaultProxy
from bench.rig.kafka import KraftController
from bench.rig.ports import HOST, free_ports
from bench.rig.seeded import seed
from bench.rig.waiting import wait_for
from bench.rig.warming import connected
from bench.rig.zk_dump import contents, dump
from bench.rig.zookeeper import ZooKeeper
from emulator.commands.admin_client import Connection
from tests.integration.node_stage import BROKERS, Loop, new_topic
from tests.integration.staged_brokers import StagedBrokers
from tests.integration.zookeeper_frames import MULTI, Op, decode
from wire.errors import ErrorCode

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
RELEASE = "3.9.2"
IDS = (3000, 3001, 3002)
SESSION_MS = 40_000
"""Longer than any test pauses a controller: what it had sent is still of a living session."""
MULTI_OPS = 12
"""Operations of a multi of ours: two topics fill one, so several are on their way at a time."""
_WAIT_S = 60.0


class MigratingControllers:
    """Three voters, the last ``kafkas`` of them Kafka's own; a fleet of three brokers."""

    def __init__(self, folder: Path, zookeeper: ZooKeeper, kafkas: int = 0) -> None:
        self.zookeeper = zookeeper
        self.proxies = {each: FaultProxy(zookeeper.port).start() for each in IDS}
        self.seen: dict[int, list[bytes]] = {each: [] for each in IDS}
        for each, proxy in self.proxies.items():
            proxy.watch = self.seen[each].append
        self.ports = dict(zip(IDS, free_ports(len(IDS)), strict=True))
        self._folder = folder
        theirs = IDS[len(IDS) - kafkas :]
        self.nodes = {each: self._node(each, theirs=each in theirs) for each in IDS}
        self._loop = Loop()
        addresses = ",".join(f"{HOST}:{port}" for port in self.ports.values())
        self.brokers = StagedBrokers(
            self._loop.events, zookeeper.hosts, addresses, CLUSTER, len(BROKERS)
        )
        self._numbers = itertools.count()

    def _node(self, each: int, *, theirs: bool) -> Bridge | KraftController:
        voters = ",".join(f"{one}@{HOST}:{port}" for one, port in self.ports.items())
        more = {
            "node.id": each,
            "controller.quorum.voters": voters,
            "zookeeper.session.timeout.ms": SESSION_MS,
        }
        home, port, zk = self._folder / str(each), self.ports[each], self.proxies[each].hosts
        if theirs:
            return KraftController(RELEASE, home, zk, CLUSTER, port=port, properties=more)
        more["kraftbridge.zk.write.behind.multi.ops"] = MULTI_OPS
        return Bridge(home, zk, port=port, properties=more)

    # ------------------------------------------------------------- beginning and end
    def start(self) -> int:
        """Up to dual write; who leads."""
        with connected(self.zookeeper.hosts) as client:
            seed(client, CLUSTER)
        for node in self.nodes.values():
            if isinstance(node, Bridge):
                node.format(CLUSTER, new_quorum=True)
        self.brokers.begin()
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_started()
        return self.in_dual_write()

    def close(self) -> None:
        """End everything but ZooKeeper."""
        for node in self.nodes.values():
            node.kill()
        self.brokers.close()
        self._loop.close()
        for proxy in self.proxies.values():
            proxy.close()

    # ------------------------------------------------------------- who leads
    def leaders(self, *among: int) -> list[Leader]:
        """Who says that it leads, by epoch."""
        found = []
        for each in among or IDS:
            said = described(self.ports[each]) if self.nodes[each].alive else None
            if said is not None and said.leader_id == each:
                found.append(Leader(said.leader_epoch, each, said.high_watermark))
        return sorted(found)

    def in_dual_write(self, *among: int) -> int:
        """Wait until one of ours leads in dual write; its id."""

        def ready() -> list[int]:
            return [one for one in among or IDS if self.driver(one) == "DUAL_WRITE"]

        return wait_for("dual write", ready, _WAIT_S)[-1]

    def driver(self, node_id: int) -> str:
        """State of the migration driver of one of ours; empty while it does not answer."""
        node = self.nodes[node_id]
        status = node.status() if isinstance(node, Bridge) and node.alive else None
        return "" if status is None else str(status["migration"]["driver_state"])

    def settled(self) -> int:
        """Wait until ours in dual write has written every change; its id."""
        leader = self.in_dual_write()
        node = self.nodes[leader]
        assert isinstance(node, Bridge)
        node.wait_status(
            "every change in ZooKeeper",
            lambda status: bool(status["migration"]["lag"]["records_without_no_ops"] == 0),
        )
        return leader

    # ------------------------------------------------------------- changes
    def name(self, text: str) -> str:
        """A name for a topic that nobody used."""
        return f"{text}-{next(self._numbers)}"

    def ask(self, node_id: int, name: str) -> int:
        """Ask one controller, once, to create a topic; the error of the answer."""
        connection = Connection(HOST, self.ports[node_id], _WAIT_S)
        try:
            return create(connection, name)
        finally:
            connection.close()

    def create(self, text: str, *among: int, count: int = 1) -> list[str]:
        """Have topics created by whoever leads; their names."""
        names = [self.name(text) for _ in range(count)]
        for name in names:
            wait_for(f"topic {name}", lambda name=name: self._created(name, among), _WAIT_S)
        return names

    def _created(self, name: str, among: tuple[int, ...]) -> bool:
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        return any(self.ask(one.node_id, name) in done for one in reversed(self.leaders(*among)))

    # ------------------------------------------------------------- looking
    def multis(self, node_id: int, since: int = 0) -> list[list[Op]]:
        """The multis that one sent towards ZooKeeper, from an index of `seen` on."""
        requests = [decode(frame) for frame in self.seen[node_id][since:]]
        return [ops for code, ops in requests if code == MULTI]

    def transactions(self) -> list[Transaction]:
        """What ZooKeeper logged."""
        return read(self.zookeeper.folder / "data")

    def stores(self, *among: int) -> tuple[judge.Entities, dict[int, judge.Entities]]:
        """What is in ZooKeeper, and in the log of each of these controllers."""
        tree = judge.from_tree(contents(dump(self.zookeeper.hosts, with_secrets=True)))
        logs = {
            each: judge.from_log(judge.dump_log(self.nodes[each].data)) for each in among or IDS
        }
        return tree, logs


@contextmanager
def migrating(
    folder: Path, zookeeper: ZooKeeper, kafkas: int = 0
) -> Iterator[MigratingControllers]:
    """Controllers for the length of a ``with`` block; `start` is the caller's."""
    stage = MigratingControllers(folder, zookeeper, kafkas)
    try:
        yield stage
    finally:
        stage.close()


def create(connection: Connection, name: str) -> int:
    """Create a topic over a connection; the error of the answer."""
    answer = connection.call(new_topic(name))
    (topic,) = answer.topics
    return int(topic.error_code)


def paths(transactions: Sequence[Transaction], kind: str) -> list[str]:
    """Paths of all operations of a kind that were applied, in order."""
    return [
        write.path
        for one in transactions
        if not one.error
        for write in one.writes
        if write.kind == kind
    ]
