"""What an operator does next: from ``/status`` of a controller, a plan to go back, a preflight.

:func:`next_steps` reads a status, :func:`of_rollback` what ``rollback`` found and did,
:func:`of_preflight` the report of ``preflight``. The first step is the one that may be taken now;
those behind it come later, and none that would be unsafe now is among them. All are pure: the verbs
print what they return, and a program that takes the place of an operator calls the same functions.

The order of what is looked at in a status: voters that are down, who leads, what ZooKeeper refuses,
brokers that are refused or gone; then what the phase asks for (``migration/phases.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from emulator.config.words import folded
from emulator.config.zookeeper_mode import KEYS
from emulator.migration.phases import Ahead
from emulator.migration.side import BEHIND
from emulator.migration.taking_over.preconditions import Why
from emulator.operations.preflight.engine import Finding, Severity, printed
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import PreflightReport
from emulator.operations.preflight.stage import MigrationStage
from emulator.operations.preflight.survey import Survey
from emulator.operations.rollback.course import (
    CLEARED,
    EACH_FILE,
    START_AND_STOP,
    Course,
    files_of,
)
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.operations.rollback.situation import Situation

Document: TypeAlias = Mapping[str, Any]
"""``/status`` of a controller, as tools/status.toml describes it."""
FLAG: Final = "zookeeper.metadata.migration.enable"
FILE: Final = " -c FILE"
"""The option with which another node is asked whose address is not known."""


class Action(Enum):
    """Kinds of steps; the fields of :class:`NextStep` that each uses are in brackets."""

    NOTHING = "nothing"
    PREFLIGHT = "preflight"
    FORMAT = "format"
    ASK = "ask"
    """Ask another controller for its status (node)."""
    WAIT = "wait"
    """Wait (wait_for); without a phase: look again after a while."""
    START_CONTROLLER = "start_controller"
    """It does not answer: see that it runs, and is reached (node, flag; None: as it ran last)."""
    STOP_CONTROLLER = "stop_controller"
    """Stop it by SIGTERM (node)."""
    RESTART_CONTROLLER = "restart_controller"
    """Stop it by SIGTERM and start it (node, flag)."""
    START_BROKER = "start_broker"
    """It is registered and is not there: see that it runs, and is reached (node, mode)."""
    RESTART_BROKER = "restart_broker"
    """Stop and start it (node, mode)."""
    REPAIR = "repair"
    """Only an operator can: ``why`` says what is wrong and what to do (node: a broker, or None)."""
    DIFF = "diff"
    """Compare the two stores; whoever has done that says so (``compared``)."""
    FINALISE = "finalise"
    """End the hold, which makes the migration final."""
    ROLLBACK = "rollback"
    """Have the command go back, or say what is left."""


class BrokerMode(Enum):
    """The properties that a broker is started with."""

    ZOOKEEPER = "ZooKeeper mode"
    """As before the migration: without its keys."""
    MIGRATION = "ZooKeeper mode with the migration on"
    KRAFT = "KRaft mode"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step.

    ``why``: the reason, a sentence without a full stop. ``command``: what to type; empty: nothing
    of this program. ``node``: the id of a controller or broker. ``flag``: with or without
    ``zookeeper.metadata.migration.enable``. ``wait_for``: a value of ``status --wait``.
    ``problem``: something is not as it should be. ``now``: it may be taken now. ``no_way_back``: it
    makes the migration final, unless there is a hold.
    """

    action: Action
    why: str = ""
    command: str = ""
    node: int | None = None
    mode: BrokerMode | None = None
    flag: bool | None = None
    wait_for: str = ""
    problem: bool = False
    now: bool = True
    no_way_back: bool = False

    @property
    def what(self) -> str:
        """The step in words, without its reason."""
        return _WORDS[self.action](self)

    @property
    def text(self) -> str:
        """The step and its reason, in one line."""
        return ": ".join(part for part in (self.what, self.why) if part)


def _with_flag(step: NextStep) -> str:
    """How a controller is started."""
    return {True: f" with {FLAG}=true", False: f" without {FLAG}", None: ""}[step.flag]


_UNTIL: Final = MappingProxyType(
    {
        "dual-write-begun": "dual write begins",
        "all-brokers-in-kraft": "all brokers are in KRaft mode",
        "final": "the migration is final",
    }
)
"""What is waited for -> when that is over, in words."""
_WORDS: Final[Mapping[Action, Callable[[NextStep], str]]] = MappingProxyType(
    {
        Action.NOTHING: lambda _one: "nothing",
        Action.PREFLIGHT: lambda _one: "check the cluster before a migration",
        Action.FORMAT: lambda one: (
            "format each controller"
            if one.node is None
            else f"format controller {one.node}, and start it"
        ),
        Action.ASK: lambda one: f"ask controller {one.node}",
        Action.WAIT: lambda one: (
            f"wait until {_UNTIL[one.wait_for]}" if one.wait_for else "look again"
        ),
        Action.START_CONTROLLER: lambda one: f"start controller {one.node}{_with_flag(one)}",
        Action.STOP_CONTROLLER: lambda one: (
            "stop every controller"
            if one.node is None
            else f"stop controller {one.node}, by SIGTERM"
        ),
        Action.RESTART_CONTROLLER: lambda one: (
            f"restart controller {one.node}{_with_flag(one)}, by SIGTERM"
        ),
        Action.START_BROKER: lambda one: (
            f"start broker {one.node}" + ("" if one.mode is None else f" in {one.mode.value}")
        ),
        Action.RESTART_BROKER: lambda one: (
            f"restart broker {one.node}" + ("" if one.mode is None else f" in {one.mode.value}")
        ),
        Action.REPAIR: lambda one: "repair" if one.node is None else f"repair broker {one.node}",
        Action.DIFF: lambda _one: "compare the two stores",
        Action.FINALISE: lambda _one: "end the hold, which makes the migration final",
        Action.ROLLBACK: lambda _one: "go back to ZooKeeper mode",
    }
)


def as_json(steps: Iterable[NextStep]) -> list[dict[str, Any]]:
    """The member ``next`` of a verb's JSON."""
    return [
        {
            "action": one.action.value,
            "node": one.node,
            "mode": None if one.mode is None else one.mode.name.lower(),
            "flag": one.flag,
            "wait_for": one.wait_for,
            "what": one.what,
            "command": one.command,
            "why": one.why,
            "now": one.now,
            "no_way_back": one.no_way_back,
        }
        for one in steps
    ]


