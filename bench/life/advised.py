"""Walks a phase by the ``next`` of the verbs: each step is carried out, and the verb is run again.

Nothing else decides the order. A step that has no meaning on the way to the phase's end, or too
many of them, ends the walk with all that was advised.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bench.demo.controllers import IDS
from bench.life import commands
from bench.life.life import Life
from bench.life.stage import BROKERS, Stage
from bench.life.standing import Mode
from emulator.servers.process import ProcessError

STEPS_MAX: Final = 20
"""Steps of one phase that change something; with three brokers and controllers 9 are the most."""
LOOKS_MAX: Final = 300
"""Looks in a row that advise nothing but to look again."""
LOOK_S: Final = 1.0
"""Between two looks."""
Document: TypeAlias = Mapping[str, Any]
Back: TypeAlias = Callable[[Life, Callable[[Stage], str]], object]
"""Carries out the command that goes back, given as what types it, and judges what it prints."""


class AdviceError(ProcessError):
    """The advice does not lead to the end of the phase."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The end of a phase, and the way to it."""

    text: str
    ask: Callable[[Stage], Document]
    """The verb that an operator runs on this way."""
    reached: Callable[[Document], bool]
    mode: Mode
    """Of every broker at the end."""
    meanings: frozenset[str]
    """Steps that lead there, as :func:`kind` has them; beside these, looks."""


def kind(step: Document) -> str:
    """What is advised, without the node.

    >>> kind({"action": "restart_broker", "mode": "kraft", "flag": None, "wait_for": ""})
    'restart_broker kraft'
    """
    flag = "" if step["flag"] is None else "with flag" if step["flag"] else "without flag"
    return " ".join(filter(None, (step["action"], step["mode"], flag, step["wait_for"])))


def phase_of(document: Document) -> str:
    """The phase, or the verdict, that a verb shows."""
    if "said" in document:
        return str(document["said"][0])
    shown = document.get("phase") or document["stage"]
    return str(shown["text"] if "ahead" in shown else shown["name"])


def _in_kraft(brokers: int) -> Callable[[Document], bool]:
    text = f"dual write ({brokers} of {BROKERS} brokers in KRaft mode)"
    return lambda document: phase_of(document) == text


def _first(document: Document) -> str:
    return next((str(one["action"]) for one in document["next"]), "")


DUAL_WRITE: Final = Goal(
    "dual write, brokers in ZooKeeper mode",
    commands.advice_forward,
    _in_kraft(0),
    Mode.MIGRATING,
    frozenset(
        {
            "preflight",
            "format",
            "start_controller",
            "restart_broker migration",
            "wait dual-write-begun",
        }
    ),
)
IN_KRAFT: Final = Goal(
    "dual write, brokers in KRaft mode",
    commands.advice_forward,
    _in_kraft(BROKERS),
    Mode.KRAFT,
    frozenset({"diff", "restart_broker kraft"}),
)
BROKERS_BACK: Final = Goal(
    "nothing stands in the way back",
    commands.advice_back,
    lambda document: phase_of(document) == "dual write" and _first(document) == "rollback",
    Mode.MIGRATING,
    frozenset({"restart_broker migration"}),
)
BACK: Final = Goal(
    "ZooKeeper mode",
    commands.advice_back,
    lambda document: phase_of(document) == "rolled back" and _first(document) == "nothing",
    Mode.ZOOKEEPER,
    frozenset({"rollback", "restart_broker zookeeper"}),
)
FINAL: Final = Goal(
    "a final migration",
    commands.advice_to_end,
    lambda document: phase_of(document).startswith("FINAL:"),
    Mode.KRAFT,
    frozenset({"diff", "restart_controller without flag", "finalise", "wait final"}),
)
_LOOKS: Final = frozenset({"wait", "ask"})


def walk(
    life: Life,
    goal: Goal,
    then: Callable[[], None] = lambda: None,
    back: Back = lambda life, go: go(life.stage),
) -> None:
    """Do what is advised until the phase has come to its end.

    Args:
        life: whose servers are restarted.
        goal: of the phase.
        then: called after each restart of a broker.
        back: carries out the command that goes back.

    Raises:
        AdviceError: the advice leads elsewhere; with all of it.
        ProcessError, TimeoutError: as the steps that are carried out.
    """
    walking = _Walk(life, goal, then, back)
    while not goal.reached(document := goal.ask(life.stage)):
        walking.take(document)
    modes = [f"{number}: {one.mode}" for number, one in life.stage.standing.brokers.items()]
    there = len(life.stage.in_mode(goal.mode)) == BROKERS
    walking.ensure(there, f"the way to {goal.text} ends with brokers in modes {modes}")
    life.check(f"advice led to {goal.text}", held=True, figures=f"{walking.steps} steps")


