"""A whole cluster in one process: controllers, ZooKeeper, brokers, clients.

The controllers are the product and exchange bytes; everything else is a model. A world does nothing
by itself: ``run.py`` steps it, faults act on it, and onlookers judge it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Final

from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.raft.layout import RecoveryError
from emulator.seam import Effect
from emulator.simulation import tree_check
from emulator.simulation.aftermath import Aftermath
from emulator.simulation.awaited import Awaited
from emulator.simulation.clients.traffic import Traffic
from emulator.simulation.committed import CommittedLog
from emulator.simulation.facts import Facts
from emulator.simulation.models import zookeeper_mode
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.models.broker_lives import BrokerLives, Rolls
from emulator.simulation.models.disk import SimulatedDisk
from emulator.simulation.models.host import Copy, Host, machines
from emulator.simulation.models.network import Network
from emulator.simulation.models.process import Process
from emulator.simulation.models.scheduler import EPOCH_MS, MS, Scheduler
from emulator.simulation.models.zookeeper_server import ZooKeeperServer
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.simulation.models.zookeeper_watches import Backup, WatchedZooKeeper
from emulator.simulation.onlooker import Onlooker
from emulator.simulation.scenarios import settings
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import ensure
from emulator.zookeeper.ops import ZkOp

# The tree that a simulated migration finds: a new cluster's, or what an earlier one has left.


def fill(tree: ServerTree, seed: int, scenario: Scenario, before: ServerTree | None) -> None:
    """Make the znodes of a cluster in ZooKeeper mode, or take over those of another tree."""
    if before is not None:
        _inherit(tree, before)
        return
    zookeeper_mode.fill(
        tree,
        Random(f"tree {seed}"),
        brokers=scenario.brokers,
        topics=scenario.topics,
        now_ms=EPOCH_MS,
    )
    if scenario.client_changes_every_ms:
        scram = MetadataVersion.from_ibp(scenario.metadata_version).supports(Feature.SCRAM)
        zookeeper_mode.fill_client_entities(tree, scram=scram)


def _inherit(tree: ServerTree, before: ServerTree) -> None:
    """Take over every znode of another tree, but those of sessions: every session is over."""
    for path, node in before.nodes.items():
        tree.nodes[path] = replace(node, children=set(node.children))
    tree.zxid = before.zxid
    for owner in {node.ephemeral_owner for node in before.nodes.values()} - {0}:
        tree.end_session(owner)


RESTART_MS: Final = (5, 800)
CALM_US: Final = (100, 3_000)
SOMEBODY: Final = 1
"""Session of a client of ZooKeeper that is neither a controller nor a broker."""
MIGRATION: Final = 1
"""The state of the migration in the log once the copy is in it."""
FINALISED: Final = 3
"""The same once the migration is finalised."""


@dataclass(eq=False, slots=True)
class Trouble:
    """Something that somebody has done and that lasts until an operator mends it.

    ``node``: the broker that it is about, or None. ``subject``: what an advice to repair it names.
    ``remedy``: what it says about the way, one of them; empty: naming it is enough.
    """

    name: str
    subject: str
    mend: Callable[[], None]
    node: int | None = None
    remedy: tuple[str, ...] = ()


class World:
    """See the module's docstring.

    Args:
        seed: decides everything that chance decides.
        scenario: sizes, loads and faults.
        before: that of an earlier migration of the same cluster, from which everything has gone
            back to ZooKeeper mode, and whose processes run no more: its ZooKeeper is this one's.
    """

    raised_ever = 0
    """Times that a fault has raised ``/controller_epoch``."""
    arrived = False
    """An operator is where he wanted to be: nobody makes trouble any more."""
    going_back = False
    """An operator has begun to go back to ZooKeeper mode."""
    forgotten = False
    """ZooKeeper was restored from a state before its first claim, or after somebody had raised the
    epoch: without ``/controller`` it looks as after a rollback."""

    def __init__(self, seed: int, scenario: Scenario, before: World | None = None) -> None:
        self.seed = seed
        self.scenario = scenario
        self.scheduler = Scheduler()
        self.network = Network(
            self.scheduler,
            Random(f"network {seed}"),
            scenario.delay_us,
            {"zookeeper": scenario.zookeeper_delay_us},
        )
        self.aftermath = Aftermath(self.scheduler, self._place)
        """The effects of faults, by the state of the migration driver."""
        self.network.on_lost = self.aftermath.lost_between
        model = WatchedZooKeeper(Random(f"zookeeper {seed}"))
        model.frame_bytes_max = scenario.zookeeper_frame_bytes or model.frame_bytes_max
        self.tree = model.tree
        fill(self.tree, seed, scenario, None if before is None else before.tree)
        self.tree.changed.clear()
        self.before = {
            path: tree_check.meaning(path, node.data)
            for path, node in self.tree.nodes.items()
            if tree_check.covered(path)
        }
        self.doomed = frozenset(self.tree.get("/admin/delete_topics").children)
        """Topics whose deletion was under way before the migration."""
        self.zookeeper = ZooKeeperServer(
            model,
            self.scheduler,
            self.network,
            Random(f"service {seed}"),
            self._served,
            self.aftermath.happened,
        )
        self.onlookers: list[Onlooker] = []
        self.awaited = Awaited(one_by_one=scenario.controllers > 1)
        self.foreign: set[str] = set()
        """Znodes that somebody else has made."""
        self.foreign_writes = {"/migration": 0, "/kraft_bridge": 0}
        """Writes of somebody else to the counters, until a checker has taken them."""
        self.counters_feigned = False
        """Somebody has moved both counters as multis do, and no multi was applied since."""
        self.covers_hole = False
        """The last multi was applied then: ``/migration`` may cover one that was refused."""
        self.epochs_raised = 0
        """Times that somebody else has raised ``/controller_epoch`` since the last claim."""
        self.controller_deleted = False
        """Somebody else has deleted or changed ``/controller`` since the last claim."""
        self.finalising = False
        """An operator has begun to finalise, and goes on until it is done."""
        self.rolled_back = False
        """A ZooKeeper-mode controller rules, and has changed what our logs do not know."""
        self._lives = Random(f"lives {seed}")
        self._configs = {
            node_id: settings.configured(scenario, node_id) for node_id in settings.voters(scenario)
        }
        self._refusals = settings.refusals(self.seed, scenario)
        self.controllers, self.voters = machines(scenario)
        """The voters of the quorum that brokers know, by node id."""
        self._active = -1, self.controllers[settings.FIRST_ID]
        """The epoch of the newest leader of several; -1: there was none."""
        if self.voters is not None:
            self.voters.on_elected = self._elected
        self.hosts = {host.name: host for host in self.controllers.values()}
        """The controllers, and all other hosts that a fault has made, by name."""
        self.zombies: list[Process] = []
        """Controllers that were paused and replaced, and may run again."""
        self.lives = BrokerLives(self)
        self.rolls = Rolls(self)
        self.traffic = Traffic(seed, scenario, lambda: self.facts, self.lives.able, self.scheduler)

    @cached_property
    def troubles(self) -> list[Trouble]:
        """What waits for an operator who mends it."""
        return []

    def inherit(self, before: World) -> None:
        """Go on where an earlier one is: its time, its lines, what its clients were promised."""
        self.scheduler.go_on(before.scheduler)
        self.traffic.load.inherit(before.traffic.load)
        self.foreign |= before.foreign

    def begin(self) -> None:
        """Start the controllers and the brokers."""
        for host in self.controllers.values():
            self.start_process(host)
        for broker_id in range(self.scenario.brokers):
            self.lives.start(broker_id)

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self.scheduler.after(int(delay_ms * MS), action)

    def calm(self) -> None:
        """Nothing is held back any more, and nothing is slow."""
        self.network.release_all()
        self.network.calm(CALM_US)
        self.zookeeper.swallow_replies = 0
        for host in self.hosts.values():
            if host.process is not None:
                host.process.sync_us = (200, 4_000)

    # ---------------------------------------------------------------- what is asked from outside
    @property
    def active(self) -> Host:
        """The host of the newest leader, also before it says that it is the active controller."""
        return self._active[1]

    @property
    def process(self) -> Process:
        """The newest life on that host."""
        process = self.active.process
        assert process is not None
        return process

    @property
    def brokers(self) -> dict[int, SimulatedBroker]:
        """The newest life of each broker."""
        return self.lives.now

    @property
    def departed(self) -> set[int]:
        """Brokers that will not come back."""
        return self.lives.departed

    @property
    def controllers_run(self) -> bool:
        """Whether every voter has a process."""
        return all(host.process and host.process.alive for host in self.controllers.values())

    @property
    def committed(self) -> CommittedLog:
        """The log of the quorum that brokers know."""
        return self.active.committed

    @property
    def facts(self) -> Facts:
        """The newest that it says."""
        return self.active.committed.facts

    @property
    def kraft_offset(self) -> int:
        """What ``/migration`` covers."""
        return self.numbers("/migration").get("kraft_metadata_offset", -1)

    def numbers(self, path: str) -> dict[str, int]:
        """A znode of numbers; empty when it is absent."""
        node = self.tree.nodes.get(path)
        return {} if node is None or not node.data else dict(json.loads(node.data))

    @property
    def claimed_kraft_epoch(self) -> int:
        """KRaft epoch of the controller that ``/controller`` names; -1 in ZooKeeper mode."""
        return self.numbers("/controller").get("kraftControllerEpoch", -1)

    def zookeeper_epoch(self, absent: int) -> int:
        """``/controller_epoch``; ``absent`` if it is not there, or empty."""
        node = self.tree.nodes.get("/controller_epoch")
        return int(node.data) if node is not None and node.data else absent

    def host_of(self, process_name: str) -> Host | None:
        """The host a process runs, or ran, on; None for one whose host has another life."""
        return self.hosts.get(process_name.partition("#")[0])

    # ---------------------------------------------------------------- controllers
    def set_flag(self, node_id: int, *, flag: bool) -> None:
        """Later lives of a voter have the migration flag, or not."""
        self._configs[node_id] = settings.configured(self.scenario, node_id, flag=flag)

    def start_process(self, host: Host) -> Process:
        """Begin another life on a host."""
        host.lives += 1
        host.may_halt = ""
        host.ledger.begins(host.disk.files)
        process = host.process = self._life(host)
        self.scheduler.add_line(process.name, f"log ends at {process.node.raft.log_end_offset}")
        process.start()
        return process

    def refusal(self, host: Host) -> str:
        """Why no process begins on the files of a host; "" if one would."""
        try:
            self._life(host)
        except RecoveryError as error:
            return str(error)
        return ""

    def _life(self, host: Host) -> Process:
        """A process that has read its files, and done nothing yet."""
        return Process(
            f"{host.name}#{host.lives}",
            self._configs[host.node_id],
            settings.identity(host.node_id),
            host.disk,
            host.ledger,
            self.scheduler,
            self.network,
            Random(self._lives.getrandbits(64)),
            watch=self._stepped,
            died=self._died,
            happened=self.aftermath.happened,
            sync_us=self.scenario.sync_us,
            turn_us=self.scenario.turn_us,
            calls_per_batch=self.scenario.calls_per_batch,
            pause_us=self.scenario.pause_us,
            listens=host.listens,
            faults=self._refusals,
        )

    def copy(self, host: Host) -> Copy:
        """The folder of a host as a copy finds it: what is written, synced or not."""
        return Copy(host.node_id, host.disk.files, host.ledger.fork(), host.written)

    def second_host(self, copy: Copy, name: str, *, listens: bool = False) -> Host:
        """Another machine with a copy of a folder and the same identity.

        ``listens``: at the address that brokers know; no other process may listen there then.
        """
        disk = SimulatedDisk(copy.files)
        host = Host(name, copy.node_id, disk, copy.ledger, listens=listens, written=copy.written)
        host.leads_alone = False
        if (before := self.hosts.get(name)) is not None:
            # Names of processes are never given twice: checkers identify processes by them.
            host.lives = before.lives
        self.hosts[name] = host
        return host

    def remove(self, host: Host) -> None:
        """Switch a second host off for good."""
        host.restarts = False
        if host.process is not None and host.process.alive:
            host.process.crash()

    def take_over(self, rng: Random) -> Process:
        """Pause the controller and begin another life from its disk; returns the paused one.

        Brokers lose their connections to it; ZooKeeper does not know.
        """
        old = self.process
        old.freeze()
        self.aftermath.happened("lost", "process")
        for link in (
            *self.network.between("broker", old.name),
            *self.network.between(old.name, "broker"),
        ):
            self.network.cut(link)
        host = self.active
        host.ledger = old.ledger.fork()
        host.disk = SimulatedDisk(host.disk.files)
        host.disk.crash(rng)
        self.zombies.append(old)
        self.start_process(host)
        return old

    def _died(self, process: Process, exit_code: int | None) -> None:
        host = self.host_of(process.name)
        if host is None or process is not host.process:
            return
        misled = bool(process.last_words) and not self._configs[host.node_id].migration_enabled
        justified = exit_code is None or process.disk_failed or bool(host.may_halt) or misled
        ensure(justified, "keeps-running", f"{process.name} ended with {exit_code}")
        if host.restarts and not misled:
            self.after_ms(self._lives.randint(*RESTART_MS), lambda: self._restart(host, process))

    def _restart(self, host: Host, after: Process) -> None:
        if host.restarts and host.process is after:
            self.start_process(host)

    def _place(self) -> tuple[str, str]:
        """The newest life of the active controller, or its epoch, and the state of its driver."""
        if self._active[0] >= 0:
            return f"epoch {self._active[0]}", self.awaited.state
        process = self.active.process
        return ("", "") if process is None else (process.name, process.migration_state)

    def _stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        host = self.host_of(process.name)
        if host is None or process is not host.process:
            return
        for one in self.onlookers:
            one.stepped(process, effects)
        if self.voters is not None and process.led_epoch > self._active[0]:
            if self._active[0] >= 0:
                self.aftermath.happened("elected", "voter")
            self._active = process.led_epoch, host
        if host is not self.active:
            return
        if self._active[0] in {-1, process.led_epoch}:
            self.awaited.reached(process.migration_state)
        if not self.traffic.begun and self._may_be_asked:
            self.traffic.begin()
            self.rolls.begin()

    @property
    def _may_be_asked(self) -> bool:
        """Everything was copied; without a migration: all brokers are there."""
        if self.scenario.migration:
            return self.facts.migration_state == MIGRATION and self.kraft_offset > 0
        there = [one for one in self.facts.brokers.values() if not one.fenced]
        return len(there) == self.scenario.brokers

    def _elected(self) -> None:
        """A leader writes its first record: what waits for it begins when the step is done."""
        for action in self.awaited.elected():
            self.scheduler.after(0, action)

    # ---------------------------------------------------------------- ZooKeeper
    def _served(self, client: str) -> None:
        changed = self.tree.changed
        if changed:
            seen = frozenset(changed)
            changed.clear()
            if "/migration" in seen:
                self.lives.covered(self.kraft_offset)
            for one in self.onlookers:
                one.served(seen, client)
        paths = frozenset(self.zookeeper.model.reads)
        for one in self.onlookers:
            one.read(paths, client)

    def goes_back(self, ops: Sequence[ZkOp]) -> bool:
        """A ZooKeeper-mode controller takes over by these writes, for good, if they are allowed."""
        self.rolled_back = self.foreign_write(*ops)
        self.epochs_raised += self.rolled_back
        return self.rolled_back

    def restore(self, backup: Backup) -> None:
        """The ensemble begins again from a backup; only the onlookers are notified."""
        self._served("")
        self.zookeeper.restore(backup)
        self.epochs_raised = 0
        self.forgotten |= bool(self.raised_ever)
        for one in self.onlookers:
            one.set_back()

    def foreign_write(self, *ops: ZkOp) -> bool:
        """Somebody else writes, all ops or none; returns whether it was done."""
        self._served("")
        forbidden, self.tree.read_only = self.tree.read_only, set()  # to the controllers alone
        done = isinstance(self.tree.multi(ops, SOMEBODY, self.scheduler.now_ms), list)
        self.tree.read_only = forbidden
        if done:
            for op in ops:
                if op.path in self.foreign_writes:
                    self.foreign_writes[op.path] += 1
        self.tree.changed.clear()
        return done
