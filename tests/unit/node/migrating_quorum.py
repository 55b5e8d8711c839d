"""Three nodes of ours in a migration, with a model of ZooKeeper and one broker that registers.

Whoever does not lead may submit reads to ZooKeeper alone: each request is checked when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from emulator.config.load import Config
from emulator.migration.driver import MigrationDriver
from emulator.migration.states import State
from emulator.node.machine import Node
from emulator.node.role import Role
from emulator.seam import Closed, Effect
from emulator.zookeeper.ops import Create, GetChildren, GetData, MultiRead, SetData, Sync
from tests.kit.joined import Asker, Joined, Party
from tests.kit.joined_zookeeper import ADDRESS, JoinedZooKeeper
from tests.unit.migration.world import differences
from tests.unit.node.test_quorum import CLUSTER, IDS, Quorum
from wire import messages as m

BROKER = 1
CONTROLLERS_REGISTER = 15
"""From this metadata.version on."""
READS = (GetChildren, GetData, MultiRead, Sync)


class Watched(Joined):
    """Calls ``before`` for each effect; what it says True to is not performed any more, nor what
    follows it in its step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Party, Effect], bool] = lambda party, effect: False
        self.after: Callable[[], None] = lambda: None
        self.apart: set[str] = set()
        """Names of machines that reach nobody but ZooKeeper, and that only it reaches."""

    def connect(self, party: Party | Asker, conn: int, address: tuple[str, int]) -> None:
        def alone(name: str) -> bool:
            return name in self.apart

        if isinstance(party, Party) and address != ADDRESS:
            reached = [each.name for each in self.alive() if address in each.listeners]
            if alone(party.name) or any(map(alone, reached)):
                self._waiting.append((party, Closed(conn, "refused")))
                return
        super().connect(party, conn, address)

    def isolate(self, party: Party) -> None:
        """From now on it reaches ZooKeeper alone."""
        self.apart.add(party.name)
        for conn, owner in list(self._owner.items()):
            far = self._owner.get(self._other.get(conn, -1))
            ends = {each.name for each in (owner, far) if isinstance(each, Party)}
            if party.name in ends and len(ends) == 2 and "zookeeper" not in ends:
                self.end(conn, "cut")
        self.settle()

    def perform(self, party: Party, effects: list[Effect]) -> None:
        for index, effect in enumerate(effects):
            if self.before(party, effect):
                super().perform(party, effects[:index])
                return
        super().perform(party, effects)
        self.after()