class _Walk:
    """One walk; see :func:`walk`."""

    def __init__(self, life: Life, goal: Goal, then: Callable[[], None], back: Back) -> None:
        self._life, self._goal, self._then, self._back = life, goal, then, back
        self._stage = life.stage
        self._story: list[str] = []
        self._compared = ""
        """The phase in which both stores had the same, which no document can show."""
        self._restarted: set[tuple[int, str]] = set()
        self._checked = False
        self._looks = 0
        self.steps = 0
        """Steps that changed something."""

    def ensure(self, holds: bool, text: str) -> None:
        """Go on, or end with all that was advised.

        Raises:
            AdviceError: it does not hold.
        """
        if not holds:
            raise AdviceError("\n".join([text, "advised was:", *self._story]))

    def take(self, document: Document) -> None:
        """Carry out the step that may be taken now."""
        phase, steps = phase_of(document), document["next"]
        if steps and steps[0]["action"] == "diff" and phase == self._compared:
            steps = steps[1:]
        if not steps:
            self._look(f"{phase}: no step")
            return
        step, does = steps[0], kind(steps[0])
        text = ": ".join(filter(None, (phase, step["what"], step["why"])))
        if does in _LOOKS or self._is_so(step):
            self._look(text)
            return
        self._add(text)
        way = f"on the way to {self._goal.text}"
        known = step["node"] in {None, *IDS, *self._stage.standing.brokers}
        self.ensure(known and does in self._goal.meanings, f"no meaning {way}: {does}")
        self.ensure(self._is_safe(step), f"unsafe {way}: {does}")
        if does == "diff":
            self._compare(step, phase)
            return
        if does == "preflight":
            self.ensure(not self._checked, f"checked again and again {way}")
            self._checked = True
            self.take(commands.document(*shlex.split(step["command"])[1:]))
            return
        self.ensure(self.steps < STEPS_MAX, f"more than {STEPS_MAX} steps {way}")
        self.steps, self._looks = self.steps + 1, 0
        self._carry_out(step)

    def _add(self, text: str) -> None:
        if not self._story or self._story[-1] != text:
            self._story.append(text)
            self._life.print_line(f"  next: {text}")

    def _look(self, text: str) -> None:
        self._add(text)
        self._looks += 1
        self.ensure(self._looks < LOOKS_MAX, f"nothing else in {LOOKS_MAX} looks")
        time.sleep(LOOK_S)

    def _is_so(self, step: Document) -> bool:
        """Whether a server is as advised already, and it is a matter of time until that shows."""
        number = step["node"]
        match step["action"]:
            case "start_controller":
                return self._stage.controllers.nodes[number].alive
            case "start_broker":
                broker = self._stage.cluster.brokers[number]
                return broker.alive and self._stage.standing.brokers[number].mode == _mode(step)
            case "restart_broker":
                return (number, step["mode"]) in self._restarted
        return False

    def _is_safe(self, step: Document) -> bool:
        """Whether what cannot be undone, or leads there, is not advised too early."""
        if kind(step) == "restart_controller without flag":
            return len(self._stage.in_mode(Mode.KRAFT)) == BROKERS
        left = {*IDS} - {*self._stage.standing.without_flag}
        return step["action"] != "finalise" or not left

    def _carry_out(self, step: Document) -> None:
        stage, number, command = self._stage, step["node"], step["command"]
        match step["action"]:
            case "format" | "start_controller":
                stage.start_quorum()
            case "wait":
                # Code 1: something is to be done before, and is advised next.
                commands.run_line(stage, command, 0, 1)
            case "restart_broker":
                self._restarted.add((number, step["mode"]))
                self._life.restart(stage.cluster.brokers[number], _mode(step))
                self._then()
            case "restart_controller":
                self._life.restart_controller(
                    number,
                    "with the flag to without",
                    lambda: stage.standing.without_flag.append(number),
                )
            case "finalise":
                _, printed = commands.run_line(stage, command, FOLDER=self._folder())
                self._life.print_line(printed)
            case "rollback":
                self._back(self._life, lambda stage: commands.run_line(stage, command)[1])
            case other:
                raise AssertionError(f"{other} has a meaning and is not carried out")

    def _compare(self, step: Document, phase: str) -> None:
        """Compare both stores; while clients go on ZooKeeper is behind for a moment (code 1)."""
        code, printed = commands.run_line(self._stage, step["command"], 0, 1, FOLDER=self._folder())
        if code:
            # The first line says up to where each store was read; behind it is a line a znode.
            self._look(f"{phase}: they differ: {printed.splitlines()[0]}")
        else:
            self._compared = phase

    def _folder(self) -> str:
        """The folder of the controller that leads."""
        return str(self._stage.leader().data)


def _mode(step: Document) -> Mode:
    return {"zookeeper": Mode.ZOOKEEPER, "migration": Mode.MIGRATING, "kraft": Mode.KRAFT}[
        step["mode"]
    ]