_LOOK: Final = "kraft-bridge status"
_BY_HAND: Final = frozenset(
    {
        Action.START_CONTROLLER,
        Action.STOP_CONTROLLER,
        Action.RESTART_CONTROLLER,
        Action.START_BROKER,
        Action.RESTART_BROKER,
        Action.REPAIR,
    }
)
"""Steps that ``kraft-bridge status`` does not do."""
_IN_A_ROW: Final = {Action.RESTART_BROKER: "broker", Action.RESTART_CONTROLLER: "controller"}
"""Later steps that are one line for several nodes."""


def lines(steps: Sequence[NextStep], width: int = 0) -> list[str]:
    """What a verb prints: the step to take now, what to type, and what comes later.

    A comparison of the stores is printed above the step behind it, as what is checked first: it
    changes nothing, and nothing but its output shows that it was made.

    Args:
        steps: the first may be taken now.
        width: columns in which steps are wrapped, and never what is to be typed; 0: nothing is.
    """
    if not steps:
        return []
    first, *later = steps
    check: list[str] = []
    if first.action is Action.DIFF and later:
        check = [f"first check, it must print EQUAL: {first.command}"]
        first, *later = later
    found = [*check, *_wrapped(f"next: {first.text}", width), *_typed(first)]
    found += ["later:"] if later else []
    for some in _in_a_row(later):
        found += _wrapped(f"  {_text_of(some)}", width)
        found += [f"    {line}" for line in _typed(some[0])]
    return found


def _wrapped(text: str, width: int) -> list[str]:
    """A step in lines, indented below its first word.

    >>> _wrapped("next: wait for the others", 16)
    ['next: wait for', '      the others']
    """
    return folded(text, width, "      " if text.startswith("next: ") else "    ").split("\n")


def _typed(step: NextStep) -> list[str]:
    """What to type for a step, or to see afterwards what came of it."""
    if not step.command:
        return []
    looks = step.action in _BY_HAND and step.command.startswith(_LOOK)
    looks = looks and not step.command.endswith(FILE)  # of other controllers, which is the step
    return [f"{'then look again' if looks else 'type'}: {step.command}"]


def _in_a_row(steps: Iterable[NextStep]) -> list[list[NextStep]]:
    """Steps that follow each other and differ in their nodes alone, together."""
    found: list[list[NextStep]] = []
    for one in steps:
        if found and one.action in _IN_A_ROW and _same(found[-1][0], one):
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _same(one: NextStep, other: NextStep) -> bool:
    named = (one.action, one.mode, one.flag, one.command)
    alike = named == (other.action, other.mode, other.flag, other.command)
    return alike and other.why in {"", one.why}


def _text_of(steps: list[NextStep]) -> str:
    first = steps[0]
    if len(steps) == 1:
        return first.text
    noun = _IN_A_ROW[first.action]
    ids = ", ".join(str(one.node) for one in steps)
    return first.text.replace(f"{noun} {first.node}", f"{noun}s {ids}", 1)


def verdict(status: Document, steps: tuple[NextStep, ...]) -> str:
    """The first line: whether anything is wrong, and the phase with Kafka's name of it."""
    phase = status["phase"]
    driver = f" [{phase['driver_state']}]" if phase["driver_state"] else ""
    first = steps[0]
    how = "PROBLEM" if first.problem else "WAIT" if first.action is Action.WAIT else "OK"
    return f"{how}: {phase['text']}{driver}"


def next_steps(
    status: Document,
    *,
    asked: str = "",
    compared: bool = False,
    leader_url: str = "",
    files: Mapping[int, str] = MappingProxyType({}),
) -> tuple[NextStep, ...]:
    """The step to take now, first, and those that come later, in their order; never empty.

    Args:
        status: of a controller; of one that does not lead the step is to ask the one that does.
        asked: the options with which it was asked, such as `` --url http://h:1``; empty: none.
        compared: whether ``zk diff`` found no difference in this phase; the document cannot show
            that.
        leader_url: where the controller that leads shows its status; empty: it is not known.
        files: the properties files of controllers by their node ids, as far as they were given.
    """
    looking = _Looking(status, asked, leader_url, files, compared=compared)
    found = looking.steps()
    first, *others = found
    return (first, *(_later(one) for one in others))


def known_leader(status: Document) -> int | None:
    """Who leads, as a controller shows; one that led before names itself until one is elected."""
    leader: int | None = status["leader_id"]
    led = leader == status["node_id"] and status["quorum"].get("state") in LED_BEFORE
    return None if led else leader


def led_by(status: Document, step: NextStep) -> str:
    """Who leads instead of the controller asked, or the step that comes before asking that one.

    Args:
        status: of a controller that does not lead.
        step: its first, which may name another node.
    """
    leader = known_leader(status)
    if leader is None:
        return "no leader is known"
    if step.action is Action.START_CONTROLLER:
        return f"first {step.what}"
    return f"ask node {leader}, which leads"


def _later(step: NextStep) -> NextStep:
    return replace(step, now=False)


