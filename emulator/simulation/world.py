"""A whole cluster in one process: a controller, ZooKeeper, brokers, clients, and their misfortunes.

The controller is the product, byte for byte; the rest are models. A run goes through three phases:
the cluster migrates while faults come down and clients ask for changes; the faults end; everything
comes to rest and is compared.
"""

from __future__ import annotations

import json
from random import Random
from typing import Final

from emulator.broker.observer import FollowedLog
from emulator.config.load import Config
from emulator.config.load import load as load_config
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.migration.states import State
from emulator.net.control import ControlRequest
from emulator.raft import layout
from emulator.raft.format import (
    MetaProperties,
    render_bootstrap_checkpoint,
    render_meta_properties,
)
from emulator.simulation import checkers, faults, tree_check, zookeeper_mode
from emulator.simulation.acl_changes import AclChanges
from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.client_changes import ClientChanges
from emulator.simulation.disk import SimulatedDisk
from emulator.simulation.ledger import Ledger
from emulator.simulation.load import Load
from emulator.simulation.moves import Moves
from emulator.simulation.network import Network
from emulator.simulation.process import Process
from emulator.simulation.scenario import Scenario
from emulator.simulation.scheduler import EPOCH_MS, MS, Scheduler
from emulator.simulation.violation import Violated, ensure
from emulator.simulation.zookeeper import ZooKeeperModel
from emulator.simulation.zookeeper_server import ZooKeeperServer
from wire import records as r
from wire.record_serde import encode_record
from wire.text import uuid_from_text

NODE_ID: Final = 3000
CONTROLLER: Final = ("controller", 9093)
RESTART_MS: Final = (5, 800)
QUIET_MS_MAX: Final = 120_000
"""Time after the last fault within which everything must have come to rest."""
SESSION_MS: Final = 6_000
BROKER_SESSION_MS: Final = 3_000
STEPS_MAX: Final = 1_000_000


