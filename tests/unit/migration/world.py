"""The driver in a world of models: ZooKeeper over bytes, a log, brokers that answer.

Time moves only by ``advance``. The wire to ZooKeeper can be held, cut, or lose replies; the log can
hold commits back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from emulator.metadata.snapshot import to_records
from emulator.migration.driver import MigrationDriver
from emulator.migration.propagation.channels import Channels
from emulator.migration.settings import Settings
from emulator.migration.states import State
from emulator.seam import Close, Closed, Connect, Connected, Effect, Halt, Log, Received, Row, Send
from emulator.simulation import tree_check
from emulator.simulation.facts import EMPTY, Draft
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.znodes import migration
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.projection import same, znodes
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import Check, Create, Delete, SetData, ZkOp
from tests.unit.metadata.build import partition
from tests.unit.migration.journal import Journal
from wire import messages as m
from wire import records as r
from wire.frame import FrameReader, decode_request, encode_response, framed

NODE_ID = 3000
INCARNATIONS = count(1)
"""One for each process of all worlds, as each draws its own."""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
ZK_PORT = 2181
BROKER_PORT = 9090


class World:
    """See the module's docstring. ``zk_frames`` holds every request ZooKeeper has seen, decoded."""

    incarnations = INCARNATIONS

    def __init__(
        self,
        *,
        metadata_version: int = 21,
        beside: World | None = None,
        journal: Journal | None = None,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000_000 if beside is None else beside.now_ms
        self.metadata_version = metadata_version
        self.model = ZooKeeperModel(Random(7)) if beside is None else beside.model
        self.journal = journal or (Journal() if beside is None else beside.journal)
        self._conn = count(1 if beside is None else 1_000_000)
        self.settings = Settings(
            NODE_ID, CLUSTER_ID, frozenset({NODE_ID}), incarnation="", **settings
        )
        self.held: list[tuple[int, bytes]] | None = None
        self.dropping_replies = False
        self.zk_up = True
        self.multis: list[tuple[ZkOp, ...]] = []
        self.requests: dict[int, list[object]] = {}
        self.rows: list[object] = []
        self.logs: list[Log] = []
        self.states: list[str] = []
        self.broker_errors: dict[int, int] = {}
        self.refusing: set[int] = set()
        self._broker_conns: dict[int, tuple[int, FrameReader]] = {}
        self._zk_conn: int | None = None
        self._generation = 0
        self.start_process()

    def start_process(self) -> None:
        """A new process over the same log and ZooKeeper."""
        self.settings = replace(self.settings, incarnation=f"process-{next(self.incarnations)}")
        self._generation = 0
        self._broker_conns.clear()
        self.zk = ZkClient(
            [("zk", ZK_PORT)], "", 6_000, 3_000, self._conn.__next__, Random(1), max_in_flight=10
        )
        self._spy()
        self.driver = MigrationDriver(
            self.settings,
            self.zk,
            self.journal,
            self.journal,
            Channels(NODE_ID, self._conn.__next__),
            lambda: self.now_ms * 1_000_000,
        )

    def _spy(self) -> None:
        submit = self.zk.submit

        def spied(tag: object, request: Any, now_ms: int) -> list[Effect]:
            ops = getattr(request, "ops", None)
            if ops is not None:
                self.multis.append(ops)
            return submit(tag, request, now_ms)

        self.zk.submit = spied  # type: ignore[method-assign]

    # ------------------------------------------------------------------ the tree
    def put(self, path: str, data: bytes | None = None) -> None:
        """Write a znode as somebody else would, making its parents."""
        parent = path.rsplit("/", 1)[0]
        if parent and parent not in self.model.tree.nodes:
            self.put(parent)
        op: ZkOp = SetData(path, data) if path in self.model.tree.nodes else Create(path, data)
        self.model.tree.write(op, 1, self.now_ms)

    def remove(self, path: str) -> None:
        """Delete a znode as somebody else would."""
        self.model.tree.write(Delete(path), 1, self.now_ms)

    def data(self, path: str) -> bytes | None:
        return self.model.tree.get(path).data

    def version(self, path: str) -> int:
        return self.model.tree.get(path).version

    @property
    def paths(self) -> set[str]:
        return set(self.model.tree.nodes)

    # ------------------------------------------------------------------ the log
    def bootstrap(self) -> None:
        level = r.FeatureLevelRecord(name="metadata.version", feature_level=self.metadata_version)
        pre = r.ZkMigrationStateRecord(zk_migration_state=2)
        if self.metadata_version >= 13:
            self.journal.append(
                [
                    r.BeginTransactionRecord(name="Bootstrap records"),
                    level,
                    pre,
                    r.EndTransactionRecord(),
                ],
                self.now_ms,
            )
        else:
            self.journal.append([level, pre], self.now_ms)
        if self.metadata_version >= 15:
            self.journal.append(
                [r.RegisterControllerRecord(controller_id=NODE_ID, zk_migration_ready=True)],
                self.now_ms,
            )

    def append(self, *records: object) -> int:
        last = self.journal.append(records, self.now_ms)
        self.settle()
        return last

    def register(self, broker_id: int, *, fenced: bool = False, migrating: bool = True) -> int:
        epoch = self.journal.end
        listener = r.RegisterBrokerRecord.BrokerEndpoint(
            name="PLAINTEXT", host="127.0.0.1", port=BROKER_PORT + broker_id, security_protocol=0
        )
        self.append(
            r.RegisterBrokerRecord(
                broker_id=broker_id,
                is_migrating_zk_broker=migrating,
                incarnation_id=bytes([broker_id]) * 16,
                broker_epoch=epoch,
                end_points=[listener],
                rack=None,
                fenced=True,
            )
        )
        if not fenced:
            self.unfence(broker_id)
        return epoch

    def unfence(self, broker_id: int, *, fenced: int = -1) -> None:
        epoch = self.journal.tip.brokers[broker_id].epoch
        self.append(
            r.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=fenced)
        )

    def topic(self, name: str, topic_id: bytes, *partitions: tuple[int, ...]) -> list[object]:
        """Records of a new topic, one replica list per partition."""
        return [
            r.TopicRecord(name=name, topic_id=topic_id),
            *(
                partition(topic_id, index, replicas=replicas)
                for index, replicas in enumerate(partitions)
            ),
        ]

    # ------------------------------------------------------------------ the loop
    def start(self, *brokers: int) -> World:
        """Lead from now on; then these brokers register."""
        self.perform(self.driver.start(self.now_ms))
        self.perform(self.zk.start(self.now_ms))
        self.perform(self.driver.became_leader(self.journal.epoch, self.now_ms))
        self.settle()
        for broker in brokers:
            self.register(broker)
        return self

    def settle(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(10_000):
            moved = False
            outcomes = self.zk.take_results()
            if outcomes:
                self.perform(self.driver.zk_results(outcomes, self.now_ms))
                moved = True
            if self.zk.connected and self.zk.generation != self._generation:
                self._generation = self.zk.generation
                self.perform(self.driver.zk_connected(self.now_ms))
                moved = True
            if self.journal.committing and self.journal.high_watermark < self.journal.end:
                self.journal.high_watermark = self.journal.end
                deltas = self.journal.history.advance(self.journal.high_watermark)
                self.perform(self.driver.metadata(deltas, self.now_ms))
                moved = True
            due = self.driver.deadline_ms
            if due is not None and due <= self.now_ms:
                self.perform(self.driver.tick(self.now_ms))
                moved = True
            if not moved:
                return
        raise AssertionError("the driver never comes to rest")

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while True:
            self.settle()
            due = [self.zk.deadline_ms, self.driver.deadline_ms, self.model.deadline_ms]
            at = min((d for d in due if d is not None), default=end + 1)
            if at > end:
                break
            self.now_ms = max(self.now_ms, at)
            for effect in self.model.tick(self.now_ms):
                self.perform(self._deliver(effect))
            self.perform(self.zk.tick(self.now_ms))
        self.now_ms = end
        self.settle()

    def perform(self, effects: list[Effect]) -> None:  # noqa: C901, PLR0912  # one line per effect
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            match effect:
                case Connect(conn=conn, port=port) if port == ZK_PORT:
                    self._zk_conn = conn
                    if self.zk_up:
                        self.model.accepted(conn)
                        todo += self.zk.handle(Connected(conn), self.now_ms)
                    else:
                        todo += self.zk.handle(Closed(conn, "refused"), self.now_ms)
                case Connect(conn=conn, port=port):
                    if port - BROKER_PORT in self.refusing:
                        todo += self.driver.handle(Closed(conn, "refused"), self.now_ms)
                        continue
                    self._broker_conns[conn] = (port - BROKER_PORT, FrameReader())
                    todo += self.driver.handle(Connected(conn), self.now_ms)
                case Send(conn=conn, data=data) if self.zk.owns(conn):
                    if self.held is not None:
                        self.held.append((conn, data))
                        continue
                    self.model.received(conn, data, self.now_ms)
                    for answer in self.model.run(self.now_ms):
                        todo += self._deliver(answer)
                case Send(conn=conn, data=data) if conn in self._broker_conns:
                    todo += self._broker(conn, data)
                case Close(conn=conn):
                    if self.held is None:
                        self.model.disconnected(conn)
                    self._broker_conns.pop(conn, None)
                case Row(row=row):
                    self.rows.append(row)
                case Log():
                    self.logged(effect)
                case Halt():
                    raise AssertionError(effect)

    def logged(self, line: Log) -> None:
        self.logs.append(line)
        if line.event == "migration driver":
            self.states.append(str(line.fields["to"]))

    def _deliver(self, answer: Effect) -> list[Effect]:
        match answer:
            case Send(conn=conn, data=data):
                if self.dropping_replies:
                    return []
                return self.zk.handle(Received(conn, data), self.now_ms)
            case Close(conn=conn):
                return self.zk.handle(Closed(conn, "closed by server"), self.now_ms)
        raise AssertionError(answer)

    def _broker(self, conn: int, data: bytes) -> list[Effect]:
        broker_id, reader = self._broker_conns[conn]
        effects: list[Effect] = []
        for frame in reader.feed(data):
            header, message = decode_request(frame)
            self.requests.setdefault(broker_id, []).append(message)
            kinds: dict[type, type] = {
                m.LeaderAndIsrRequest: m.LeaderAndIsrResponse,
                m.UpdateMetadataRequest: m.UpdateMetadataResponse,
                m.StopReplicaRequest: m.StopReplicaResponse,
            }
            response = kinds[type(message)](error_code=self.broker_errors.get(broker_id, 0))
            reply = encode_response(
                header.api_key, header.api_version, header.correlation_id, response
            )
            effects += self.driver.handle(Received(conn, framed(reply)), self.now_ms)
        return effects

    # ------------------------------------------------------------------ faults
    def cut(self) -> None:
        """The connection to ZooKeeper breaks; what was received there still applies."""
        assert self._zk_conn is not None
        self.model.disconnected(self._zk_conn)
        self.dropping_replies = False
        self.perform(self.zk.handle(Closed(self._zk_conn, "cut"), self.now_ms))
        self.settle()

    def release(self) -> None:
        """Bytes held in the network reach ZooKeeper after all."""
        held, self.held = self.held or [], None
        for conn, data in held:
            self.model.received(conn, data, self.now_ms)
            for answer in self.model.run(self.now_ms):
                self.perform(self._deliver(answer))
        self.settle()

    # ------------------------------------------------------------------ short cuts
    def cluster(self, *brokers: int) -> None:
        """A ZooKeeper that a broker has led, with nothing in it but brokers."""
        self.put("/cluster/id", f'{{"version":"1","id":"{CLUSTER_ID}"}}'.encode())
        self.put("/controller_epoch", b"1")
        self.put(
            "/controller",
            b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}',
        )
        for path in ("/brokers/ids", "/brokers/topics", "/config/topics", "/config/changes"):
            self.put(path)
        for broker in brokers:
            self.put(f"/brokers/ids/{broker}", b'{"version":5,"endpoints":[]}')

    def reach(self, state: State, ms: int) -> None:
        """Let time pass; the driver is in this state then."""
        self.advance(ms)
        assert self.driver.state is state, (self.driver.state, self.logs[-5:])

    def dual_write(self, *brokers: int) -> World:
        """From nothing to DUAL_WRITE."""
        self.cluster(*(brokers or (1, 2)))
        self.bootstrap()
        self.start(*(brokers or (1, 2)))
        self.reach(State.DUAL_WRITE, 1_000)
        return self