Meeting: TypeAlias = tuple[Action, BrokerMode | None, bool | None]
"""The action, the mode of a broker, and whether a controller has the flag."""
_REPAIR: Final[Meeting] = (Action.REPAIR, None, None)
BY_REASON: Final[Mapping[Why, Meeting]] = MappingProxyType(
    {
        Why.NO_SESSION: _REPAIR,
        Why.METADATA_VERSION: _REPAIR,
        Why.MIGRATION_STATE: _REPAIR,
        Why.CONTROLLER_NOT_READY: (Action.RESTART_CONTROLLER, None, True),
        Why.NO_BROKERS: _REPAIR,
        Why.BROKER_NOT_REGISTERED: (Action.RESTART_BROKER, BrokerMode.MIGRATION, None),
        Why.BROKER_NOT_MIGRATING: (Action.RESTART_BROKER, BrokerMode.MIGRATION, None),
        Why.OFFLINE_REPLICAS: (Action.START_BROKER, BrokerMode.MIGRATION, None),
        Why.MALFORMED_ZNODE: _REPAIR,
        Why.NO_CONTROLLER_EPOCH: _REPAIR,
        Why.MIGRATION_ZNODE: _REPAIR,
        Why.OTHER_CLUSTER: _REPAIR,
        Why.OTHER_LOG: _REPAIR,
        Why.CONTROLLER_HELD: _REPAIR,
        Why.ZOOKEEPER_MODE_TOOK_OVER: (Action.ROLLBACK, None, None),
        Why.STALE_CONTROLLER_EPOCH: _REPAIR,
        Why.UNREADABLE: _REPAIR,
        Why.ENCODED: _REPAIR,
        Why.NO_LISTENER: _REPAIR,
        Why.BROKER_UNREACHABLE: (Action.START_BROKER, BrokerMode.MIGRATION, None),
        Why.BROKER_SLOW: _REPAIR,
    }
)
"""What is done about each reason to wait."""
WHAT_TO_DO: Final[Mapping[Why, str]] = MappingProxyType(
    {
        Why.NO_SESSION: "see that ZooKeeper runs, and is reached from here",
        Why.NO_BROKERS: "start the brokers, in ZooKeeper mode with the migration on",
        Why.OFFLINE_REPLICAS: "if it is gone for good: move its replicas to other brokers "
        "(kafka-reassign-partitions.sh)",
        Why.BROKER_UNREACHABLE: "if it is gone for good: kafka-cluster.sh unregister --id NODE",
    }
)
"""For reasons whose own text does not say it; NODE: the broker's id."""
_BY_VALUE: Final = {why.value: meeting for why, meeting in BY_REASON.items()}
_KNOWN: Final = {one.value: one for one in Ahead}
PLAN_BACK: Final = "kraft-bridge rollback --config FILES"

# Refusals of brokers: codes and texts of Kafka's ClusterControlManager.registerBroker.
DUPLICATE: Final = "DUPLICATE_BROKER_REGISTRATION"
NOT_REGISTERED: Final = "BROKER_ID_NOT_REGISTERED"
IN_A_SESSION: Final = frozenset({DUPLICATE, "INCONSISTENT_CLUSTER_ID"})
"""What another process is refused with while a broker of its id has a session."""
NO_ZOOKEEPER_BROKERS: Final = "Controller does not support registering ZK brokers."
NO_DIRECTORIES: Final = "No directories specified in request"
"""Of a broker below 3.7, before it is asked which levels it supports."""
NAMED_BY_ERROR: Final = "Correct what the error names in the broker's properties, and restart it."
ELECTION_MS: Final = 10_000
"""An election takes 1 to 3 s by Kafka's defaults; after so long something prevents it."""
TRIES_S: Final = 60
"""How long a broker tries to register, then it ends: initial.broker.registration.timeout.ms.

A controller tries for ever; after so long somebody has to look."""
SESSION_TRIES: Final = 12
"""A broker tries again after 0.1, 0.2, 0.4 … s, broker.session.timeout.ms at most. So many tries
outlast the session of its last process, unless that is alive."""
HOLD: Final = "kraftbridge.finalise.hold"
NEED_FLAG: Final = frozenset({"zookeeper_broker", "no_mark"})
"""What is missing and can come only while a controller with the flag leads."""
LED_BEFORE: Final = frozenset({"resigned", "unattached", "candidate"})
"""The states of a voter that names itself as leader, and has not been elected again."""
ENDING: Final = frozenset({Ahead.END_HOLD, Ahead.FINISH})
"""What is ahead where a controller without the flag leads, or the one that shows it runs so."""
AFTER_COPY: Final = frozenset(
    {Ahead.START_BROKERS, Ahead.ROLL_BROKERS, Ahead.ROLL_CONTROLLERS, Ahead.END_HOLD, Ahead.FINISH}
)


LINES_OF_FORMAT: Final = "with the lines that kraft-bridge format printed (runbook, step 2)"
"""How a broker is to be restarted: the flag alone is not enough, Kafka ends without the others."""


def unregistered(reason: Document) -> bool:
    """Whether a broker is missing that has not tried to register with the controllers."""
    untried = f"broker {reason['subject']} (known from "
    absent = reason["why"] == Why.BROKER_NOT_REGISTERED.value
    return absent and str(reason["text"]).startswith(untried)


def if_down(reason: Document) -> str:
    """What to do about a broker that is missing and does not run; empty: ZooKeeper shows it."""
    known_from = str(reason["text"]).partition("(known from ")[2].partition(")")[0]
    if not unregistered(reason) or "/brokers/ids" in known_from:
        return ""
    left = WHAT_TO_DO[Why.OFFLINE_REPLICAS]
    if "replica assignments" not in known_from:
        left = f"if it is gone for good: delete /config/brokers/{reason['subject']}"
    return f"it does not run: it is absent from /brokers/ids; {left}"


_AGAIN: Final = NextStep(
    Action.FORMAT,
    "for a second attempt, once all brokers run as before step 2 of the runbook: stop the "
    "controllers, remove their folders, format each, and start none yet; then, with the same "
    "files, kraft-bridge rollback --yes --clear, and begin again with step 1",
    "kraft-bridge format -c FILE --new-quorum",
)
"""What comes last after a rollback, in the words of the runbook."""


