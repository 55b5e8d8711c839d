"""Faults that take the claim from a controller: it must notice that by itself.

One of several voters is never restarted: the leader has to resign, and the next one to claim. The
only voter has an operator, who does what ``/status`` asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from emulator.migration.taking_over.preconditions import Why
from emulator.seam import Effect
from emulator.simulation.checkers.base import CONTROLLER, EPOCH, OWN, Checker
from emulator.simulation.checkers.chain import EpochsGrow
from emulator.simulation.faults.strike import Recipe, Strike
from emulator.simulation.models.process import Process
from emulator.simulation.world import FINALISED, World
from emulator.zookeeper.ops import Create, Delete, SetData

STRANGER: Final = 3_999
"""Id of a controller that is none of the quorum."""
SEES_MS: Final = (100, 3_000)
REMOVES_MS: Final = (1_000, 6_000)
RESTORED_MS: Final = (20, 6_000)


class OperatorOfOne(Checker):
    """The operator of a single controller, who does what its ``/status`` asks for.

    One whose claim is over is restarted. If its log begins after what a restored ZooKeeper shows,
    the log is known to be the newer one here: then ``/kraft_bridge`` is deleted, and the epoch that
    brokers know is written. It is written too where brokers refuse a claim because they know a
    higher epoch: of another process of this folder, which ZooKeeper has forgotten.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rng = Random(f"operator of one {world.seed}")
        self._seen: set[str] = set()
        self._restored = False

    def set_back(self) -> None:
        """ZooKeeper is older than the log."""
        self._restored = True

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """See Onlooker."""
        del effects
        driver = process.node.driver
        if driver is None or process.name in self._seen:
            return
        if driver.waits.over:
            self._later(process, process.kill)
        elif self._restored and any(
            one.reason.why is Why.OTHER_LOG and "an older state" in one.reason.text
            for one in driver.waits.reasons
        ):
            self._later(process, self._log_wins)
        elif self._restored and driver.channels.outdated.waiting:
            self._later(process, lambda: self._claims_above(process))

    def _later(self, process: Process, action: Callable[[], None]) -> None:
        self._seen.add(process.name)
        self.world.after_ms(self._rng.randint(*SEES_MS), action)

    def _log_wins(self) -> None:
        world = self.world
        if world.zookeeper.frozen:
            world.after_ms(100, self._log_wins)
            return
        if OWN not in world.tree.nodes:
            return
        _, known = self._epochs()
        world.foreign_write(Delete(OWN), SetData(EPOCH, b"%d" % known))
        # Without both znodes a restored ensemble looks like that of a cluster that went back.
        world.forgotten |= CONTROLLER not in world.tree.nodes
        world.scheduler.add_line("operator", "the log is the newer one")
        for one in world.onlookers:
            if isinstance(one, EpochsGrow):
                one.set_back()

    def _claims_above(self, process: Process) -> None:
        """Stop the controller, write the epoch that brokers know; it is started again."""
        world = self.world
        if world.zookeeper.frozen:
            world.after_ms(100, lambda: self._claims_above(process))
            return
        process.kill()
        epoch, known = self._epochs()
        world.foreign_write(SetData(EPOCH, b"%d" % known))
        world.epochs_raised += known - epoch
        world.raised_ever += known - epoch
        world.scheduler.add_line("operator", f"brokers know controller epoch {known}")

    def _epochs(self) -> tuple[int, int]:
        """The controller epoch that ZooKeeper shows, and the highest one that brokers may know."""
        world = self.world
        epoch = int(world.tree.nodes[EPOCH].data or b"0")
        claims = [one for one in world.onlookers if isinstance(one, EpochsGrow)]
        return epoch, max([epoch, *(claim[0] for one in claims for claim in one.claims)])


def epoch_bumped(strike: Strike) -> None:
    """Somebody raises ``/controller_epoch``, as `zk reconcile` of a folder or a stray broker."""
    world = strike.world
    if not _begins(strike):
        return
    epoch = int(world.tree.nodes[EPOCH].data or b"0")
    world.epochs_raised += 1
    world.raised_ever += 1
    world.foreign_write(SetData(EPOCH, b"%d" % (epoch + 1)))


