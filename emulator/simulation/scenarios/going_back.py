"""The product's own course of a rollback on a simulated cluster; it may be cut off at any effect.

``emulator/operations/rollback/course.py`` asks, and this answers from the models: ``/status`` is
that of the machines, the folders are the disks, brokers elect one of them as soon as
``/controller`` is free, whatever becomes of the command. While the command waits the cluster goes
on, with its clients and faults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from typing_extensions import override

from emulator.config.properties import parse
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.taking_over.claim import Found
from emulator.migration.tree_diff import Difference, ahead, differences
from emulator.node import introspection
from emulator.node.recovery import committed_image, opened
from emulator.operations.preflight import controller_folder
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.survey import DumpedZnode, Survey
from emulator.operations.rollback import missing, release
from emulator.operations.rollback.course import MEANWHILE, CourseError, RollbackWorld
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.raft import layout
from emulator.raft.layout import RecoveryError
from emulator.simulation.models import zookeeper_mode
from emulator.simulation.models.host import Host
from emulator.simulation.models.process import Process
from emulator.simulation.models.scheduler import MS
from emulator.simulation.world import World
from emulator.znodes import cluster, controller, own
from emulator.znodes.tree import Tree, TreeNode
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Multi, NodeData, ReadFailed, ReadValue, SetData

DRAIN_MS: Final = 20_000
STOP_MS: Final = 70_000
"""How long an orderly stop may take: a controller of its own writes for a minute at most."""
ZOOKEEPER_MS: Final = 30_000
ELECTED_MS: Final = 30_000
LOOK_MS: Final = 100
ELECTION_MS: Final = (5, 800)
ANSWER_LOST: Final = 0.15
"""Share of multis whose answer does not come, of which half are not done either."""


class CutOffError(Exception):
    """The command died; the text says before which effect."""


class SimulatedRollback(RollbackWorld):
    """A simulated cluster as the course of a rollback sees it.

    Args:
        world: of the cluster.
        rng: elections, answers that are lost.
        effects: how many are done before the command dies; None: it lives.
    """

    def __init__(self, world: World, rng: Random, effects: int | None = None) -> None:
        self._world = world
        self._rng = rng
        self._effects = effects

    # ------------------------------------------------------------- looking
    @override
    def look(self) -> Situation:
        hosts = [*self._world.controllers.values()]
        survey = self._survey()
        controllers = tuple(self._controller(host) for host in hosts)
        seen = Situation(survey, controllers, voters=len(hosts))
        if seen.freed_by_others and not seen.running:
            seen = replace(seen, ends=self._ends(seen.stage.mark))
        final = phase_of(seen) is RollbackPhase.FINALISED
        if seen.leader is not None and not final:
            assert seen.leader.status is not None
            brokers = seen.leader.status["brokers"]
            return replace(seen, modes={one["id"]: one["kind"] == "kraft" for one in brokers})
        image, why = self._image(seen)
        if image is None:
            return replace(seen, not_compared=why)
        modes = {one: not each.is_migrating_zk_broker for one, each in image.brokers.items()}
        seen = replace(seen, modes=modes)
        if seen.running and not final:
            return seen
        begun = image.migration_state != MigrationState.PRE_MIGRATION
        return replace(seen, differences=_differences(survey, image) if begun else ())

    def _controller(self, host: Host) -> ControllerSeen:
        process, name = host.process, f"controller {host.node_id}"
        if process is None or not process.alive:
            return ControllerSeen(host.node_id, name, False, folder=host.name)
        status = None if process.frozen else self._status(process)
        return ControllerSeen(
            host.node_id, name, True, pid=host.node_id, status=status, folder=host.name
        )

    def _status(self, process: Process) -> dict[str, Any]:
        return introspection.status(process.node, self._world.scheduler.now_ms)

    def differences_now(self, host: Host) -> Sequence[Difference]:
        """What ``zk diff`` prints for the folder of a controller."""
        _, raft = opened(host.disk.files)
        return _differences(self._survey(), committed_image(raft))

    def _survey(self) -> Survey:
        nodes = {
            path: DumpedZnode(one.data, one.version, ephemeral=one.ephemeral_owner != 0)
            for path, one in self._world.tree.nodes.items()
            if path != "/" and not path.startswith("/zookeeper")
        }
        return Survey(nodes, folders=[_folder(host) for host in self._world.controllers.values()])

    def _image(self, seen: Situation) -> tuple[Image | None, str]:
        """What the newest log holds; None and why, if none can be read."""
        usable = [one for one in seen.survey.folders if one.epochs]
        if not usable:
            return None, "no log was begun"
        newest = max(usable, key=lambda one: (one.epochs[-1][0], one.end_offset))
        mark = seen.stage.mark
        offset = mark.kraft_metadata_offset
        try:
            _, raft = opened(self._world.hosts[newest.name].disk.files)
            written = offset + 1 if raft.epoch_at(offset) is not None else 0
            return committed_image(raft, written), ""
        except RecoveryError as error:
            return None, str(error)

    # ------------------------------------------------------------- the controllers
    @override
    def drain(self, seen: Situation, *, forced: bool) -> None:
        assert not forced, "nobody accepts a loss here"
        if seen.leader is None and seen.checked_at_the_end:
            return
        why = ""
        for _ in range(DRAIN_MS // LOOK_MS):
            behind, why = self._behind()
            if behind == 0:
                return
            self.wait(lambda: False, LOOK_MS)
        raise CourseError(why)

    def _behind(self) -> tuple[int | None, str]:
        why = "no controller shows that it leads"
        for host in self._world.controllers.values():
            process = host.process
            if process is None or not process.alive or process.frozen:
                continue
            status = self._status(process)
            migration = status["migration"] or {}
            if not status["active"]:
                continue
            if migration.get("migration_state") == MigrationState.POST_MIGRATION.name:
                raise CourseError(f"the migration was finalised {MEANWHILE}")
            behind = (migration.get("lag") or {}).get("records_without_no_ops")
            if behind is None:
                return None, f"{host.name} leads, and has not compared the stores yet"
            return int(behind), f"{behind} changes are not in ZooKeeper yet"
        return None, why

    @override
    def stop(self, seen: Situation) -> float:
        """Whoever starts processes again does not start these any more."""
        processes: list[Process] = []
        for one in sorted(seen.running, key=lambda one: not one.leads):
            self._effect(f"stop {one.text}")
            assert one.node_id is not None
            host = self._world.controllers[one.node_id]
            host.restarts, host.may_halt = False, "it was asked to stop"
            if host.process is not None and host.process.alive:
                processes.append(host.process)
                host.process.shutdown()
        if not self.wait(lambda: not any(one.alive for one in processes), STOP_MS):
            left = ", ".join(one.name for one in processes if one.alive)
            raise CourseError(f"{left} did not end")
        return self.now()

    @override
    def over(self, seen: Situation) -> None:
        del seen
        for host in self._world.controllers.values():
            if host.process is not None and host.process.alive:
                raise CourseError(f"{host.name} was started again")

    @override
    def log_ends(self, seen: Situation, found: Found) -> Sequence[FolderEnd]:
        del seen
        return self._ends(found.migration)

    def _ends(self, mark: Any) -> tuple[FolderEnd, ...]:
        offset, epoch = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
        hosts = self._world.controllers.values()
        return tuple(missing.read(one.name, one.disk.files, offset, epoch) for one in hosts)

    @override
    def state_moved(self, seen: Situation) -> bool:
        hosts = self._world.hosts
        return any(
            missing.state_moved(hosts[one.name].disk.files, one) for one in seen.survey.folders
        )

    # ------------------------------------------------------------- ZooKeeper
    @override
    def read(self) -> list[ReadValue]:
        self._reach_zookeeper()
        found: list[ReadValue] = []
        for path in release.PATHS:
            node = self._world.tree.nodes.get(path)
            absent = ReadFailed(ZkCode.NO_NODE)
            found.append(absent if node is None else NodeData(node.data, node.stat()))
        return found

    @override
    def deletions(self) -> Sequence[str]:
        self._reach_zookeeper()
        return sorted(self._world.tree.nodes[cluster.DELETE_TOPICS].children)

    @override
    def forbidden(self, multi: Multi) -> str:
        del multi
        return ""

    @override
    def commit(self, multi: Multi) -> bool | None:
        """The answer may be lost, and with it the request."""
        self._effect(", ".join(f"{type(one).__name__} {one.path}" for one in multi.ops))
        self._reach_zookeeper()
        lost = self._rng.random() < ANSWER_LOST
        if lost and self._rng.random() < 0.5:
            return None
        world = self._world
        done = world.foreign_write(*multi.ops)
        marks = any(one.path == own.PATH for one in multi.ops)
        if done and marks and own.PATH in world.tree.nodes:
            world.rolled_back = True
            world.epochs_raised += sum(
                isinstance(one, SetData) and one.path == controller.EPOCH_PATH for one in multi.ops
            )
            world.scheduler.add_line("operator", "the cluster is marked as rolled back")
            self._after_ms(self._rng.randint(*ELECTION_MS), self._elect)
        return None if lost else done

    def _elect(self) -> None:
        """Brokers do this by themselves, as soon as one of them can."""
        world = self._world
        if controller.PATH in world.tree.nodes:
            ours = {*world.controllers, *(one.id for one in world.brokers.values())}
            if world.numbers(controller.PATH).get("brokerid") not in ours:
                self._after_ms(200, self._elect)  # as soon as that one is gone
            return
        able = [one for one in world.brokers.values() if one.alive and not one.in_kraft_mode]
        if not able or world.zookeeper.frozen:
            self._after_ms(200, self._elect)
            return
        broker = self._rng.choice(sorted(able, key=lambda one: one.id))
        done = world.foreign_write(*zookeeper_mode.claim(world.tree, broker.id))
        assert done, "nobody else writes between the two"
        world.epochs_raised += 1
        world.scheduler.add_line("operator", f"{broker.name} is elected in ZooKeeper mode")

    @override
    def elected(self) -> tuple[int, float] | None:
        nodes = self._world.tree.nodes
        if not self.wait(lambda: controller.PATH in nodes, ELECTED_MS):
            return None
        return self._world.numbers(controller.PATH)["brokerid"], self.now()

    def _reach_zookeeper(self) -> None:
        if not self.wait(lambda: not self._world.zookeeper.frozen, ZOOKEEPER_MS):
            raise CourseError("ZooKeeper does not answer")

    # ------------------------------------------------------------- time, and its end
    @override
    def now(self) -> float:
        return self._world.scheduler.now_ms / 1_000

    @override
    def report(self, text: str) -> None:
        self._world.scheduler.add_line("operator", text)

    def wait(self, holds: Callable[[], bool], within_ms: int) -> bool:
        """Let things happen until something holds, or for so long; whether it holds."""
        scheduler = self._world.scheduler
        end_us = scheduler.now_us + within_ms * MS
        while not holds():
            next_us = scheduler.next_us
            if next_us is None or next_us > end_us:
                scheduler.after(end_us - scheduler.now_us, lambda: None)
            scheduler.step()
            if scheduler.now_us >= end_us:
                return holds()
        return True

    def _after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._world.after_ms(delay_ms, action)

    def _effect(self, what: str) -> None:
        if self._effects is not None:
            if self._effects == 0:
                raise CutOffError(what)
            self._effects -= 1


def _folder(host: Host) -> ControllerFolder:
    files = host.disk.files
    meta = parse(files[layout.META_PROPERTIES].decode("latin-1"))
    wanted = {path: data for path, data in files.items() if controller_folder.wanted(path)}
    return controller_folder.read(host.name, wanted, meta)


def _differences(survey: Survey, image: Image) -> list[Difference]:
    tree = Tree()
    tree.nodes = {path: TreeNode(one.data, one.version) for path, one in survey.nodes.items()}
    lists = {path: survey.children(path) for path in survey.nodes}
    tree.lists = {path: names for path, names in lists.items() if names}
    return [*differences(tree, image, None), *ahead(tree, image)]