class _Looking:
    """One look at one document; see :func:`next_steps`."""

    def __init__(
        self,
        status: Document,
        asked: str,
        leader_url: str,
        files: Mapping[int, str],
        *,
        compared: bool,
    ) -> None:
        self._leader_url, self._files = leader_url, files
        self._status, self._asked, self._compared = status, asked, compared
        self._migration: Document = status.get("migration") or {}
        self._end: Document = status.get("finalisation") or {}
        self._own = int(status["node_id"])
        self._quorum: Document = status["quorum"]
        self._leader = known_leader(status)
        self._ahead = _KNOWN.get(status["phase"]["ahead"])
        self._look = f"kraft-bridge status{asked}"
        self._shown_at = status.get("shown_at")

    def steps(self) -> list[NextStep]:
        """At least one."""
        if self._ahead is Ahead.NOTHING:
            refused = self._refusals() if self._leader == self._own else []
            found = [*self._down(), *self._without_leader(), *refused]
            final = self._status["phase"]["name"] == "final"
            why = "the migration is done; ZooKeeper may be stopped" if final else ""
            return [*found, NextStep(Action.NOTHING, why)][:1]
        found = [*self._down(), *self._without_leader()][:1]
        if found and self._ahead is not Ahead.SEE_ROLLBACK:  # none is started again then
            return found
        if self._leader not in {self._own, None}:
            why = "it leads, and it alone knows what the migration waits for"
            where = f" --url {self._leader_url}" if self._leader_url else self._file(self._leader)
            return [NextStep(Action.ASK, why, f"kraft-bridge status{where}", self._leader)]
        found = self._of_the_leader()
        return self._unheard(found[0]) or found

    def _unheard(self, step: NextStep) -> list[NextStep]:
        """Instead of the restart of a controller: a new leader does not know whether others run."""
        if step.action is not Action.RESTART_CONTROLLER:
            return []
        others = [v for v in self._quorum["voters"] if v["id"] not in {step.node, self._own}]
        silent = [one for one in others if one["last_fetch"] is None]
        return [
            self._wait(why=f"controller {one['id']} may be down: {one['why_not']}")
            for one in silent[:1]
        ]

    def _of_the_leader(self) -> list[NextStep]:
        first = [*self._refused_by_zookeeper(), *self._refusals()][:1]
        if first:
            return first
        match self._ahead:
            case Ahead.PREFLIGHT:
                where = self._zookeeper()
                command = f"kraft-bridge preflight --zookeeper {where}"
                return [NextStep(Action.PREFLIGHT, "nothing is migrated here", command)]
            case Ahead.MEET:
                return self._met() or [self._repair("see the log of this controller")]
            case Ahead.WAIT:
                return [self._wait("dual-write-begun", 600)]
            case Ahead.SET_FLAG:
                why = "the log waits for a migration, and this controller runs without the flag"
                return [self._controller(self._own, flag=True, why=why, problem=True)]
            case Ahead.SEE_ROLLBACK:
                why = "the cluster is in ZooKeeper mode again"
                left = NextStep(Action.ROLLBACK, "it shows what is left to do", self._plan_back())
                return [NextStep(Action.STOP_CONTROLLER, why, problem=True), left, _AGAIN]
            case Ahead.RECOVER:
                why = self._migration.get("deposed_because") or "see the log of this controller"
                return [NextStep(Action.REPAIR, why, self._diff_command(), problem=True)]
            case Ahead.START_BROKERS:
                return self._met() or [self._repair("no broker is registered: start the brokers")]
            case Ahead.ROLL_BROKERS:
                return self._settle() or self._roll_brokers()
            case Ahead.ROLL_CONTROLLERS:
                return self._settle() or self._roll_controllers()
            case Ahead.END_HOLD | Ahead.FINISH:
                return self._finish()
            case Ahead.NOTHING | None:
                return [self._wait(why="this release does not know the phase")]

    def _wait(self, phase: str = "", timeout_s: int = 600, why: str = "") -> NextStep:
        command = f"{self._look} --wait {phase} --timeout {timeout_s}" if phase else self._look
        return NextStep(Action.WAIT, why, command, wait_for=phase)

    def _repair(self, why: str, broker: int | None = None) -> NextStep:
        return NextStep(Action.REPAIR, why, self._look, broker, problem=True)

    def _controller(
        self, node: int, *, flag: bool, why: str, problem: bool = False, last: bool = False
    ) -> NextStep:
        """Restart one; ``last``: afterwards no controller has the flag."""
        action = Action.RESTART_CONTROLLER
        return NextStep(
            action, why, "", node, flag=flag, problem=problem, no_way_back=last and not flag
        )

    def _zookeeper(self) -> str:
        """The connect string with its chroot; of an earlier release that is not known."""
        found = (self._migration.get("zookeeper") or {}).get("connect")
        return quote(str(found)) if found else "HOST:PORT/CHROOT"

    def _file(self, node: int | None) -> str:
        """The option with the file of a controller, as far as it is known."""
        name = self._files.get(node) if node is not None else None
        return FILE if name is None else f" -c {quote(name)}"

    def _plan_back(self) -> str:
        """To plan the way back, with the files of all controllers."""
        if not self._files:
            return PLAN_BACK
        names = [quote(one) for one in self._files.values()]
        if any(one["id"] not in self._files for one in self._quorum["voters"]):
            names.append(EACH_FILE)
        return "".join(["kraft-bridge rollback", *(f" -c {one}" for one in names)])

    def _folder(self) -> str:
        """The option with the folder of the controller that was asked."""
        return f" --log-dir {quote(str(self._status.get('log_dir') or 'FOLDER'))}"

    def _diff_command(self) -> str:
        return f"kraft-bridge zk diff --zookeeper {self._zookeeper()}{self._folder()}"

    def _down(self) -> Iterator[NextStep]:
        """Voters that do not answer: without a majority nothing goes on, and none is to spare."""
        for voter in self._quorum["voters"]:
            if not voter["answers"]:
                flag, why = self._started_with(voter)
                command = f"kraft-bridge controller{self._file(voter['id'])}"
                yield NextStep(
                    Action.START_CONTROLLER,
                    why,
                    command,
                    voter["id"],
                    flag=flag,
                    problem=True,
                    no_way_back=flag is False and self._is_last(voter),
                )

    def _started_with(self, voter: Document) -> tuple[bool | None, str]:
        """Whether one that is down is started with the flag, and why.

        Near the end that decides: once no voter has it nothing else keeps the migration open.
        """
        why = f"it does not answer at {voter['endpoint']}: {voter['why_not']}"
        if self._ahead not in ENDING:
            return None, why
        if self._leader != self._own:
            return None, (
                f"with {FLAG} or without, as it ran last: once no controller has it the migration "
                f"is final and cannot be undone, unless the next leader has a hold; {why}"
            )
        needs = [one for one in self._end.get("missing", ()) if one["why"] in NEED_FLAG]
        if needs:
            return True, f"{needs[0]['text']}; this needs a leader with the flag; {why}"
        if not self._is_last(voter):
            return False, why
        last = f"this is the last restart. {self._end_of_it()}"
        return False, f"{last} (to go back instead, start it with the flag)"

    def _is_last(self, voter: Document) -> bool:
        """Whether no controller has the flag, once one that is down is started without it."""
        if self._ahead not in ENDING or self._leader != self._own:
            return False
        others = [one for one in self._quorum["voters"] if one["id"] != voter["id"]]
        left = [one for one in others if one["migration_flag"] is not False]
        return not left and voter["migration_flag"] is not False

    def _end_of_it(self) -> str:
        """Whether the last restart is final: each process has its own hold, the next leader too."""
        hold = self._end.get("hold")
        if hold is None:
            return "Whether hold is on is not known, so treat it as final: it cannot be undone"
        if hold:
            return (
                f"Hold is on at controller {self._own} ({HOLD}=true); only if it is on at the next "
                "leader too can you still go back afterwards"
            )
        return (
            f"Hold is off at controller {self._own}, so it is final and cannot be undone. To keep "
            f"a way back, first set {HOLD}=true in the file of each controller, which reads it "
            "when it starts"
        )

    def _without_leader(self) -> Iterator[NextStep]:
        """How to get a leader: a voter without its log grants no vote before it knows one."""
        several = len(self._quorum["voters"]) > 1
        if self._leader is not None or not (several or self._migration):
            return
        if self._quorum["voter_state"] != "unknown":
            leaderless_ms = self._quorum.get("leaderless_ms")
            if leaderless_ms is not None and leaderless_ms < ELECTION_MS:
                why = f"no leader is known for {leaderless_ms / 1000:.1f} s: an election goes on"
                yield NextStep(Action.WAIT, why, self._look)
                return
            yield NextStep(
                Action.REPAIR,
                "no leader is known: see that a majority of the controllers runs and that they "
                "reach each other; the status of each of the others says whether it was formatted "
                "without --new-quorum: then it votes for nobody",
                f"kraft-bridge status{FILE}",
                problem=True,
            )
            return
        yield NextStep(
            Action.REPAIR,
            "no leader is known: if no controller of this quorum has ever led, stop each of them, "
            "format it and start it; if this one's disk was replaced or emptied, start the others, "
            "which hold the log",
            f"kraft-bridge format{self._file(self._own)} -t {self._status['cluster_id']} "
            "--new-quorum "
            "--ignore-formatted",
            problem=True,
        )

    def _refused_by_zookeeper(self) -> Iterator[NextStep]:
        ends = self._ahead is Ahead.ROLL_CONTROLLERS
        for one in self._migration.get("poisoned", ()):
            if ends or not one["skipped"]:
                yield self._repair(f"ZooKeeper refuses {one['znode']}: {one['remedy']}")

    def _refusals(self) -> list[NextStep]:
        """About brokers that are refused: those that only an operator can help first."""
        left = (one for one in self._status.get("refusals", ()) if not self._is_over(one))
        return sorted(map(self._refused, left), key=lambda one: one.action is Action.WAIT)

    def _is_over(self, refusal: Document) -> bool:
        """Whether its broker has registered since, or it is cured by what the phase asks for.

        A broker is active only in its session, and within one Kafka refuses another process by the
        codes of ``IN_A_SESSION`` alone. What another leader registers does not clear this list.
        """
        code, broker = refusal["error"], self._registered(refusal["broker"])
        if self._runs_in_zookeeper_mode(refusal):
            return not self._tries(refusal) if broker is None else not broker["fenced"]
        if code == NOT_REGISTERED and refusal["text"] == NO_ZOOKEEPER_BROKERS:
            flags = {one["id"]: one["migration_flag"] for one in self._quorum["voters"]}
            return flags.get(self._own) is False
        if code == DUPLICATE and self._is_voter(refusal["broker"]):
            return False
        tries = self._tries(refusal)
        if broker is None or broker["fenced"]:
            return code == DUPLICATE or (self._copied(refusal) and not tries)
        return not (tries and code in IN_A_SESSION)

    def _refused(self, refusal: Document) -> NextStep:
        code, broker, text = refusal["error"], refusal["broker"], refusal["text"]
        if self._runs_in_zookeeper_mode(refusal):
            mode, why = BrokerMode.KRAFT, "it was started in ZooKeeper mode, which is refused now"
            return NextStep(Action.RESTART_BROKER, why, "", broker, mode, problem=True)
        if self._copied(refusal):
            why = f"broker {broker} was refused before all was copied: it registers by itself"
            return self._wait(why=why)
        if code == DUPLICATE and not self._is_voter(broker) and refusal["times"] < SESSION_TRIES:
            return self._wait(
                why=f"broker {broker} is refused ({code}) until the session of its last process "
                "ends, which it does by itself (broker.session.timeout.ms)"
            )
        if text == NO_DIRECTORIES:
            level = self._status["metadata_version"]["name"]
            remedy = f"Run it with a release that supports metadata.version {level}."
        else:
            remedy = refusal["remedy"]
        named = f"{code}: {text}" if remedy == NAMED_BY_ERROR or not remedy else code
        return self._repair(f"it is refused ({named}): {remedy}".removesuffix(": "), broker)

    def _runs_in_zookeeper_mode(self, refusal: Document) -> bool:
        """Whether its broker was restarted in ZooKeeper mode after all had left it."""
        by_mode = refusal["error"] == NOT_REGISTERED and refusal["text"] == NO_ZOOKEEPER_BROKERS
        return by_mode and self._ahead in {*ENDING, Ahead.NOTHING}

    def _registered(self, broker_id: int) -> Document | None:
        return next((one for one in self._status["brokers"] if one["id"] == broker_id), None)

    def _is_voter(self, node_id: int) -> bool:
        return any(one["id"] == node_id for one in self._quorum["voters"])

    def _copied(self, refusal: Document) -> bool:
        """Whether a broker in KRaft mode was refused before the copy, which is complete by now."""
        early = refusal["error"] == NOT_REGISTERED and refusal["text"] != NO_ZOOKEEPER_BROKERS
        return early and self._ahead in AFTER_COPY

    def _tries(self, refusal: Document) -> bool:
        """Whether the broker that was refused may be trying on; if it is not known, it may."""
        return self._is_recent(refusal["at"])

    def _soon_ready(self, reason: Document) -> bool:
        """Whether a controller that is not ready has the flag: after an election all register."""
        named = (one for one in self._quorum["voters"] if str(one["id"]) == reason["subject"])
        return any(one["migration_flag"] for one in named) and self._is_recent(reason["since"])

    def _is_recent(self, at: object) -> bool:
        """Whether it is less than a minute ago; if it is not known, it may be."""
        try:
            then, now = (datetime.fromisoformat(str(x)) for x in (at, self._shown_at))
            return (now - then).total_seconds() <= TRIES_S
        except (TypeError, ValueError):
            return True

    def _met(self) -> list[NextStep]:
        """What is done about the reasons to wait, those that waiting cannot remove first."""
        found = sorted(self._migration.get("waiting", ()), key=lambda one: not one["fatal"])
        return [self._meets(one) for one in found]

    def _meets(self, reason: Document) -> NextStep:
        action, mode, flag = _BY_VALUE.get(reason["why"], _REPAIR)
        if action is Action.RESTART_CONTROLLER and self._soon_ready(reason):
            return self._wait(why=f"{reason['text']}; it runs with {FLAG}, so wait a moment")
        problem = bool(reason["fatal"]) or action in {Action.REPAIR, Action.START_BROKER}
        subject = reason["subject"]
        node = int(subject) if subject.isdecimal() else None
        if node is None and action is not Action.ROLLBACK:
            action, mode, flag = _REPAIR
        command = self._plan_back() if action is Action.ROLLBACK else self._look
        do = {each.value: text for each, text in WHAT_TO_DO.items()}.get(reason["why"], "")
        why = f"{reason['text']}: {do.replace('NODE', subject)}" if do else reason["text"]
        if unregistered(reason):
            level = self._status["metadata_version"]["name"]
            why = f"{LINES_OF_FORMAT}; its inter.broker.protocol.version must be {level}"
            if down := if_down(reason):
                action, problem, why = Action.START_BROKER, True, f"{why}; {down}"
        return NextStep(action, why, command, node, mode, flag, problem=problem)

    def _settle(self) -> list[NextStep]:
        """What must be settled before anything is restarted in dual write."""
        if found := self._met():
            return found
        for broker in self._status["brokers"]:
            if broker["fenced"] or broker["in_controlled_shutdown"]:
                mode = BrokerMode.MIGRATION if broker["kind"] == "zookeeper" else BrokerMode.KRAFT
                why = (
                    "it is fenced: bring it back before another one is restarted; if it is gone "
                    f"for good: kafka-cluster.sh unregister --id {broker['id']}"
                )
                return [NextStep(Action.START_BROKER, why, "", broker["id"], mode, problem=True)]
        for voter in self._quorum["voters"]:
            if not voter["ready"]:
                why = f"voter {voter['id']} is not ready: {voter['why_not']}"
                return [self._wait(why=why)]
        if self._migration["compared_at"] is None or self._migration["lag"]["records"] is None:
            return [self._wait(why="the two stores are being compared")]
        return []

    def _roll_brokers(self) -> list[NextStep]:
        for voter in self._quorum["voters"]:
            if voter["migration_flag"] is False:
                why = "brokers are in ZooKeeper mode, and it could not serve them if it led"
                return [self._controller(voter["id"], flag=True, why=why, problem=True)]
        brokers = self._status["brokers"]
        left = [one["id"] for one in brokers if one["kind"] == "zookeeper"]
        one_by_one = (
            "with its third file (runbook, step 4), one at a time; the next one only when every "
            "replica is in sync"
        )
        found = [
            NextStep(Action.RESTART_BROKER, "" if at else one_by_one, "", each, BrokerMode.KRAFT)
            for at, each in enumerate(left)
        ]
        if len(left) == len(brokers) and not self._compared:
            why = "before the first broker is restarted in KRaft mode"
            found.insert(0, NextStep(Action.DIFF, why, self._diff_command()))
        return [*found, self._wait("all-brokers-in-kraft", 3600)]

    def _roll_controllers(self) -> list[NextStep]:
        why = self._end.get("no_mark_because")
        if why and why != BEHIND:
            return [self._wait(why=f"ZooKeeper is not known to have everything: {why}")]
        found: list[NextStep] = []
        if not self._compared:
            why = "before the end of the migration; until then you can go back"
            found.append(NextStep(Action.DIFF, why, self._diff_command()))
        voters = [one["id"] for one in self._quorum["voters"] if one["migration_flag"] is not False]
        voters.sort(key=lambda each: each == self._own)
        why = f"one by one, the leader last; the last one decides. {self._end_of_it()}"
        if len(voters) == 1:
            why = f"this is the last restart. {self._end_of_it()}"
        for at, each in enumerate(voters):
            last = each == voters[-1]
            found.append(self._controller(each, flag=False, why="" if at else why, last=last))
        return [*found, self._wait("final")]

    def _finish(self) -> list[NextStep]:
        """At a leader without the flag."""
        missing: dict[str, list[Document]] = {}
        for one in self._end.get("missing", ()):
            missing.setdefault(one["why"], []).append(one)
        with_flag = missing.get("controller_with_flag", [])
        needs_flag = [*missing.get("zookeeper_broker", ()), *missing.get("no_mark", ())]
        # While it refuses, registrations in the log are old: what a voter answers counts.
        flagged = [one["id"] for one in self._quorum["voters"] if one["migration_flag"]]
        if needs_flag and flagged:
            leads = f"controller {flagged[0]} has {FLAG}=true and will lead"
            return [self._wait(why=self._end.get("waits_for") or leads)]
        if needs_flag:
            others = [one["id"] for one in self._quorum["voters"] if one["id"] != self._own]
            node = next(iter(others), self._own)
            why = f"{needs_flag[0]['text']}; this needs a leader with the flag"
            return [self._controller(node, flag=True, why=why, problem=True)]
        open_ = [*missing.get("controller_unknown", ()), *with_flag]
        for one in open_:
            last, node = len(open_) == 1 and "held" not in missing, int(one["subject"])
            return [self._controller(node, flag=False, why=one["text"], last=last)]
        if self._ahead is Ahead.END_HOLD:
            known = self._own in self._files  # its file names the folder
            where = self._file(self._own) if known else f"{self._asked}{self._folder()}"
            command = f"kraft-bridge finalise{where} --yes"
            why = "nothing else is missing; it cannot be undone"
            ends = NextStep(Action.FINALISE, why, command, no_way_back=True)
            return [ends, self._wait("final")]
        return [self._wait("final")]


