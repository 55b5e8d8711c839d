"""An operator who does nothing but what ``next`` of the product says, and where that takes him.

He asks controllers for ``/status`` and follows the first step that the functions of the verbs give
(``operations/next_steps.py``): never one that comes later, and none of his own. Somebody else makes
trouble meanwhile that lasts until he mends it (``faults/troubles.py``), beside drawn faults. The
goal is a migration that is final; or ZooKeeper mode again, from any step of the way; or that, and
up again. An advice that he does not understand, or that takes too many steps, breaks the run.

What he knows beside the advice: a controller that does not answer is no reason to give up while
another one does, and if none does he starts those that do not run. A repair that names nothing he
finds broken may come from what passes by itself; once no fault is under way it may not be repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

from emulator.migration.dual_write.poison import CHAIN
from emulator.node import introspection
from emulator.operations import next_steps
from emulator.operations.next_steps import FLAG, Action, BrokerMode, NextStep
from emulator.operations.rollback.course import Course, Wanted, plan
from emulator.simulation.faults.troubles import TROUBLES
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.scenarios.attempts import (
    DELAYS_US,
    LEVELS,
    OF_ONE,
    OF_THREE,
    OTHERS,
    SYNCS_US,
    Operator,
)
from emulator.simulation.scenarios.going_back import STOP_MS, SimulatedRollback
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated, ensure
from emulator.simulation.world import FINALISED, MIGRATION, Trouble, World
from emulator.zookeeper.ops import Delete
from wire import messages as m

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
KNOWN_MS: Final = 10_000
"""How long a controller is down before its leader must know of it: it asks every 5 s."""


_DELETE: Final = re.compile(r"\bdelete (?P<path>/[\w/]+)")

_WANTS_FLAG: Final = ("Set it to true and start again", f"{FLAG}=true keeps the migration going")


def ensure_safe(holds: bool, text: str) -> None:
    """The advice harms nobody, as far as that is known beforehand.

    Raises:
        Violated: it would.
    """
    ensure(holds, SAFE, text)


class Hands:
    """What an operator does to a cluster: each action of an advice, and none of its reasons.

    He has a shell on every machine: he stops processes by SIGTERM, or by SIGKILL if that takes too
    long, and starts them; runs ``status``, ``zk diff``, ``finalise`` and ``rollback``; and mends
    what somebody else has done. While he waits the cluster goes on, with its clients and faults.

    Args:
        world: with the cluster.
        rng: elections of brokers, and answers of ZooKeeper that are lost.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._command = SimulatedRollback(world, rng)
        self._ended_ms: dict[str, int] = {}
        """By process of a controller: when it was seen to have ended."""

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
    def start_controller(self, node_id: int, *, flag: bool | None = None) -> None:
        """Start it, unless it runs; with the flag, if it has ended because it lacks it.

        Raises:
            Violated: it is to start without the flag, and that would harm.
        """
        host = self._world.controllers[node_id]
        host.restarts = True
        if host.process is None or not host.process.alive:
            if flag is not None:
                self._set_flag(node_id, flag=flag)
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
        self.ensure_spare(node_id)
        self._set_flag(node_id, flag=flag)
        self.stop_controller(node_id)
        self.start_controller(node_id)

    def _set_flag(self, node_id: int, *, flag: bool) -> None:
        """Write its file, if losing the flag harms nobody."""
        if not flag:
            facts = self._world.facts
            copied = facts.migration_state in {MIGRATION, FINALISED}
            ensure_safe(copied, f"controller {node_id} loses its flag before all is copied")
            left = [one.id for one in facts.brokers.values() if one.is_migrating_zk_broker]
            left = [one for one in left if one not in self._world.lives.blamed]
            ensure_safe(not left, f"controller {node_id} loses its flag: {left} need it")
        self._world.set_flag(node_id, flag=flag)
        self._world.finalising |= not flag

    def ensure_spare(self, node_id: int) -> None:
        """Every other voter runs, as far as their leader can know, so that this one may end.

        Raises:
            Violated: another one is down, and a broker may need a controller.
        """
        down = [one for one in self.look_for_ended() if one != node_id]
        back = self._world.rolled_back
        ensure_safe(back or not down, f"controller {node_id} is to end while {down} are down")

    def look_for_ended(self) -> list[int]:
        """The controllers that have been down for so long that their leader must know of it."""
        now_ms, found = self._world.scheduler.now_ms, []
        for host in self._world.controllers.values():
            process = host.process
            if process is not None and not process.alive:
                since_ms = self._ended_ms.setdefault(process.name, now_ms)
                found += [host.node_id] if now_ms - since_ms >= KNOWN_MS else []
        return found

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
            ensure_safe(copied, f"broker {broker_id} is in KRaft mode before all is copied")
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
        if broker_id in lives.gone:
            return
        if broker_id in lives.departed:
            lives.departed.discard(broker_id)
            lives.start(broker_id)
        self.wait(lambda: lives.now[broker_id].alive, BEGIN_MS)

    def unregister(self, broker_id: int) -> None:
        """``kafka-cluster.sh unregister``, through another broker, if there is one."""
        lives = self._world.lives
        lives.unregistered.add(broker_id)
        if others := lives.able():
            request = m.UnregisterBrokerRequest(broker_id=broker_id)
            self._rng.choice(others).ask(request, 0, lambda _: None)
        self.wait(lambda: False, MOMENT_MS)

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
            ensure_safe(found["path"] not in CHAIN, f"{found['path']} is deleted")
            return world.foreign_write(Delete(found["path"]))
        if "start the brokers" in why:
            for broker_id in sorted(lives.departed):
                self.start_broker(broker_id, None)
            return True
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


