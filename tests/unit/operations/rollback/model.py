"""A cluster on a model of ZooKeeper's tree, as the course of a rollback sees one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emulator.metadata.migration_state import MigrationState
from emulator.migration.taking_over.claim import Found
from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.survey import DumpedZnode, Survey
from emulator.operations.rollback import release
from emulator.operations.rollback.course import CourseError
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.situation import ControllerSeen, FolderSeen, Situation
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes import cluster, controller, migration, own
from emulator.znodes.migration import MigrationZnode
from emulator.znodes.own import OwnZnode
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    EPHEMERAL,
    Create,
    Multi,
    NodeData,
    ReadFailed,
    ReadValue,
    SetData,
)

BROKERS = (0, 1, 2)
EPOCH = 9
OFFSET, LOG_EPOCH = 120, 2
QUORUM = (3000, 3001, 3002)


class CutOffError(Exception):
    """The command died."""


def js(value: object) -> bytes:
    return json.dumps(value).encode()


@dataclass
class ModelCluster:
    """``effects``: how many effects are done before the command dies; None: it lives.

    ``lag``: changes that the leader has not written, which its orderly end writes. ``unwritten``:
    changes in the logs that it does not write. ``alive``: brokers in ZooKeeper mode, which elect
    one as soon as they can.
    """

    tree: ServerTree = field(default_factory=ServerTree)
    up: list[int] = field(default_factory=list)
    quorum: tuple[int, ...] = (3000,)
    state: int = MigrationState.MIGRATION
    lag: int | None = 0
    unwritten: tuple[tuple[int, str], ...] = ()
    alive: tuple[int, ...] = BROKERS
    kraft: tuple[int, ...] = ()
    seen_folders: bool = True
    unknown: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    """Controllers whose folders are not here."""
    voters: int = 0
    differences: Sequence[Difference] = ()
    poisoned: tuple[str, ...] = ()
    broker_folders: tuple[FolderSeen, ...] = ()
    readonly: bool = False
    silent: bool = False
    """Whether no controller shows its status."""
    interferes_at: str = own.PATH
    interferes: int = 0
    """How often another client writes between a read and a multi."""
    flagless: str = ""
    """State of finalising at a leader without the flag; empty: it has the flag."""
    stuck: bool = False
    """Whether what the leader has not written is never written."""
    final: int = -1
    """Offset in the logs at which the migration is finalised."""
    problem: str = ""
    """Why no log can be read once the controllers have ended."""
    after_look: Callable[[ModelCluster], None] | None = None
    """What others do after the first look, and ``after_stop``: once the controllers have ended."""
    after_stop: Callable[[ModelCluster], None] | None = None
    effects: int | None = None
    done: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    time_s: float = 100.0

    # ------------------------------------------------------------- the tree
    def put(self, path: str, data: bytes | None = None, *, ephemeral: bool = False) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.tree.nodes:
            self.put(parent)
        self.tree.write(Create(path, data, flags=EPHEMERAL if ephemeral else 0), 7, 1)

    def data(self, path: str) -> bytes | None:
        node = self.tree.nodes.get(path)
        return None if node is None else node.data

    @property
    def mine(self) -> OwnZnode | None:
        return own.try_parse(self.data(own.PATH)) if own.PATH in self.tree.nodes else None

    @property
    def holder(self) -> controller.ControllerZnode | None:
        return controller.try_parse(self.data(controller.PATH))

    # ------------------------------------------------------------- the world of the course
    def look(self) -> Situation:
        nodes = {
            path: DumpedZnode(
                one.data, one.version, one.ephemeral_owner != 0, mtime_ms=one.mtime_ms
            )
            for path, one in self.tree.nodes.items()
            if path != "/" and not path.startswith("/zookeeper")
        }
        folders = ()
        if self.seen_folders:
            folders = tuple(
                ControllerFolder(
                    f"data-{one}",
                    {"version": "1", "node.id": str(one), "cluster.id": "mine"},
                    state=self.state,
                    epochs=((1, 0), (LOG_EPOCH, 50)),
                    end_offset=OFFSET + 10,
                    election_epoch=LOG_EPOCH,
                )
                for one in self.quorum
                if one not in (*self.unknown, *self.elsewhere)
            )
        leader = next(iter(self.up), None)
        found = Situation(
            Survey(nodes, folders=folders),
            tuple(self._controller(one, leader) for one in self.quorum),
            self.broker_folders,
            {one: one in self.kraft for one in (*self.alive, *self.kraft)},
            None if self.up or not self.seen_folders else tuple(self.differences),
            voters=self.voters,
        )
        return replace(found, ends=self.ends()) if found.freed_by_others and not self.up else found

    def _controller(self, node_id: int, leader: int | None) -> ControllerSeen:
        runs: bool | None = None if node_id in self.unknown else node_id in self.up
        status: dict[str, Any] | None = None
        if runs and not self.silent:
            lag = {"records_without_no_ops": self.lag}
            told = {
                "migration_state": MigrationState(self.state).name,
                "phase": "hybrid",
                "lag": lag,
                "poisoned": [{"znode": one, "cause": "NO_AUTH"} for one in self.poisoned],
            }
            status = {"active": node_id == leader, "leader_epoch": LOG_EPOCH, "migration": told}
            if self.flagless:
                state = self.flagless if node_id == leader else "follows"
                status |= {"migration": None, "finalisation": {"state": state}}
                status["active"] = self.flagless == "held" and node_id == leader
        here = self.seen_folders and runs is not None and node_id not in self.elsewhere
        folder = f"data-{node_id}" if here else ""
        name = f"controller {node_id}"
        return ControllerSeen(node_id, name, runs, pid=node_id, status=status, folder=folder)

    def drain(self, seen: Situation, *, forced: bool) -> None:
        if self.stuck:
            if not forced:
                raise CourseError("the time is over")
            self.said.append("going on")
            return
        if seen.leader is None:
            assert seen.checked_at_the_end
            return
        if self.lag is None:
            raise CourseError("nobody knows")
        self.lag = 0

    def stop(self, seen: Situation) -> float:
        assert self.lag == 0 or self.silent or self.stuck, (
            "changes would wait for a controller meanwhile"
        )
        for one in seen.running:
            self._effect(f"stop {one.node_id}")
            assert one.node_id is not None
            self.up.remove(one.node_id)
        self.time_s += 1
        if self.after_stop is not None:
            self.after_stop(self)
        return self.time_s

    def read(self) -> list[ReadValue]:
        if self.after_look is not None:
            then, self.after_look = self.after_look, None
            then(self)
        found: list[ReadValue] = []
        for path in release.PATHS:
            node = self.tree.nodes.get(path)
            absent = ReadFailed(ZkCode.NO_NODE)
            found.append(absent if node is None else NodeData(node.data, node.stat()))
        if self.interferes:
            self.interferes -= 1
            node = self.tree.get(self.interferes_at)
            self.tree.write(SetData(self.interferes_at, node.data), 7, 1)
        return found

    def over(self, seen: Situation) -> None:
        if self.up:
            raise CourseError(f"controller {self.up[0]} was started again")

    def log_ends(self, seen: Situation, found: Found) -> list[FolderEnd]:
        assert not self.up, "a log that is being written has no end"
        return self.ends()

    def state_moved(self, seen: Situation) -> bool:
        assert not self.up, "a log that is being written has no end"
        return any(one.state != self.state for one in seen.survey.folders)

    def ends(self) -> list[FolderEnd]:
        return [
            FolderEnd(
                f"data-{one}", OFFSET + 10, LOG_EPOCH, self.unwritten, self.problem, self.final
            )
            for one in self.quorum
            if self.seen_folders and one not in (*self.unknown, *self.elsewhere)
        ]

    def deletions(self) -> list[str]:
        folder = self.tree.nodes.get(cluster.DELETE_TOPICS)
        return [] if folder is None else sorted(folder.children)

    def forbidden(self, multi: Multi) -> str:
        return "not allowed" if self.readonly else ""

    def commit(self, multi: Multi) -> bool:
        paths = [f"{type(one).__name__} {one.path}" for one in multi.ops]
        self._effect(", ".join(paths))
        self.time_s += 0.01
        done = isinstance(self.tree.multi(multi.ops, 1, 1), list)
        self.elect()
        return done

    def elect(self) -> None:
        """Brokers do this by themselves, whatever becomes of the command."""
        if controller.PATH in self.tree.nodes or not self.alive:
            return
        epoch = controller.parse_epoch(self.data(controller.EPOCH_PATH)) + 1
        text = {"version": 2, "brokerid": self.alive[0], "timestamp": "1"}
        self.put(controller.PATH, js({**text, "kraftControllerEpoch": -1}), ephemeral=True)
        self.tree.write(SetData(controller.EPOCH_PATH, controller.encode_epoch(epoch)), 7, 1)

    def elected(self) -> tuple[int, float] | None:
        holder = self.holder
        return None if holder is None else (holder.broker_id, self.time_s + 0.2)

    def now(self) -> float:
        return self.time_s

    def report(self, text: str) -> None:
        self.said.append(text)

    def _effect(self, what: str) -> None:
        if self.effects is not None:
            if self.effects == 0:
                raise CutOffError(what)
            self.effects -= 1
        self.done.append(what)


def zookeeper_mode(**more: Any) -> ModelCluster:
    """Three brokers in ZooKeeper mode, one topic, one of them the controller."""
    found = ModelCluster(**more)
    for one in found.alive:
        found.put(f"/brokers/ids/{one}", b"{}", ephemeral=True)
    found.put("/controller_epoch", str(EPOCH).encode())
    holder = {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1}
    found.put("/controller", js(holder), ephemeral=True)
    topic = {"version": 3, "partitions": {"0": list(BROKERS)}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    found.put("/brokers/topics/orders", js(topic))
    state = {"version": 1, "leader": 0, "leader_epoch": 1, "controller_epoch": LOG_EPOCH}
    found.put("/brokers/topics/orders/partitions/0/state", js({**state, "isr": list(BROKERS)}))
    found.put("/config/topics/orders", js({"version": 1, "config": {}}))
    return found


def pre_migration(**more: Any) -> ModelCluster:
    quorum = more.get("quorum", (3000,))
    found = zookeeper_mode(**{"state": MigrationState.PRE_MIGRATION, "up": [*quorum], **more})
    found.put(migration.PATH, migration.encode(migration.INITIAL))
    return found


def copying(**more: Any) -> ModelCluster:
    found = pre_migration(**more)
    claimed(found, -1)
    return found


def dual_write(**more: Any) -> ModelCluster:
    found = pre_migration(**{"state": MigrationState.MIGRATION, **more})
    claimed(found, OFFSET)
    return found


def finalised(**more: Any) -> ModelCluster:
    return dual_write(**{"state": MigrationState.POST_MIGRATION, **more})


def claimed(found: ModelCluster, offset: int) -> None:
    """A KRaft controller claims; the copy has ended if there is an offset."""
    epoch = LOG_EPOCH if offset >= 0 else -1
    found.tree.nodes.pop(controller.PATH)
    found.tree.nodes["/"].children.discard("controller")
    found.put(controller.PATH, controller.encode(3000, LOG_EPOCH, 1))
    mark = MigrationZnode(3000, LOG_EPOCH, offset, epoch)
    found.tree.write(SetData(migration.PATH, migration.encode(mark)), 7, 1)
    mine = OwnZnode(3000, LOG_EPOCH, EPOCH, 40, offset, epoch, incarnation="a-process")
    found.put(own.PATH, own.encode(mine))