_ORDER: Final = ("R01", "R02", "R03", "R08", "R05", "R04", "R07", "R06")
"""Blockers in the order in which something is done about them."""
_RUN_AGAIN: Final = "it can be run again at any point"


def of_rollback(course: Course) -> tuple[NextStep, ...]:
    """The step to take now, first, and those that come later, on the way back to ZooKeeper mode.

    Args:
        course: what was planned, or what came of it.
    """
    files = "--config FILES" if course.seen is None else files_of(course.seen)
    command = f"kraft-bridge rollback {files}{' --clear' if course.clear else ''} --yes"
    if course.refused:
        found = _unblocked(course, f"kraft-bridge rollback {files}")
    elif course.busy:
        names = ", ".join(one.text.removeprefix("controller ") for one in course.busy)
        why = f"{names} by SIGTERM, then repeat"
        found = [NextStep(Action.STOP_CONTROLLER, why, command, problem=True)]
    elif course.failed and not _nobody_to_elect(course):
        found = _to_write_what_is_missing(course)
        found += [
            NextStep(Action.ROLLBACK, f"{course.failed}; {_RUN_AGAIN}", command, problem=True)
        ]
    else:
        found = _back(course, command)
    first, *others = found
    return (first, *(_later(one) for one in others))


def _back(course: Course, command: str) -> list[NextStep]:
    """Where nothing stands in the way."""
    match course.phase if not course.did or course.seen is None else phase_of(course.seen):
        case RollbackPhase.NOT_BEGUN:
            return [NextStep(Action.NOTHING, "no migration was begun")]
        case RollbackPhase.PRE_MIGRATION | RollbackPhase.COPYING:
            return [NextStep(Action.ROLLBACK, f"nothing would be lost; {_RUN_AGAIN}", command)]
        case RollbackPhase.DUAL_WRITE:
            why = "no change would be lost: it waits until ZooKeeper has every one"
            return [
                *_left_out(course.seen),
                NextStep(Action.ROLLBACK, f"{why}; {_RUN_AGAIN}", command),
            ]
        case RollbackPhase.RELEASED if _nobody_to_elect(course):
            why = "start a broker in ZooKeeper mode: the first one that is started is elected"
            return [NextStep(Action.REPAIR, why, command, problem=True)]
        case RollbackPhase.RELEASED:
            why = "no broker is the controller yet; it waits until one is"
            return [NextStep(Action.ROLLBACK, why, command)]
        case _:
            return _after(course, command)