def controller_deleted(strike: Strike) -> None:
    """Somebody deletes ``/controller``, as a rollback begins; it need not be noticed."""
    world = strike.world
    if CONTROLLER in world.tree.nodes and _begins(strike):
        world.foreign_write(Delete(CONTROLLER))
        world.controller_deleted = True


def controller_foreign(strike: Strike) -> None:
    """``/controller`` names a controller of another quorum, or a broker; then somebody deletes it.

    Its epoch may be below that of ours, the same, or above; as long as it is, no claim may be made.
    """
    world, rng = strike.world, strike.rng
    if not _begins(strike):
        return
    take(strike, max(-1, world.claimed_kraft_epoch + rng.choice((-1, 0, 1, 1, 3))))
    _removed_later(strike)


def take(strike: Strike, epoch: int) -> None:
    """``/controller`` names a controller of another quorum, in an epoch."""
    world = strike.world
    claim = {"version": 2, "brokerid": STRANGER, "timestamp": "3", "kraftControllerEpoch": epoch}
    data = json.dumps(claim).encode()
    there = CONTROLLER in world.tree.nodes
    world.foreign_write(SetData(CONTROLLER, data) if there else Create(CONTROLLER, data))
    world.controller_deleted = True
    strike.add_line(f"/controller names {STRANGER} in epoch {epoch}")


def _removed_later(strike: Strike) -> None:
    """Somebody deletes ``/controller``, if it still names the stranger then."""
    world = strike.world

    def remove() -> None:
        if world.zookeeper.frozen:
            strike.after_ms(100, remove)
        elif world.numbers(CONTROLLER).get("brokerid") == STRANGER:
            world.foreign_write(Delete(CONTROLLER))
            world.controller_deleted = True
            strike.add_line("/controller is deleted")

    strike.after_ms(strike.rng.randint(*REMOVES_MS), remove)


def zookeeper_restored(strike: Strike) -> None:
    """The whole ensemble is set back to a backup; claims and writes that came later are forgotten.

    Not if somebody else has raised the epoch meanwhile: brokers know epochs then that nothing in
    ZooKeeper shows any more, and an operator has to write them (`docs/divergence.md`). Nor to a
    state before the first claim where somebody is to go back: all is refused then.
    """
    world = strike.world
    again = world.scenario.attempts > 1
    if not _begins(strike):
        return
    backup, raised = world.zookeeper.model.back_up(), world.raised_ever
    forgets = OWN not in backup.nodes
    strike.add_line("a backup of the ensemble is made")

    def may_be() -> bool:
        return not (world.zookeeper.frozen or _has_a_second_log(world))

    def restore() -> None:
        if world.raised_ever == raised and not _is_over(world) and not (forgets and again):
            world.forgotten |= forgets
            world.restore(backup)
            if world.numbers(CONTROLLER).get("brokerid") == STRANGER:
                _removed_later(strike)

    delay_ms = strike.rng.randint(*RESTORED_MS)
    strike.after_ms(delay_ms, lambda: strike.when(may_be, restore))


def _has_a_second_log(world: World) -> bool:
    """Whether a process lives that looks like the right one to a restored ZooKeeper.

    An old copy of a folder fits an old state of ZooKeeper: one voter cannot detect that.
    """
    others = [one for one in world.hosts.values() if one not in world.controllers.values()]
    return any(one.restarts for one in others) or any(one.alive for one in world.zombies)


def _begins(strike: Strike) -> bool:
    """Whether there is somebody to take a claim from; an operator looks on from now on."""
    world = strike.world
    if world.zookeeper.frozen or _is_over(world):
        return False
    looks = any(isinstance(one, OperatorOfOne) for one in world.onlookers)
    if world.voters is None and not looks:
        world.onlookers.append(OperatorOfOne(world))
    return True


def _is_over(world: World) -> bool:
    """The migration is rolled back or finalised, or on the way to it."""
    final = world.facts.migration_state == FINALISED
    return world.rolled_back or world.going_back or world.finalising or final


TAKEN: Final[dict[str, Recipe]] = {
    "controller-foreign": controller_foreign,
    "zookeeper-restored": zookeeper_restored,
}
"""Beside those of ``RECIPES``; no table counts in which states they did something."""