def checks(ops: tuple[ZkOp, ...]) -> bool:
    """Whether a multi has the shape of the chain."""
    return (
        isinstance(ops[0], Check)
        and ops[0].path == "/controller_epoch"
        and ops[-2].path == "/kraft_bridge"
        and ops[-1].path == "/migration"
    )


TOPICS = ("/brokers/topics/", "/config/topics/")


def owned(path: str) -> bool:
    """Whether a znode follows the image."""
    return path.startswith(TOPICS) or any(entity.owns(path) for entity in ENTITIES_WITHOUT_SECRETS)


def differences_from_outside(world: World) -> list[str]:
    """The same, by the simulator's reader, which shares no code with what writes to ZooKeeper."""
    image = world.journal.stable
    draft = Draft(EMPTY)
    for record, _ in to_records(image):
        draft.apply(record)
    expected = tree_check.NOTHING.then(draft.facts(image.offset))
    return list(tree_check.differences(world.model.tree.nodes, expected))


def differences(world: World) -> dict[str, str]:
    """Every znode in which ZooKeeper and the committed image disagree.

    One may outlive its entity if it says that nothing is left. Judged twice: by what the product
    would write, and by the simulator's reader.
    """
    wanted = znodes(world.journal.stable, controller_epoch=world.journal.epoch)
    have = {p: n.data for p, n in world.model.tree.nodes.items() if owned(p)}
    found = {}
    for path in wanted.keys() | have.keys():
        if path not in have:
            found[path] = "missing"
        elif path not in wanted:
            if not any(
                one.owns(path) and one.gone(path, have[path]) is None
                for one in ENTITIES_WITHOUT_SECRETS
            ):
                found[path] = "extra"
        elif not same(path, have[path], wanted[path]):
            found[path] = f"{have[path]!r} instead of {wanted[path]!r}"
    return found or dict.fromkeys(differences_from_outside(world), "seen from outside only")


def migration_offset(world: World) -> int:
    """The offset ``/migration`` holds."""
    return migration.parse(world.data("/migration")).kraft_metadata_offset