def _to_write_what_is_missing(course: Course) -> list[NextStep]:
    """The command has stopped the controllers, and a log has what ZooKeeper lacks."""
    if course.seen is None or START_AND_STOP not in course.failed:
        return []
    ids = (one.node_id for one in course.seen.controllers if one.node_id is not None)
    return [_start(one, "a log has changes that are not in ZooKeeper") for one in ids]


def _nobody_to_elect(course: Course) -> bool:
    """/controller was given back, and no broker runs in ZooKeeper mode."""
    seen = course.seen
    released = course.phase is RollbackPhase.RELEASED
    return released and seen is not None and not seen.survey.live_brokers


def _left_out(seen: Situation | None) -> list[NextStep]:
    """Controllers that do not run while others do and have no leader, so that none can write."""
    if seen is None or not seen.running or seen.leader is not None:
        return []
    down = (one.node_id for one in seen.controllers if one.runs is False)
    return [_start(one, "no controller leads") for one in down if one is not None]


def _start(node_id: int, why: str) -> NextStep:
    command = "kraft-bridge controller -c FILE"
    return NextStep(Action.START_CONTROLLER, why, command, node_id, problem=True)


def _after(course: Course, command: str) -> list[NextStep]:
    """A broker is the controller again."""
    seen = course.seen
    if seen is None:
        return [NextStep(Action.NOTHING)]
    found = [
        NextStep(Action.STOP_CONTROLLER, "the cluster is rolled back", node=one.node_id)
        for one in seen.running
        if one.node_id is not None
    ]
    if not seen.marked and seen.mine is not None:
        why = "/kraft_bridge is not marked yet, so that a controller might claim again"
        found.append(NextStep(Action.ROLLBACK, why, command))
    why = f"one at a time, without {KEYS}; this can wait"
    found += [
        NextStep(Action.RESTART_BROKER, "" if at else why, "", each, BrokerMode.ZOOKEEPER)
        for at, each in enumerate(seen.with_keys)
    ]
    if CLEARED in course.did:
        why = "for a second attempt begin with kraft-bridge preflight (runbook, step 1)"
        return found or [NextStep(Action.NOTHING, why)]
    why = "the cluster is in ZooKeeper mode, and each broker has registered again since"
    return [*(found or [NextStep(Action.NOTHING, why)]), _AGAIN]


