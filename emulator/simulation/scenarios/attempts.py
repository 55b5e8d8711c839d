"""Several migrations of one cluster: an operator goes back from each but the last, and tries again.

The instant is drawn: in a state of the driver, or at random under load. The way back is the
product's own course (``going_back.py``), among faults and rolls; the command may be cut off before
any of its effects, and is run again until it is done. Then it is judged from outside what the
cluster has: every change that is committed in the log is in ZooKeeper, every znode as it was if
nothing was copied. Somebody may start the old controllers again, a topic is made in ZooKeeper mode,
the counters are cleared, and a new quorum with empty folders migrates the same ZooKeeper. What
clients were promised in the first attempt holds in the next ones.

Source: KIP-866, "Rollback to ZK"; ``docs/rollback.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.operations.rollback.course import Course, Wanted, roll_back
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.simulation import tree_check
from emulator.simulation.clients.taking import taking
from emulator.simulation.models.scheduler import MS
from emulator.simulation.models.zookeeper_mode import new_topic
from emulator.simulation.scenarios.going_back import CutOffError, SimulatedRollback
from emulator.simulation.scenarios.scenario import Scenario, planned
from emulator.simulation.violation import Violated, ensure
from emulator.simulation.world import MIGRATION, World
from emulator.znodes import controller, migration, own
from emulator.zookeeper.ops import Create

NAME: Final = "goes-back-whole"
_DELETIONS: Final = "/admin/delete_topics/"
_OF_TOPICS: Final = ("/brokers/topics/", "/config/topics/")
INSTANT_MS: Final = 600_000
"""Within this time the migration comes to where the operator goes back."""
TRIES: Final = 40
CALM_AFTER: Final = 15
"""Tries after which nothing is slow or held back any more."""
CUTS: Final = (None, None, 0, 1, 2, 3, 4)
"""Effects before the command dies: one for each controller that is stopped, one for the release."""
PAUSES_MS: Final = (0, 50, 500, 3_000)
"""Pauses between two runs of the command."""
AGAIN: Final = 0.5
"""How often somebody starts the old controllers again."""
AGAIN_MS: Final = (500, 8_000)
STATES: Final = (
    "WAIT_FOR_BROKERS",
    "BECOME_CONTROLLER",
    "ZK_MIGRATION",
    "SYNC_KRAFT_TO_ZK",
    "DUAL_WRITE",
)
"""Not the one before the last, which a step may pass without being seen in it."""
AFTER_MS: Final = (0, 0, 1, 5, 20, 200)
OF_ONE: Final = (
    "controller-crash",
    "controller-crash-in-step",
    "controller-kill",
    "controller-shutdown",
    "disk-slow",
    "disk-error",
    "disk-reorders",
)
OF_THREE: Final = (
    "voter-crash",
    "voter-crash-in-step",
    "voter-kill",
    "voter-shutdown",
    "voters-parted",
    "zookeeper-parted",
    "voter-disk-slow",
    "voter-disk-error",
    "all-power",
)
OTHERS: Final = (
    "lost-reply",
    "lost-replies",
    "cut",
    "delayed-bytes",
    "network-slow",
    "zookeeper-freeze",
    "zookeeper-restart",
    "stale-server",
    "session-expiry",
    "broker-death",
    "broker-shutdown",
    "broker-cut",
)
"""Not among them: what writes to the counters or makes znodes of its own, and copies of folders.

