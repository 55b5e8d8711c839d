"""What an operator does to a simulated cluster: each action of an advice, and none of its reasons.

An operator has a shell on every machine: he stops processes by SIGTERM, or by SIGKILL if that takes
too long, and starts them; runs ``status``, ``zk diff``, ``finalise`` and ``rollback``; and mends
what somebody else has done. While he waits the cluster goes on, with its clients and faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

from emulator.migration.dual_write.poison import CHAIN
from emulator.node import introspection
from emulator.operations.next_steps import FLAG, BrokerMode, NextStep
from emulator.operations.rollback.course import Course, Wanted, plan
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.scenarios.going_back import STOP_MS, SimulatedRollback
from emulator.simulation.violation import ensure
from emulator.simulation.world import FINALISED, MIGRATION, Trouble, World
from emulator.zookeeper.ops import Delete

NAME: Final = "advice-leads-there"
SAFE: Final = "advice-is-safe"
BROKER_STOP_MS: Final = 10_000
"""How long a controlled shutdown may take."""
BEGIN_MS: Final = 5_000
"""How long a process takes to be there again."""
MOMENT_MS: Final = 1_000
"""Between two looks."""
DIFFS: Final = 20
"""Comparisons of the stores while clients go on: the tree is behind the log for a moment."""
DIFF_MS: Final = 300


_DELETE: Final = re.compile(r"\bdelete (?P<path>/[\w/]+)")

_WANTS_FLAG: Final = ("Set it to true and start again", f"{FLAG}=true keeps the migration going")


class Hands:
    """See the module's docstring.

    Args:
        world: with the cluster.
        rng: elections of brokers, and answers of ZooKeeper that are lost.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._command = SimulatedRollback(world, rng)

    def wait(self, holds: Callable[[], bool], within_ms: int) -> bool:
        """Let things happen until something holds, or for so long; whether it holds."""
        return self._command.wait(holds, within_ms)

    def add_line(self, what: str) -> None:
        """Add a line to the story."""
        self._world.scheduler.add_line("operator", what)

    # ------------------------------------------------------------- looking
    def document(self, node_id: int) -> dict[str, Any] | None:
        """``/status`` of a controller, as it comes over the wire; None: it does not answer."""
        process = self._world.controllers[node_id].process
        if process is None or not process.alive or process.frozen:
            return None
        found = introspection.status(process.node, self._world.scheduler.now_ms)
        return dict(json.loads(json.dumps(found)))

    def diff(self) -> bool:
        """``zk diff``, at times more than once; whether both stores had the same."""
        return any(self._same(at) for at in range(DIFFS))

    def _same(self, at: int) -> bool:
        if at:
            self.wait(lambda: False, DIFF_MS)
        world = self._world
        return not world.zookeeper.frozen and not self._command.differences_now(world.active)

    # ------------------------------------------------------------- controllers
    def start_controller(self, node_id: int) -> None:
        """Start it, unless it runs; with the flag, if it has ended because it lacks it."""
        host = self._world.controllers[node_id]
        host.restarts = True
        if host.process is None or not host.process.alive:
            words = "" if host.process is None else host.process.last_words
            if f"{FLAG} is not true" in words and any(one in words for one in _WANTS_FLAG):
                self._world.set_flag(node_id, flag=True)
            self._world.start_process(host)
        else:
            self.wait(lambda: False, MOMENT_MS)

    def restart_controller(self, node_id: int, *, flag: bool) -> None:
        """SIGTERM, and the next life with the flag of the migration or without it.

        Raises:
            Violated: without the flag it could not serve a broker, or ends the copy.
        """
        if not flag:
            facts = self._world.facts
            copied = facts.migration_state in {MIGRATION, FINALISED}
            ensure(copied, SAFE, f"controller {node_id} loses its flag before all is copied")
            left = [one.id for one in facts.brokers.values() if one.is_migrating_zk_broker]
            left = [one for one in left if one not in self._world.lives.blamed]
            ensure(not left, SAFE, f"controller {node_id} loses its flag: {left} need it")
        self._world.set_flag(node_id, flag=flag)
        self._world.finalising |= not flag
        self.stop_controller(node_id)
        self.start_controller(node_id)

    def stop_controller(self, node_id: int) -> None:
        """SIGTERM; whoever starts processes again does not start this one any more."""
        host = self._world.controllers[node_id]
        process = host.process
        if process is not None and process.alive:
            host.restarts, host.may_halt = False, "it was asked to stop"
            process.shutdown()
            if not self.wait(lambda: not process.alive, STOP_MS):
                process.kill()

    def finalise(self, node_id: int) -> None:
        """``finalise --yes``."""
        process = self._world.controllers[node_id].process
        taken = process is not None and process.release_hold()
        self.add_line(f"the hold is {'ended' if taken else 'not ended'}")

    # ------------------------------------------------------------- brokers
    def start_broker(self, broker_id: int, mode: BrokerMode | None) -> None:
        """Start it if it does not run; if it runs in another mode, restart it."""
        self._configure(broker_id, mode)
        broker = self._world.brokers.get(broker_id)
        kraft = self._world.lives.goes_kraft(broker_id)
        if broker is not None and broker.alive and broker.in_kraft_mode != kraft:
            self._stop(broker)
        self._begin(broker_id)
        self.wait(lambda: False, MOMENT_MS)

    def restart_broker(self, broker_id: int, mode: BrokerMode | None) -> None:
        """A controlled shutdown, and the next life in a mode; None: in the one that it has."""
        self._configure(broker_id, mode)
        broker = self._world.brokers.get(broker_id)
        if broker is not None and broker.alive:
            self._stop(broker)
        self._begin(broker_id)
        self.wait(lambda: False, MOMENT_MS)

    def _configure(self, broker_id: int, mode: BrokerMode | None) -> None:
        if mode is BrokerMode.KRAFT:
            copied = self._world.facts.migration_state in {MIGRATION, FINALISED}
            ensure(copied, SAFE, f"broker {broker_id} is in KRaft mode before all is copied")
            self._world.lives.to_kraft(broker_id)
        elif mode is not None:
            ensure(mode is BrokerMode.MIGRATION, NAME, f"broker {broker_id}: {mode} in a migration")
            self._world.lives.back_to_zookeeper(broker_id)

    def _stop(self, broker: SimulatedBroker) -> None:
        broker.shut_down()
        if not self.wait(lambda: not broker.alive, BROKER_STOP_MS):
            self._world.lives.kill(broker)

    def _begin(self, broker_id: int) -> None:
        """A life follows by itself, unless somebody has seen to it that none does."""
        lives = self._world.lives
        if broker_id in lives.departed:
            lives.departed.discard(broker_id)
            lives.start(broker_id)
        self.wait(lambda: lives.now[broker_id].alive, BEGIN_MS)

    # ------------------------------------------------------------- what somebody has done
    def repair(self, step: NextStep) -> bool:
        """Mend what the advice names, if it says how; whether there is such a thing."""
        for trouble in list(self._world.troubles):
            if not _means(step, trouble):
                continue
            self._world.troubles.remove(trouble)
            self.add_line(f"mends {trouble.subject}")
            trouble.mend()
            return True
        return self._done(step.why)

    def _done(self, why: str) -> bool:
        """Do what a repair says of no trouble; whether it says something that can be done."""
        world, lives = self._world, self._world.lives
        if (found := _DELETE.search(why)) is not None:
            ensure(found["path"] not in CHAIN, SAFE, f"{found['path']} is deleted")
            return world.foreign_write(Delete(found["path"]))
        if "start a broker in ZooKeeper mode" in why:
            for broker_id in sorted(lives.now):
                self.start_broker(broker_id, BrokerMode.MIGRATION)
            return True
        left = [
            one for one in world.controllers.values() if not (one.process and one.process.alive)
        ]
        if "start the controllers" in why:
            for host in left:
                self.start_controller(host.node_id)
            return bool(left)
        return False

    # ------------------------------------------------------------- the way back
    def plan_back(self) -> Course:
        """``rollback`` without ``--yes``."""
        return plan(self._command, Wanted())[1]


def _means(step: NextStep, trouble: Trouble) -> bool:
    how = not trouble.remedy or any(word in step.why for word in trouble.remedy)
    if step.node is not None or trouble.node is not None:
        return how and step.node == trouble.node
    return how and trouble.subject in step.why