GOALS: Final = ("final", "back", "again")
"""A final migration; ZooKeeper mode; ZooKeeper mode, and from there a final migration."""
STEPS_MAX: Final = 400
"""Steps in which a goal is reached."""
CALM_STEPS: Final = 200
"""Steps after which nothing is slow or held back any more."""
PAUSES_MS: Final = (0, 1_500)
"""Between two steps."""
WAIT_MS: Final = 5_000
"""How long the operator waits for a phase before he looks again."""
IDLE_MS: Final = 4_000
"""How long he looks on when there is nothing to do."""
VAIN_MAX: Final = 20
"""Repairs in a row that find nothing broken, while no fault is under way."""
TURNS: Final = (2, 4, 6, 9, 13)
"""Steps of the way up after which he turns back."""
NO_WAY_BACK: Final = (Action.FINALISE, Action.NOTHING)
AFTER: Final = ("", "", "@WAIT_FOR_BROKERS", "@DUAL_WRITE", "@DUAL_WRITE+200")


def advised(seed: int) -> Scenario:
    """Draw a cluster, its troubles and faults, and a goal."""
    rng = Random(f"operator {seed}")
    controllers = rng.choice((1, 3, 3))
    own_faults = OF_ONE if controllers == 1 else OF_THREE
    goal = rng.choice(("final", "final", "back", "again"))
    troubles = rng.sample(sorted(TROUBLES), rng.choice((0, 1, 1, 2, 3)))
    faults = rng.sample(own_faults, rng.randint(0, 2)) + rng.sample(OTHERS, rng.randint(0, 2))
    change_every_ms = rng.choice((40, 200) if controllers == 1 else (200, 400))
    return Scenario(
        goal=goal,
        attempts=1 if goal == "final" else 2,
        controllers=controllers,
        faults=(
            *(f"{name}{rng.choice(AFTER)}/t{index}" for index, name in enumerate(troubles)),
            *(f"{name}/{index}" for index, name in enumerate(faults)),
        ),
        brokers=rng.randint(1, 4),
        topics=rng.choice((0, 2, 5)),
        partitions_max=rng.choice((1, 4)),
        changes=rng.choice((10, 25)),
        change_every_ms=change_every_ms,
        metadata_version=rng.choice(LEVELS),
        bound=rng.choice((0, 15, 10_000)),
        multi_ops=rng.choice((3, 400)),
        batch_size=rng.choice((3, 200)),
        delay_us=rng.choice(DELAYS_US),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=rng.choice((1_500, 5_000)),
        snapshot_interval_ms=rng.choice((900, 3_600_000)),
        rolls=rng.choice((0, 0, 2)),
        hold=rng.random() < 0.3,
    )