One that takes the claim (``taking.py``) strikes until somebody goes back; two of them together may
look as if somebody had gone back already."""
LEVELS: Final = ("3.4-IV0", "3.6-IV1", "3.7-IV0", "3.7-IV4", "3.9-IV0")
DELAYS_US: Final = ((100, 500), (100, 3 * MS), (100, 3 * MS), (1 * MS, 60 * MS))
SYNCS_US: Final = ((200, 4 * MS), (200, 4 * MS), (5 * MS, 60 * MS))


def attempts(seed: int) -> Scenario:
    """Draw a cluster of one controller or three that migrates two or three times."""
    rng = Random(f"attempts {seed}")
    controllers = rng.choice((1, 1, 3))
    own_faults = OF_ONE if controllers == 1 else OF_THREE
    faults = rng.sample(own_faults, rng.randint(0, 2)) + rng.sample(OTHERS, rng.randint(0, 2))
    change_every_ms = rng.choice((40, 200) if controllers == 1 else (200, 400))

    def pace(chance: float, *every_ms: int) -> int:
        return rng.choice(every_ms) if rng.random() < chance else 0

    return Scenario(
        controllers=controllers,
        attempts=rng.choice((2, 2, 2, 3)),
        faults=(
            *(f"{name}/{index}" for index, name in enumerate(faults)),
            *taking("attempts", seed, 0.1)[:1],
        ),
        brokers=rng.randint(1, 4),
        topics=rng.choice((0, 2, 5)),
        partitions_max=rng.choice((1, 4, 12)),
        changes=rng.choice((10, 25)),
        change_every_ms=change_every_ms,
        metadata_version=rng.choice(LEVELS),
        bound=rng.choice((0, 15, 60, 10_000)),
        multi_ops=rng.choice((3, 12, 400)),
        batch_size=rng.choice((3, 200)),
        delay_us=rng.choice(DELAYS_US),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=rng.choice((1_500, 5_000)),
        snapshot_interval_ms=rng.choice((900, 3_600_000)),
        moves_every_ms=pace(0.4, 100, 400),
        client_changes_every_ms=pace(0.4, 60, 400),
        acl_changes_every_ms=pace(0.3, 60, 400),
        token_changes_every_ms=pace(0.3, 90, 400),
        rolls=rng.choice((0, 0, 2, 4)),
    )


class Operator:
    """Goes back from the migration of a world, and leaves it ready for another one.

    Args:
        world: in which the migration has begun.
        number: of the attempt, from 1 on: one of the random streams is its own.
    """

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._rng = Random(f"{world.seed} going back {number}")
        self._hands = SimulatedRollback(world, self._rng)
        self._epoch = self._epoch_now
        self.cuts = 0
        """How often the command was cut off."""

    @property
    def _epoch_now(self) -> int:
        return int(self._world.tree.nodes[controller.EPOCH_PATH].data or b"0")

    def go_back(self) -> None:
        """Go back at the instant that is drawn, until no controller of the quorum holds ZooKeeper.

        Raises:
            Violated: it comes to no end, or something is not there that has to be.
        """
        self._await_the_instant()
        self.turn()
        self._until(self.is_back, self._release)
        self.leave()

    def turn(self) -> None:
        """From now on it is the way back."""
        self._add_line(f"goes back from attempt {self._number}")
        self._world.going_back = True
        self._write_late_deletion()

    def leave(self) -> None:
        """Judge what is there, and leave it ready for another attempt.

        Raises:
            Violated: something is not there that has to be.
        """
        self._judge()
        if self._rng.random() < AGAIN:
            self._start_again()
        self._until(self._cleared, self._clear)
        self._switch_off()

    # ------------------------------------------------------------- when
    def _await_the_instant(self) -> None:
        world, scenario, rng = self._world, self._world.scenario, self._rng
        drawn = f"{rng.choice(STATES)}+{rng.choice(AFTER_MS)}" if rng.random() < 0.6 else ""
        given = scenario.back_at if self._number == 1 else ""
        come: list[bool] = []
        if at := given or drawn:
            plan = planned(f"back@{at}", 0)
            world.awaited.beside(
                plan.state, lambda: world.after_ms(plan.after_ms, lambda: come.append(True))
            )
            there = self._hands.wait(lambda: bool(come), INSTANT_MS)
        else:
            at = "traffic"
            there = self._hands.wait(lambda: world.traffic.begun, INSTANT_MS)
            self._hands.wait(lambda: False, rng.randint(0, 2 * scenario.faults_within_ms))
        ensure(there, "comes-to-rest", f"the migration does not come to {at}")

    def _write_late_deletion(self) -> None:
        """By a broker that does not know yet who the controller is; not in each attempt."""
        world = self._world
        rng = Random(f"{world.seed} late deletion {self._number}")
        topics = sorted(world.tree.nodes["/brokers/topics"].children)
        claimed = own.claimed_in(own.try_parse(self._data(own.PATH))) == self._epoch_now
        if world.zookeeper.frozen or world.kraft_offset < 0 or not (claimed and topics):
            return
        if rng.random() < 0.5:
            return
        topic = rng.choice(topics)
        if world.foreign_write(Create(f"{_DELETIONS}{topic}", None)):
            self._add_line(f"a broker writes a deletion of {topic} behind the copy")

    # ------------------------------------------------------------- the command
    def _until(self, done: Callable[[], bool], act: Callable[[Random], str]) -> None:
        """Run the command until something is done; whatever stands in the way, it is run again."""
        why = ""
        for number in range(TRIES):
            if number == CALM_AFTER:
                self._world.calm()
            why = act(self._rng)
            if not why and done():
                return
            self._add_line(f"runs the command again: {why or 'there is nothing to do yet'}")
            self._pause()
        raise Violated(NAME, f"not done after {TRIES} runs of the command: {why}")

    def _pause(self) -> None:
        self._hands.wait(lambda: False, self._rng.choice(PAUSES_MS))

    def run_command(self, rng: Random, wanted: Wanted) -> Course | None:
        """Run it once; None: it was cut off."""
        world = self._world
        live = SimulatedRollback(world, rng, rng.choice(CUTS))
        try:
            return roll_back(live, wanted)
        except CutOffError as cut:
            self.cuts += 1
            self._add_line(f"the command is cut off before: {cut}")
            return None

    def _release(self, rng: Random) -> str:
        self._brokers_to_zookeeper_mode()
        course = self.run_command(rng, Wanted())
        if course is None:
            return "it was cut off"
        if (why := _problem(course)) and not self._marked:
            self._start_stopped()
        return why

    def _clear(self, rng: Random) -> str:
        for host in self._world.controllers.values():
            self._world.remove(host)
        course = self.run_command(rng, Wanted(clear=True))
        return "it was cut off" if course is None else _problem(course)

    def _brokers_to_zookeeper_mode(self) -> None:
        """Brokers in KRaft mode go back first, while the controllers run."""
        world = self._world
        for broker_id in world.lives.to_zookeeper_mode():
            self._add_line(f"broker {broker_id} is restarted in ZooKeeper mode")
        for broker in list(world.brokers.values()):
            if broker.in_kraft_mode and broker.alive:
                world.lives.kill(broker)

        def back() -> bool:
            known = world.facts.brokers.values()
            return not any(one.in_kraft_mode for one in world.brokers.values()) and all(
                one.is_migrating_zk_broker and not one.fenced for one in known
            )

        if any(host.process and host.process.alive for host in world.controllers.values()):
            self._hands.wait(back, 5_000)

    def _start_stopped(self) -> None:
        """Start the stopped controllers, as the command advises: they write what is missing."""
        for host in self._world.controllers.values():
            if host.process is None or not host.process.alive:
                host.restarts = True
                self._world.start_process(host)

    # ------------------------------------------------------------- what is there then
    @property
    def _marked(self) -> bool:
        return own.rolled_back(own.try_parse(self._data(own.PATH)))

    def _data(self, path: str) -> bytes | None:
        node = self._world.tree.nodes.get(path)
        return None if node is None else node.data

    def is_back(self) -> bool:
        """Whether ZooKeeper says so, and refuses the old controllers for good."""
        return phase_of(self._hands.look()) is RollbackPhase.ROLLED_BACK and self._marked

    def _cleared(self) -> bool:
        return not {migration.PATH, own.PATH} & self._world.tree.nodes.keys()

    def _judge(self) -> None:
        """No committed change is missing, and no controller of the quorum holds anything."""
        world = self._world
        holder = world.numbers(controller.PATH)
        ensure(holder.get("kraftControllerEpoch") == -1, NAME, f"/controller says {holder}")
        epoch = self._epoch_now
        ensure(epoch >= self._epoch, NAME, f"/controller_epoch is {epoch} after {self._epoch}")
        foreign = frozenset(world.foreign) | self._to_be_deleted()
        if world.facts.migration_state == MIGRATION:
            late = sorted(self._pending & world.facts.ids.keys())
            ensure(not late, NAME, f"ZooKeeper's controller deletes {late}, which are in the log")
            world.traffic.load.compare()
            log = world.committed
            found = tree_check.differences(world.tree.nodes, log.at(log.end_offset), foreign)
            for line in found:
                raise Violated(NAME, line)
            self._add_line(f"ZooKeeper has all of the log, through {log.facts.offset}")
        else:
            self._judge_untouched()

    def _to_be_deleted(self) -> set[str]:
        """Znodes of topics whose deletion was pending: no copy has them, and they may still exist.

        Brokers finish the deletion when one of them is the controller again.
        """
        nodes = self._world.tree.nodes
        roots = [f"{at}{topic}" for at in _OF_TOPICS for topic in self._pending]
        return {path for path in nodes for at in roots if path == at or path.startswith(f"{at}/")}

    @property
    def _pending(self) -> set[str]:
        """The topics that ZooKeeper's controller will delete."""
        return set(self._world.tree.nodes["/admin/delete_topics"].children)

    def _judge_untouched(self) -> None:
        """Nothing was copied: every znode is as it was, and none is new."""
        world = self._world
        now = {
            path: tree_check.meaning(path, node.data)
            for path, node in world.tree.nodes.items()
            if tree_check.covered(path)
        }
        for path in sorted(now.keys() | world.before.keys()):
            text = f"{path} says {now.get(path)}, and said {world.before.get(path)}"
            ensure(now.get(path) == world.before.get(path), NAME, text)
        self._add_line("ZooKeeper is as it was")

    # ------------------------------------------------------------- afterwards
    def _start_again(self) -> None:
        """The checkers see what the old quorum does to ZooKeeper: nothing, or it is wrong."""
        self._add_line("somebody starts the old controllers again")
        self._start_stopped()
        self._hands.wait(lambda: False, self._rng.randint(*AGAIN_MS))

    def _switch_off(self) -> None:
        """A topic is made in ZooKeeper mode; the old machines and the brokers end."""
        world = self._world
        ops = new_topic(
            world.tree, self._rng, f"between-{self._number}", range(world.scenario.brokers)
        )
        ensure(world.foreign_write(*ops), "simulator", "a topic could not be made")
        for host in world.hosts.values():
            world.remove(host)
        world.lives.end()

    def _add_line(self, what: str) -> None:
        self._world.scheduler.add_line("operator", what)


def _problem(course: Course) -> str:
    """Why the command did not do what it was asked for; empty: it did."""
    return course.failed or "; ".join(map(str, course.refused))