class World:
    """See the module's docstring. ``rng`` is for faults alone."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.scenario = scenario
        self.first_zk_epoch = zookeeper_mode.FIRST_EPOCH
        self.rng = Random(f"faults {seed}")
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(f"network {seed}"), scenario.delay_us)
        model = ZooKeeperModel(Random(f"zookeeper {seed}"))
        self.tree = model.tree
        zookeeper_mode.fill(
            self.tree,
            Random(f"tree {seed}"),
            brokers=scenario.brokers,
            topics=scenario.topics,
            now_ms=EPOCH_MS,
        )
        if scenario.client_changes_every_ms:
            scram = MetadataVersion.from_ibp(scenario.metadata_version).supports(Feature.SCRAM)
            zookeeper_mode.fill_client_entities(self.tree, scram=scram)
        self.before = {
            path: tree_check.meaning(path, node.data)
            for path, node in self.tree.nodes.items()
            if tree_check.covered(path)
        }
        self.doomed = frozenset(self.tree.get("/admin/delete_topics").children)
        """Topics whose deletion was under way before the migration."""
        self.zookeeper = ZooKeeperServer(
            model, self.scheduler, self.network, Random(f"service {seed}"), self._served
        )
        self.ledger = Ledger()
        self.load = Load(
            Random(f"load {seed}"),
            lambda: self.ledger.image,
            lambda what: self.scheduler.tell("client", what),
        )
        self.moves = Moves(Random(f"moves {seed}"), lambda: self.ledger.image)
        self.client_changes = ClientChanges(
            Random(f"client changes {seed}"), lambda: self.ledger.image
        )
        self.acl_changes = AclChanges(Random(f"acls {seed}"), lambda: self.ledger.image)
        self.registrations: dict[tuple[int, int], bool] = {}
        """Whether a broker was migrating, by id and epoch."""
        self._known_images = 0
        self._foreign_writes = 0
        self._lives = Random(f"lives {seed}")
        self._broker_lives: dict[int, int] = {}
        self._logs: dict[int, FollowedLog] = {}
        self._process_lives = 0
        self._loading = False
        self._faults_left = len(scenario.faults)
        self._config = _config(scenario)
        self.checkers = [checker(self) for checker in checkers.ALL]
        self.disk = SimulatedDisk(_formatted(scenario))
        self.brokers: dict[int, SimulatedBroker] = {}
        self.zombies: list[Process] = []
        """Controllers that were paused and replaced, and run again."""
        self.process = self._start_process()
        for broker_id in range(scenario.brokers):
            self._start_broker(broker_id)
        for name in scenario.faults:
            self._plan(name)

    # ---------------------------------------------------------------- the run
    def run(self) -> None:
        """From the first connection to rest.

        Raises:
            Violated: an invariant does not hold.
        """
        while not self._done_with_faults:
            self._step()
        self.scheduler.tell("run", "no more faults")
        self.network.release_all()
        self.zookeeper.swallow_replies = 0
        end_us = self.scheduler.now_us + QUIET_MS_MAX * MS
        while not self._at_rest:
            self._step()
            if self.scheduler.now_us > end_us:
                raise Violated("comes-to-rest", self._unrest())
        self.scheduler.tell("run", "everything is at rest")
        for checker in self.checkers:
            checker.ended()

    def after_ms(self, delay_ms: int, action: object) -> None:
        """Do something later."""
        assert callable(action)
        self.scheduler.after(delay_ms * MS, action)

    def _step(self) -> None:
        self.scheduler.step()

    @property
    def _done_with_faults(self) -> bool:
        quiet = not self._faults_left and not self.zookeeper.frozen and self.process.alive
        quiet = quiet and not any(zombie.frozen for zombie in self.zombies)
        alive = all(broker.alive for broker in self.brokers.values())
        return quiet and alive and self._loading and self.load.asked >= self.scenario.changes

    @property
    def _at_rest(self) -> bool:
        driver = self.process.node.driver
        assert driver is not None
        return (
            self.process.alive
            and driver.state is State.DUAL_WRITE
            and driver.write_behind.idle
            and not driver.propagator.busy
            and not driver.channels.queued
            and not any(b.fenced or not b.alive for b in self.brokers.values())
            and not any(b.fenced for b in self.ledger.image.brokers.values())
            and not self.load.busy
            and not self.moves.busy
            and not self.client_changes.busy
            and not self.acl_changes.busy
        )

    def _unrest(self) -> str:
        driver = self.process.node.driver
        assert driver is not None
        return (
            f"{driver.state.value}, {driver.write_behind.mode.value}, "
            f"zookeeper {'' if self.process.node.zk and self.process.node.zk.connected else 'not '}"
            f"connected, {driver.channels.queued} requests to brokers, "
            f"waiting for {[w.reason.text for w in driver.status(0).waiting]}, "
            f"fenced {[b.name for b in self.brokers.values() if b.fenced]}, "
            f"clients {'wait' if self.load.busy else 'do not wait'}"
        )

    @property
    def claimed_kraft_epoch(self) -> int:
        """KRaft epoch of the controller that ``/controller`` names; -1 in ZooKeeper mode."""
        node = self.tree.nodes.get("/controller")
        return (
            -1 if node is None or not node.data else json.loads(node.data)["kraftControllerEpoch"]
        )

    # ---------------------------------------------------------------- faults
    def _plan(self, name: str) -> None:
        def begin() -> None:
            self._faults_left -= 1
            self.scheduler.tell("fault", name)
            faults.RECIPES[name](self)

        def plan() -> None:
            if self.rng.random() < 0.3 or self._loading:
                begin()
            else:
                self.after_ms(self.rng.randint(0, self.scenario.faults_within_ms), plan)

        self.after_ms(self.rng.randint(0, self.scenario.faults_within_ms), plan)

    def note_foreign_write(self) -> None:
        """Somebody has written ``/migration``."""
        self._foreign_writes += 1

    def foreign_writes_taken(self) -> int:
        """Foreign writes since the last call."""
        taken, self._foreign_writes = self._foreign_writes, 0
        return taken

    # ---------------------------------------------------------------- the controller
    def _start_process(self) -> Process:
        self._process_lives += 1
        process = Process(
            f"controller#{self._process_lives}",
            self._config,
            _identity(),
            self.disk,
            self.scheduler,
            self.network,
            Random(self._lives.getrandbits(64)),
            watch=self._stepped,
            died=self._died,
        )
        self.process = process
        self.ledger.recovered(process.node)
        self.scheduler.tell(process.name, f"log ends at {process.node.raft.log_end_offset}")
        process.start()
        return process

    def take_over(self) -> Process:
        """Pause the controller and begin another life from its disk; returns the paused one.

        Brokers lose their connections to it; ZooKeeper does not know.
        """
        old = self.process
        old.freeze()
        for link in (
            *self.network.between("broker", old.name),
            *self.network.between(old.name, "broker"),
        ):
            self.network.cut(link)
        self.disk = SimulatedDisk(old.disk.files)
        self.disk.crash(self.rng)
        self.zombies.append(old)
        self._start_process()
        return old

    def _died(self, process: Process, exit_code: int | None) -> None:
        if process is not self.process:
            return
        ensure(exit_code is None, "keeps-running", f"{process.name} ended with {exit_code}")
        self.after_ms(self.rng.randint(*RESTART_MS), self._start_process)

    def _stepped(self, process: Process) -> None:
        if process is not self.process:
            return
        appended = self.ledger.observe(process.node)
        images = self.ledger.images
        for image in images[self._known_images :]:
            for broker in image.brokers.values():
                self.registrations[broker.id, broker.epoch] = broker.is_migrating_zk_broker
        self._known_images = len(images)
        for checker in self.checkers:
            checker.stepped(process, appended)
        driver = process.node.driver
        if not self._loading and driver is not None and driver.state is State.DUAL_WRITE:
            self._loading = True
            self.load.begin(self.ledger.image)
            if self.scenario.changes:
                self._change()
            if self.scenario.moves_every_ms:
                self._move()
            if self.scenario.client_changes_every_ms:
                self._client_change()
            if self.scenario.acl_changes_every_ms:
                self._acl_change()

    # ---------------------------------------------------------------- ZooKeeper, brokers, clients
    def _served(self) -> None:
        changed = self.tree.changed
        if changed:
            for checker in self.checkers:
                checker.served(changed)
            changed.clear()

    def _start_broker(self, broker_id: int) -> None:
        life = self._broker_lives[broker_id] = self._broker_lives.get(broker_id, 0) + 1
        broker = SimulatedBroker(
            broker_id,
            life,
            zookeeper_mode.CLUSTER_ID,
            CONTROLLER,
            self._logs.setdefault(broker_id, FollowedLog()),
            self.tree,
            self.scheduler,
            self.network,
            Random(self._lives.getrandbits(64)),
            told=self._told,
            fetched=self.ledger.fetched,
        )
        self.brokers[broker_id] = broker
        self.after_ms(self._lives.randint(0, 200), broker.start)

    def _told(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        for checker in self.checkers:
            checker.told(broker, request)

    def kill_broker(self, broker: SimulatedBroker) -> None:
        """SIGKILL; its znode goes, then it starts again."""
        self.scheduler.tell(broker.name, "killed")
        broker.die()
        gone_ms = self._lives.randint(10, 2_000)
        self.after_ms(gone_ms, lambda: self.tree.end_session(broker.session_id))
        self.after_ms(gone_ms + 10, lambda: self._start_broker(broker.id))

    def _change(self) -> None:
        alive = [b for b in self.brokers.values() if b.alive and b.epoch >= 0]
        if alive:
            self.load.one(alive)
        if self.load.asked < self.scenario.changes:
            self.after_ms(self.scenario.change_every_ms, self._change)

    def _move(self) -> None:
        alive = [b for b in self.brokers.values() if b.alive and b.epoch >= 0]
        if alive:
            self.moves.one(alive)
        if self.load.asked < self.scenario.changes:
            self.after_ms(self.scenario.moves_every_ms, self._move)

    def _client_change(self) -> None:
        alive = [b for b in self.brokers.values() if b.alive and b.epoch >= 0]
        if alive:
            self.client_changes.one(alive)
        if self.load.asked < self.scenario.changes:
            self.after_ms(self.scenario.client_changes_every_ms, self._client_change)

    def _acl_change(self) -> None:
        alive = [b for b in self.brokers.values() if b.alive and b.epoch >= 0]
        if alive:
            self.acl_changes.one(alive)
        if self.load.asked < self.scenario.changes:
            self.after_ms(self.scenario.acl_changes_every_ms, self._acl_change)


def _identity() -> MetaProperties:
    return MetaProperties(
        zookeeper_mode.CLUSTER_ID, NODE_ID, uuid_from_text("AAAAAAAAAAAAAAAAAAAAfw")
    )


def _formatted(scenario: Scenario) -> dict[str, bytes]:
    level = MetadataVersion.from_ibp(scenario.metadata_version).level
    record = r.FeatureLevelRecord(name="metadata.version", feature_level=level)
    return {
        layout.META_PROPERTIES: render_meta_properties(_identity()),
        layout.BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint(
            [encode_record(record, 0)], EPOCH_MS
        ),
    }


AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def _config(scenario: Scenario) -> Config:
    config, _ = load_config(
        {
            "process.roles": "controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{CONTROLLER[0]}:{CONTROLLER[1]}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{CONTROLLER[0]}:{CONTROLLER[1]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": "/data",
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.connect": "zookeeper:2181",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.metadata.migration.min.batch.size": str(scenario.batch_size),
            "broker.session.timeout.ms": str(BROKER_SESSION_MS),
            "metadata.log.max.snapshot.interval.ms": str(scenario.snapshot_interval_ms),
            "kraftbridge.zk.write.behind.max.records": str(scenario.bound),
            "kraftbridge.zk.write.behind.multi.ops": str(scenario.multi_ops),
            **(AUTHORIZER if scenario.acl_changes_every_ms else {}),
        }
    )
    return config