def _unblocked(course: Course, command: str) -> list[NextStep]:
    """What is done about the blockers, in order; then it is planned again."""
    found: list[NextStep] = []
    seen = course.seen
    leader = None if seen is None else seen.leader
    restarts = {one.code for one in course.refused} & {"R04", "R05"}
    for voter, why in leader.voters_down if leader is not None and restarts else ():
        start = "kraft-bridge controller -c FILE"
        found.append(NextStep(Action.START_CONTROLLER, why, start, voter, problem=True))
    refused = [one for one in course.refused if one.code in _ORDER]
    for one in sorted(refused, key=lambda each: _ORDER.index(each.code)):
        found += _about(one, seen)
    again = NextStep(Action.ROLLBACK, "then plan the way back again", command)
    final = course.phase is RollbackPhase.FINALISED
    return found[:1] if final else [*found, again]


def _about(one: Finding, seen: Situation | None) -> list[NextStep]:
    """The steps about one blocker."""
    why = f"{printed(one.code)}: {one.fact}"
    if one.code == "R01":
        return [NextStep(Action.NOTHING, "stay in KRaft mode", problem=True)]
    if one.code == "R05" and seen is not None and seen.without_flag is not None:
        return [
            NextStep(Action.RESTART_CONTROLLER, why, "", each.node_id, flag=True, problem=True)
            for each in seen.running
            if each.node_id is not None
        ]
    broker = one.znode.removeprefix("/brokers/ids/")
    if one.code == "R04" and broker.isdecimal():
        if not _alive(int(broker), seen):
            why += f"; if it is gone for good: kafka-cluster.sh unregister --id {broker}"
        return [NextStep(Action.RESTART_BROKER, why, "", int(broker), BrokerMode.MIGRATION)]
    return [NextStep(Action.REPAIR, f"{why}; {one.remedy}", problem=True)]