class MigratingQuorum(Quorum):
    """See the module's docstring. ``writes``: who submitted which write to ZooKeeper, in order."""

    def __init__(self, *brokers: int, level: int = 21, **more: str) -> None:
        self.level = level
        self.watched = Watched()
        self.zookeeper = JoinedZooKeeper(self.watched)
        self.writes: list[tuple[int, object]] = []
        self.without_flag: set[int] = set()
        """Nodes that start without zookeeper.metadata.migration.enable."""
        for path, data in TREE.items():
            self.zookeeper.write(Create(path, data))
        for broker in brokers or (BROKER,):
            self.zookeeper.write(Create(f"/brokers/ids/{broker}", b'{"version":5,"endpoints":[]}'))
        super().__init__(
            self.watched,
            zookeeper_connect="zk:2181",
            **more,
        )
        self.watched.after = self.check_offices

    def start(self, node_id: int) -> None:
        super().start(node_id)
        node = self.node(node_id)
        if node.zk is None:
            return
        submit = node.zk.submit

        def checked(tag: object, request: Any, now_ms: int) -> list[Effect]:
            if not isinstance(request, READS):
                assert node.raft.is_leader, f"{node_id} follows and writes {request}"
                self.writes.append((node_id, request))
            return submit(tag, request, now_ms)

        node.zk.submit = checked  # type: ignore[method-assign]

    def configured(self, raw: dict[str, str]) -> Config:
        enabled = int(raw["node.id"]) not in self.without_flag
        flag = {"zookeeper.metadata.migration.enable": "true"} if enabled else {}
        return super().configured(raw | flag)

    def driver(self, node_id: int) -> MigrationDriver:
        driver = self.node(node_id).driver
        assert driver is not None
        return driver

    def check_offices(self) -> None:
        """No two are active in one epoch, and who follows is suspended whatever its log says."""
        nodes = [party.machine for party in self.parties.values()]
        epochs = [
            each.raft.leader_epoch for each in nodes if isinstance(each, Node) and each.active
        ]
        assert len(epochs) == len(set(epochs)), "two active controllers in one epoch"
        for each in nodes:
            assert isinstance(each, Node)
            following = each.role.now is Role.FOLLOWING
            assert following or each.raft.is_leader
            if following:
                assert not each.controller.active
                resting = {State.UNINITIALIZED, State.INACTIVE}
                assert each.driver is None or each.driver.state in resting

    def register(self, broker_id: int = BROKER, *, answered: bool = True, version: int = 4) -> None:
        """A broker in ZooKeeper mode registers with whoever is active, and may wait for it."""
        kind = m.BrokerRegistrationRequest
        request = kind(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=bytes([broker_id]) * 16,
            listeners=[kind.Listener(name="PLAINTEXT", host="broker", port=9092)],
            features=[
                kind.Feature(
                    name="metadata.version", min_supported_version=1, max_supported_version=21
                )
            ],
            is_migrating_zk_broker=True,
            log_dirs=[b"d" * 16],
        )
        for _ in range(10):
            asker = self.joined.ask((f"host-{self.leader}", 9093))
            if not answered:
                asker.send(request, version)
                return
            if asker.ask(request, version).error_code == 0:
                return
        raise AssertionError("refused")

    def wait_for(self, state: State, ms: int = 60_000) -> int:
        """Until the driver of whoever leads is in a state; who that is."""

        def there() -> list[int]:
            up = (each for each in self.parties if each not in self.without_flag)
            return [each for each in up if self.driver(each).state is state]

        self.joined.until(lambda: bool(there()), ms)
        return there()[0]

    def wait_ready(self) -> None:
        """Until every controller is registered as ready, and a broker may register."""
        if self.level < CONTROLLERS_REGISTER:
            assert self.leader in self.parties
            return
        self.joined.until(
            lambda: len(self.node(self.leader).controller.stable.controllers) == len(IDS)
        )

    def migrate(self) -> int:
        """Go to dual write; who leads then."""
        self.wait_ready()
        if BROKER not in self.node(self.leader).controller.stable.brokers:
            self.register()
        return self.wait_for(State.DUAL_WRITE)

    def wait_written(self) -> None:
        """Until ZooKeeper has everything."""
        self.joined.until(
            lambda: any(
                self.driver(each).state is State.DUAL_WRITE and self.driver(each).write_behind.idle
                for each in self.parties
                if each not in self.without_flag
            )
        )

    def cut_zookeeper(self) -> None:
        """Nobody reaches ZooKeeper any more, until ``heal_zookeeper``."""
        self.joined.cut.add(ADDRESS)
        for each in self.parties:
            zk = self.node(each).zk
            if zk is not None and zk._channel is not None:
                self.joined.end(zk._channel.conn, "cut")
        self.joined.settle()

    def heal_zookeeper(self) -> None:
        self.joined.cut.discard(ADDRESS)

    def differences(self) -> dict[str, str]:
        """Between the leader's metadata and ZooKeeper."""
        node = self.node(self.leader)
        journal = SimpleNamespace(stable=node.controller.stable, epoch=node.raft.leader_epoch)
        model = self.zookeeper.machine.model
        world: Any = SimpleNamespace(journal=journal, model=model)
        return differences(world)

    def data(self, path: str) -> bytes | None:
        return self.zookeeper.nodes[path]

    def put(self, path: str, data: bytes | None) -> None:
        """Write a znode as somebody else would."""
        known = path in self.zookeeper.nodes
        self.zookeeper.write(SetData(path, data) if known else Create(path, data))


STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}'
TREE: dict[str, bytes | None] = {
    "/cluster": None,
    "/cluster/id": f'{{"version":"1","id":"{CLUSTER}"}}'.encode(),
    "/controller_epoch": b"1",
    "/controller": b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}',
    "/brokers": None,
    "/brokers/ids": None,
    "/brokers/topics": None,
    "/brokers/topics/a": (
        b'{"version":3,"topic_id":"QUFBQUFBQUFBQUFBQUFBQQ","partitions":{"0":[1],"1":[1]},'
        b'"adding_replicas":{},"removing_replicas":{}}'
    ),
    "/brokers/topics/a/partitions": None,
    "/brokers/topics/a/partitions/0": None,
    "/brokers/topics/a/partitions/0/state": STATE,
    "/brokers/topics/a/partitions/1": None,
    "/brokers/topics/a/partitions/1/state": STATE,
    "/config": None,
    "/config/topics": None,
    "/config/topics/a": b'{"version":1,"config":{}}',
    "/config/changes": None,
}


def in_dual_write(**more: Any) -> tuple[MigratingQuorum, int]:
    """A quorum that has written all it has, and its leader."""
    quorum = MigratingQuorum(**more)
    leader = quorum.migrate()
    quorum.wait_written()
    return quorum, leader
