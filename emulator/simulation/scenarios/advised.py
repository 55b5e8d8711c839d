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

from collections.abc import Callable
from random import Random
from typing import Any, Final

from emulator.operations import next_steps
from emulator.operations.next_steps import Action, BrokerMode, NextStep
from emulator.operations.rollback.course import Course, Wanted
from emulator.simulation.faults.troubles import TROUBLES
from emulator.simulation.scenarios.attempts import (
    DELAYS_US,
    LEVELS,
    OF_ONE,
    OF_THREE,
    OTHERS,
    SYNCS_US,
    Operator,
)
from emulator.simulation.scenarios.hands import MOMENT_MS, NAME, Hands
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated, ensure
from emulator.simulation.world import World

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
    """Takes one attempt as far as it goes; see the module's docstring.

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
                hands.start_controller(_node(step))
            case Action.STOP_CONTROLLER:
                hands.stop_controller(_node(step))
            case Action.RESTART_CONTROLLER:
                ensure(step.flag is not None, NAME, f"with or without the flag? {step.text}")
                hands.restart_controller(_node(step), flag=bool(step.flag))
            case Action.START_BROKER:
                hands.start_broker(_node(step), step.mode)
            case Action.RESTART_BROKER:
                hands.restart_broker(_node(step), step.mode)
            case Action.REPAIR:
                self._repair(step)
            case Action.FINALISE:
                hands.finalise(self._asked)
                self._look_later()
            case Action.DIFF | Action.PREFLIGHT:
                self._look_later()
            case Action.NOTHING | Action.FORMAT | Action.ROLLBACK:
                raise Violated(NAME, f"leads elsewhere: {step.text}")

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
    return step.action in NO_WAY_BACK or (
        step.action is Action.RESTART_CONTROLLER and step.flag is False
    )


def _node(step: NextStep) -> int:
    ensure(step.node is not None, NAME, f"of which node? {step.text}")
    assert step.node is not None
    return step.node