class Advised:
    """Takes one attempt as far as it goes.

    Args:
        world: in which everything has begun.
        number: of the attempt, from 1 on.
        busy: whether a fault is under way or to come.
    """

    def __init__(self, world: World, number: int, busy: Callable[[], bool]) -> None:
        self._world = world
        self._busy = busy
        self._rng = Random(f"{world.seed} advised {number}")
        self._hands = Hands(world, self._rng)
        self._number = number
        self._asked = self._rng.choice(sorted(world.controllers))
        self._compared = ""
        """The phase in which the stores were found to be the same."""
        self._vain = 0
        self.steps = 0
        """Steps so far."""

    def to_final(self) -> None:
        """Follow the advice until there is nothing left to do.

        Raises:
            Violated: that does not come, or it is not final then.
        """
        idle = 0
        while idle < 2:
            step = self._next()
            if step is not None and step.action is Action.NOTHING:
                idle += 1
                self._world.arrived = True
                self._hands.wait(lambda: False, IDLE_MS)
            else:
                idle = 0
                self._follow(step)
        self._hands.add_line(f"has arrived after {self.steps} steps")

    def back(self) -> None:
        """Follow the advice for a while, and then the way back to ZooKeeper mode.

        Raises:
            Violated: it comes to no end, or something is not there that has to be.
        """
        turn = self._rng.choice(TURNS)
        while self.steps < turn or self._not_to_turn:
            step = self._next()
            if step is not None and _ends(step):
                break
            self._follow(step)
        operator = Operator(self._world, self._number)
        operator.turn()
        course = self._hands.plan_back()
        while True:
            step = self._step_back(course)
            if _over(step):
                break
            if step.action is Action.ROLLBACK:
                run = operator.run_command(self._rng, Wanted())
                course = self._hands.plan_back() if run is None else run
            else:
                self._follow(step)
                course = self._hands.plan_back()
        ensure(operator.is_back(), NAME, f"it is not back: {step.text}")
        self._hands.add_line(f"is back after {self.steps} steps")
        operator.leave()

    def _step_back(self, course: Course) -> NextStep:
        self._count()
        step = next_steps.of_rollback(course)[0]
        ensure(step.now, NAME, f"the first step comes later: {step.text}")
        self._hands.add_line(f"step {self.steps}, {course.phase.value}: {step.text}")
        return step

    @property
    def _not_to_turn(self) -> bool:
        """No log was begun, or a znode is to be mended before."""
        world = self._world
        spoiled = any(one.node is None for one in world.troubles)
        return not world.committed.end_offset or spoiled

    # ------------------------------------------------------------- one step
    def _next(self) -> NextStep | None:
        """The advice of the moment; None: no controller answers."""
        self._count()
        others = [one for one in self._world.controllers if one != self._asked]
        for node_id in (self._asked, *others):
            if (found := self._hands.document(node_id)) is not None:
                self._asked = node_id
                return self._advice(found)
        return None

    def _count(self) -> None:
        self.steps += 1
        if self.steps == CALM_STEPS:
            self._world.calm()
        ensure(self.steps <= STEPS_MAX, NAME, f"not there after {STEPS_MAX} steps")
        self._hands.wait(lambda: False, self._rng.randint(*PAUSES_MS))
        self._hands.look_for_ended()

    def _advice(self, found: dict[str, Any]) -> NextStep:
        phase = str(found["phase"]["text"])
        step = next_steps.next_steps(found, compared=self._compared == phase)[0]
        ensure(step.now, NAME, f"the first step comes later: {step.text}")
        self._hands.add_line(f"step {self.steps}, {phase}: {step.text}")
        if step.action is Action.DIFF:
            self._compared = phase if self._hands.diff() else ""
        if step.action is not Action.REPAIR:
            self._vain = 0
        return step

    def _follow(self, step: NextStep | None) -> None:
        hands = self._hands
        if step is None:
            self._hands.add_line("no controller answers")
            for node_id in self._world.controllers:
                hands.start_controller(node_id)
            return
        match step.action:
            case Action.WAIT:
                self._wait(step)
            case Action.ASK:
                self._asked = _node(step)
                self._look_later()
            case Action.START_CONTROLLER:
                hands.start_controller(_node(step), flag=step.flag)
            case Action.STOP_CONTROLLER:
                hands.ensure_spare(_node(step))
                hands.stop_controller(_node(step))
            case Action.RESTART_CONTROLLER:
                ensure(step.flag is not None, NAME, f"with or without the flag? {step.text}")
                hands.restart_controller(_node(step), flag=bool(step.flag))
            case Action.START_BROKER | Action.RESTART_BROKER:
                self._of_a_broker(step)
            case Action.REPAIR:
                self._repair(step)
            case Action.FINALISE:
                hands.finalise(self._asked)
                self._look_later()
            case Action.DIFF | Action.PREFLIGHT:
                self._look_later()
            case Action.NOTHING | Action.FORMAT | Action.ROLLBACK:
                raise Violated(NAME, f"leads elsewhere: {step.text}")

    def _of_a_broker(self, step: NextStep) -> None:
        """Start or restart it; if its machine is gone, do what the advice says of that."""
        command = f"if it is gone for good: kafka-cluster.sh unregister --id {step.node}"
        if step.node in self._world.lives.gone and command in step.why:
            self._hands.unregister(_node(step))
        elif step.action is Action.START_BROKER:
            self._hands.start_broker(_node(step), step.mode)
        else:
            self._hands.restart_broker(_node(step), step.mode)

    def _wait(self, step: NextStep) -> None:
        if not step.wait_for:
            self._look_later()
            return
        # ``status --wait`` ends as soon as something is to be done about a reason.
        for _ in range(WAIT_MS // MOMENT_MS):
            self._look_later()
            if self._moved(step):
                return

    def _moved(self, step: NextStep) -> bool:
        found = self._hands.document(self._asked)
        if found is None:
            return True
        return next_steps.next_steps(found)[0] != step

    def _repair(self, step: NextStep) -> None:
        if self._hands.repair(step):
            self._vain = 0
        elif not self._busy():
            self._vain += 1
            ensure(self._vain < VAIN_MAX, NAME, f"there is nothing to repair: {step.text}")
        self._look_later()

    def _look_later(self) -> None:
        self._hands.wait(lambda: False, MOMENT_MS)


def _over(step: NextStep) -> bool:
    """Brokers are restarted without the keys of the migration when it is over: here all end."""
    return step.action is Action.NOTHING or step.mode is BrokerMode.ZOOKEEPER


def _ends(step: NextStep) -> bool:
    """Whether this step may close the way back."""
    return step.action in NO_WAY_BACK or step.flag is False


def _node(step: NextStep) -> int:
    ensure(step.node is not None, NAME, f"of which node? {step.text}")
    assert step.node is not None
    return step.node