def _alive(broker: int, seen: Situation | None) -> bool:
    """Whether the leader's status shows that a broker runs; False too if it is not known."""
    leader = None if seen is None else seen.leader
    status = None if leader is None else leader.status
    known = [] if status is None else status.get("brokers", [])
    return any(one["id"] == broker and one.get("fenced") is False for one in known)


GRAVEST_FIRST: Final = tuple(
    "B20 B04 B14 B03 B13 B02 B01 B07 B06 B08 B09 B18 B05 B25 B23 B24 B26 B12 B15 B16 B22 B21 B19 "
    "B11 B10 B17".split()
)
"""Blockers of a preflight in the order in which they are cured; see :func:`of_preflight`."""


def of_preflight(report: PreflightReport, asked: str = "OPTIONS") -> tuple[NextStep, ...]:
    """The step to take now, first: about the gravest blocker, else what the phase asks for.

    A blocker is graver than those that mean something only once it is cured. So first: is it the
    right tree, of the right cluster (B20, B04)? Has it lost its topics, or does somebody else
    migrate it, or did (B14, B03, B13, B02)? What cannot be read there (B01, B07), and what the copy
    would stop at (B06, B08, B09)? Then the nodes: who they are (B18, B05), whether each starts with
    its file (B25, B23, B24), the controllers (B12, B15), how nodes reach each other (B16, B22, B21,
    B19), the brokers (B11, B10); last the files for KRaft mode, which are used last (B17).

    Args:
        report: what was found.
        asked: the options of the command line.
    """
    again = f"kraft-bridge preflight {asked}"
    blockers = [one for one in report.findings if one.severity is Severity.BLOCKER]
    if blockers and not report.final:
        order = {code: at for at, code in enumerate(GRAVEST_FIRST)}
        blockers.sort(key=lambda one: order.get(one.code, len(order)))
        first, *others = (
            NextStep(
                Action.REPAIR,
                f"{printed(one.code)} {one.znode}: {one.remedy or one.fact}",
                problem=True,
            )
            for one in blockers
        )
        # Those that need the same are one step.
        texts = dict.fromkeys(one.why.partition(": ")[2] for one in others)
        texts.pop(first.why.partition(": ")[2], None)
        why = "until no blocker is left, with the same options"
        last = NextStep(Action.PREFLIGHT, why, again)
        more = f"{len(texts)} more kinds of blockers below"
        later = [NextStep(Action.REPAIR, more, problem=True)] if texts else []
        return (first, *(_later(one) for one in (*later, last)))
    first, *others = _of_stage(report, again)
    return (first, *(_later(one) for one in others))


def _of_stage(report: PreflightReport, again: str) -> list[NextStep]:
    """What the phase asks for, where nothing blocks it."""
    survey = report.survey
    files = "".join(f" -c {quote(one.name)}" for one in survey.controllers)
    status = f"kraft-bridge status{files or FILE}"
    match report.standing.stage:
        case MigrationStage.NOT_BEGUN if report.incomplete:
            why = (
                f"with the files of its controllers and brokers: {len(report.not_run)} checks need "
                "them; of a production cluster make a copy first (your-own-cluster.md, step 2)"
            )
            return [NextStep(Action.PREFLIGHT, why, f"{again} -c FILES")]
        case MigrationStage.NOT_BEGUN:
            return _of_new_controllers(survey, again, status)
        case MigrationStage.PREPARED | MigrationStage.UNDER_WAY:
            begun = "dual-write-begun"
            command = f"{status} --wait {begun} --timeout 600"
            return [NextStep(Action.WAIT, "", command, wait_for=begun)]
        case MigrationStage.DUAL_WRITE:
            return [NextStep(Action.WAIT, "the controllers say what is next", status)]
        case MigrationStage.FINALISED:
            why = "the migration is final, and nobody writes ZooKeeper any more"
            left = sorted(survey.live_brokers)
            found = [
                NextStep(Action.RESTART_BROKER, why, "", one, BrokerMode.KRAFT, problem=True)
                for one in left
            ]
            return found or [NextStep(Action.NOTHING, "ZooKeeper may be stopped")]
        case _:
            why = "see in which phase the cluster is"
            command = f"kraft-bridge rollback{files or ' --config FILES'}"
            return [NextStep(Action.ROLLBACK, why, command, problem=True)]


def _of_new_controllers(survey: Survey, again: str, status: str) -> list[NextStep]:
    """Format those that are not, as far as that is known here; then start them."""
    files = survey.controllers
    if any(one.end_offset for one in survey.folders):
        return [NextStep(Action.WAIT, "a controller has run: its status says what is next", status)]
    seen = {one.node_id for one in survey.folders}
    fresh = [one for one in files if one.node_id not in seen and "cluster.id" not in one.meta]
    unseen = [one for one in files if one.node_id not in seen and one not in fresh]
    if fresh:
        why = "no check found a blocker"
        return _one_each(fresh, Action.FORMAT, why, "kraft-bridge format -c {} --new-quorum")
    if unseen:
        folders = "".join(f" --controller-dir {quote(one.log_dir or 'FOLDER')}" for one in unseen)
        return [NextStep(Action.PREFLIGHT, "with the formatted folders", f"{again}{folders}")]
    why = "it is formatted, and no check found a blocker"
    return _one_each(files, Action.START_CONTROLLER, why, "kraft-bridge controller -c {}")


def _one_each(
    files: Sequence[Properties], action: Action, why: str, command: str
) -> list[NextStep]:
    """A step for each controller; the first one has the reason."""
    return [
        NextStep(action, "" if at else why, command.replace("{}", quote(one.name)), one.node_id)
        for at, one in enumerate(files)
    ]
