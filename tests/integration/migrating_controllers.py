"""Several controllers that migrate, each behind a proxy to a real ZooKeeper; brokers are a fleet.

The proxies hold back what one controller sends to ZooKeeper while the others go on. What is judged
is read around them: ZooKeeper's tree and transaction log, and each metadata log by Kafka's tool.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.chaos.quorum import Leader, described
from bench.judge import stores as judge
from bench.judge.transactions import Transaction, read
from emulator.io.kafka_client import Connection
from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST, free_ports
from emulator.servers.seeded import connected, seed
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import BROKERS, Loop, new_topic
from tests.integration.staged_brokers import StagedBrokers
from tests.integration.zookeeper_frames import MULTI, Op, decode
from tests.kit.requests import delete_topics, quota
from wire.errors import ErrorCode

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
RELEASE = "3.9.2"
IDS = (3000, 3001, 3002)
SESSION_MS = 40_000
"""Longer than any test pauses a controller: what it had sent is still of a living session."""
MULTI_OPS = 12
"""Operations of a multi of ours: two topics fill one, so several are on their way at a time."""
_WAIT_S = 60.0
_ELECTIONS_MAX = 20


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
        self.ours = frozenset(IDS) - set(theirs)
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
        """Up to dual write under one of ours; who leads."""
        self.prepare()
        self.launch(IDS)
        self.until_leads(self.ours)
        return self.in_dual_write()

    def prepare(self) -> None:
        """Seed ZooKeeper, format the folders of ours, start the brokers."""
        with connected(self.zookeeper.hosts) as client:
            seed(client, CLUSTER)
        for node in self.nodes.values():
            if isinstance(node, Bridge):
                node.format(CLUSTER, new_quorum=True)
        self.brokers.begin()

    def launch(self, among: Collection[int]) -> None:
        """Start some of the controllers."""
        nodes = [self.nodes[each] for each in among]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_started()

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

    def until_leads(self, wanted: Collection[int]) -> Leader:
        """Kill whoever leads and start it again, until one of these leads.

        Raises:
            TimeoutError: there is no leader.
            AssertionError: none of these won in many elections.
        """
        for _ in range(_ELECTIONS_MAX):
            leader = self._leader_beyond(-1)
            if leader.node_id in wanted:
                return leader
            killed = self.nodes[leader.node_id]
            killed.kill()
            self._leader_beyond(leader.epoch)
            killed.start().wait_started()
        raise AssertionError(f"none of {wanted} leads")

    def _leader_beyond(self, epoch: int) -> Leader:
        def beyond() -> list[Leader]:
            return [one for one in self.leaders() if one.epoch > epoch]

        return wait_for(f"a leader beyond epoch {epoch}", beyond, _WAIT_S)[-1]

    def in_dual_write(self, *among: int) -> int:
        """Wait until one of ours leads in dual write; its id."""

        def ready() -> list[int]:
            return [one for one in among or IDS if self.driver(one) == "DUAL_WRITE"]

        return wait_for("dual write", ready, _WAIT_S)[-1]

    def driver(self, node_id: int) -> str:
        """State of the migration driver of one of ours; empty without one, or without an answer."""
        node = self.nodes[node_id]
        status = node.status() if isinstance(node, Bridge) and node.alive else None
        migration = None if status is None else status["migration"]
        return "" if migration is None else str(migration["driver_state"])

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

    def passed(self, leader: int, records: int) -> None:
        """Wait until so many more records are committed under a leader, and ours have them."""
        [now] = self.leaders(leader)
        goal = now.high_watermark + records

        def there() -> bool:
            found = []
            for each in self.ours:
                node = self.nodes[each]
                status = node.status() if isinstance(node, Bridge) else None
                found.append(-1 if status is None else status["offsets"]["high_watermark"])
            return min(found) >= goal

        wait_for(f"offset {goal} at each of ours", there, _WAIT_S)

    def holder(self) -> int:
        """Who holds ``/controller``."""
        data = contents(dump(self.zookeeper.hosts))["/controller"]
        return int(json.loads(data or b"{}").get("brokerid", -1))

    # ------------------------------------------------------------- changes
    def name(self, text: str) -> str:
        """A name for a topic that nobody used."""
        return f"{text}-{next(self._numbers)}"

    def ask(self, node_id: int, name: str) -> int:
        """Ask one controller, once, to create a topic; the error of the answer."""
        (topic,) = self.call(node_id, new_topic(name)).topics
        return int(topic.error_code)

    def create(self, text: str, *among: int, count: int = 1) -> list[str]:
        """Have topics created by whoever leads; their names."""
        names = [self.name(text) for _ in range(count)]
        for name in names:
            wait_for(f"topic {name}", lambda name=name: self._created(name, among), _WAIT_S)
        return names

    def _created(self, name: str, among: tuple[int, ...]) -> bool:
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        return any(self.ask(one.node_id, name) in done for one in reversed(self.leaders(*among)))

    def delete(self, name: str, *among: int) -> None:
        """Have a topic deleted by whoever leads."""
        request = delete_topics(name, timeout_ms=20_000)
        done = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

        def deleted() -> bool:
            return any(
                self.call(one.node_id, request).responses[0].error_code in done
                for one in reversed(self.leaders(*among))
            )

        wait_for(f"the end of topic {name}", deleted, _WAIT_S)

    def limit(self, kind_of: str, name: str, rate: float | None, *among: int) -> None:
        """Have a quota of a ``user`` or ``client-id`` set by whoever leads; None: removed."""
        request = quota(rate, name, kind=kind_of)

        def done() -> bool:
            return any(
                self.call(one.node_id, request).entries[0].error_code == ErrorCode.NONE
                for one in reversed(self.leaders(*among))
            )

        wait_for(f"the quota of {name}", done, _WAIT_S)

    def call(self, node_id: int, request: Any) -> Any:
        """Ask one controller once."""
        connection = Connection(HOST, self.ports[node_id], _WAIT_S)
        try:
            return connection.call(request)
        finally:
            connection.close()

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
        tree = judge.from_dump(dump(self.zookeeper.hosts, with_secrets=True))
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
