"""The phases of a rehearsal, in order: each is one thing that an operator does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bench.eta import Step
from bench.rehearsal.changes import RehearsalLoad
from bench.rehearsal.plan import BrokerMode
from bench.rehearsal.stage import ClusterFaultError, RehearsalStage, StuckError
from emulator.servers.bridge import Bridge
from emulator.servers.waiting import PATIENCE_S

LOAD_S: Final = 20.0
"""How long dual write is held under load and churn."""
AFTER_S: Final = 5.0
"""How long changes go on behind a kill or the end, so that some are answered there."""
SHUTDOWN_S: Final = 300.0
_POLL_S: Final = 0.2
_FATAL_S: Final = 5.0
"""A reason that waiting does not remove is believed after so long."""
_REFUSED_TIMES: Final = 2
_COMPARED_TIMES: Final = 5
_STAYS: Final = frozenset(
    {
        "encoded_value",
        "malformed_znode",
        "metadata_version",
        "migration_state",
        "migration_znode",
        "no_brokers",
        "no_controller_epoch",
        "no_listener",
        "other_cluster",
        "other_log",
    }
)
"""Kinds of reasons that nobody removes in a rehearsal (docs/status.md, Reasons to wait)."""
_STAYS_FROM_THE_START: Final = frozenset(
    {"migration_znode", "no_controller_epoch", "other_cluster", "other_log"}
)
"""Those of them that are not said while brokers are only about to register."""
_STAYS_ELSEWHERE: Final = frozenset({"broker_not_registered", "offline_replicas"})
"""The same, if they are about a broker that is not started."""


@dataclass(slots=True)
class Play:
    """What a phase acts on.

    ``churn_per_s``: changes of ISRs. ``note``: takes a line of progress. ``differs``: takes what a
    comparison of both stores found, ``lost`` changes that were not carried out, ``refused`` nodes
    that do not take part with files of their own, ``assumed`` what could not be shown of them.
    """

    stage: RehearsalStage
    load: RehearsalLoad
    churn_per_s: float
    note: Callable[[str], None]
    differs: list[str]
    lost: list[str]
    refused: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


class Takes(NamedTuple):
    """Seconds that a phase is thought to take, as measured on two cores.

    ``fixed_s``: in any case. ``broker_s``: for each broker. ``thousand_s``: for each 1,000
    partitions. ``both_s``: for each broker and each 1,000 partitions. ``waited_s``: by the clock,
    on any machine.
    """

    fixed_s: float
    broker_s: float = 0.0
    thousand_s: float = 0.0
    both_s: float = 0.0
    waited_s: float = 0.0

    def step(self, brokers: int, partitions: int) -> Step:
        """The same of one rehearsal."""
        thousands = partitions / 1_000
        each = self.broker_s + self.both_s * thousands
        return Step(
            self.fixed_s + brokers * each + self.thousand_s * thousands, waited_s=self.waited_s
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rehearsal stands when a phase begins, so that it can be begun again.

    ``mode``: of every broker; None: none runs. ``attempt``: the last one, 0 before the first.
    ``ruled``: its controllers run. ``loaded``: changes are asked for. ``held``: the controllers run
    without the flag, and hold the end.
    """

    mode: BrokerMode | None
    attempt: int = 1
    ruled: bool = True
    loaded: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class RehearsedPhase:
    """One row of the table.

    ``did``: what an operator does in it. ``standing``: None if everything begins with it.
    """

    name: str
    did: str
    act: Callable[[Play], None]
    takes: Takes
    standing: Standing | None = None


def own_files(play: Play) -> None:
    """Every node of which there is a file starts with it, and migrates without a topic."""
    if play.stage.own is None:
        return
    found = play.stage.own.play(play.stage.folder, play.note)
    play.refused += found.refused
    play.assumed += [f"that Kafka's nodes take part with {one}" for one in found.unseen]


def zookeeper_mode(play: Play) -> None:
    """Every broker starts as it is in production."""
    stage = play.stage
    for number in stage.brokers.ids:
        stage.brokers.begin(number, BrokerMode.ZOOKEEPER, stage.around)
    all_run(play)


def wait(play: Play) -> None:
    """Controllers are formatted and started; brokers restart with the migration on, one by one."""
    play.stage.plan_quorum()
    play.stage.format_quorum()
    _start_quorum(play)
    _roll(play, BrokerMode.MIGRATION)


def _start_quorum(play: Play) -> None:
    play.stage.start_quorum()
    for number, node in play.stage.quorum.nodes.items():
        play.note(f"controller {number}: live page at {node.url}/")


def copy(play: Play) -> None:
    """The metadata is copied, until each change is written to both stores."""
    _until(play, "dual write", lambda status: _driver(status) == "DUAL_WRITE")
    _whole(play)


def dual_write(play: Play) -> None:
    """Administrative load and changes of ISRs, for 20 s; then every follower catches up."""
    stage = play.stage
    play.load.begin()
    stage.brokers.churn(play.churn_per_s)
    _hold(play, LOAD_S)
    stage.brokers.churn(0)
    _whole(play)


def leader_killed(play: Play) -> None:
    """The leading controller is killed, and started again."""
    old, new, took_s = play.stage.quorum.replace()
    play.note(f"controller {old} was killed; {took_s:.1f} s later controller {new} wrote to both")
    _hold(play, AFTER_S)


def to_kraft(play: Play) -> None:
    """Every broker restarts in KRaft mode, one by one."""
    _roll(play, BrokerMode.KRAFT)


def from_kraft(play: Play) -> None:
    """And back in ZooKeeper mode with the migration on, one by one."""
    _roll(play, BrokerMode.MIGRATION)


def rollback(play: Play) -> None:
    """The command gives ``/controller`` back; brokers restart as they were before."""
    stage = play.stage
    if not stage.is_rolled_back():
        play.lost += play.load.end()
        _compare(play)
        stage.verb("rollback", "--yes", "-c", *stage.files)
    for number in stage.brokers.ids:
        # There is nobody whom a broker could ask for a controlled shutdown.
        stage.brokers.kill(number)
    for number in stage.brokers.ids:
        _session_ends(play, number)
        stage.brokers.begin(number, BrokerMode.ZOOKEEPER, stage.around)
    all_run(play)


def again(play: Play) -> None:
    """A new quorum; what the first attempt left is cleared, and dual write begins again."""
    stage = play.stage
    stage.plan_quorum()
    stage.format_quorum()
    if stage.is_rolled_back():
        stage.verb("rollback", "--yes", "--clear", "-c", *stage.files)
    _start_quorum(play)
    _roll(play, BrokerMode.MIGRATION)
    copy(play)


def roll(play: Play) -> None:
    """Every broker restarts in KRaft mode under load, one by one."""
    play.load.begin()
    _roll(play, BrokerMode.KRAFT)
    play.lost += play.load.end()
    _compare(play)


def hold(play: Play) -> None:
    """Controllers restart without the flag, the leading one last; the end is held."""
    stage = play.stage
    play.load.begin()
    left = [*stage.quorum.nodes]
    while left:
        leader = _until(play, "a controller that leads", lambda _status: True)["node_id"]
        number = next((one for one in left if one != leader), left[0])
        node = stage.quorum.nodes[number]
        node.stop(PATIENCE_S)
        _held(node)
        node.start().wait_started()
        _has_the_log(play, number)
        left.remove(number)
    _until(play, "the hold", lambda status: (status["finalisation"] or {}).get("state") == "held")
    _hold(play, AFTER_S)


def _held(node: Bridge) -> None:
    """At its next start a controller is without the flag, and holds the end."""
    node.zk = None
    node.extra["kraftbridge.finalise.hold"] = "true"


def finalise(play: Play) -> None:
    """The hold is ended, and ZooKeeper too; changes go on."""
    stage = play.stage
    status = _until(play, "a controller that leads", lambda _status: True)
    if not _is_final(status):
        stage.verb("finalise", "-c", str(stage.quorum.nodes[status["node_id"]].config), "--yes")
    _until(play, "the end of the migration", _is_final)
    stage.end_zookeeper()
    _hold(play, AFTER_S)
    play.lost += play.load.end()


def _is_final(status: Mapping[str, Any]) -> bool:
    return (status["finalisation"] or {}).get("state") == "finalised"


_BEFORE: Final = Standing(BrokerMode.ZOOKEEPER, attempt=0, ruled=False)
_MIGRATING: Final = Standing(BrokerMode.MIGRATION)
_UNDER_LOAD: Final = Standing(BrokerMode.MIGRATION, loaded=True)
_ROLLED: Final = Standing(BrokerMode.KRAFT, loaded=True)
_GIVEN_BACK: Final = Standing(None, ruled=False)
_BACK: Final = Standing(BrokerMode.ZOOKEEPER, ruled=False)
_AGAIN: Final = Standing(BrokerMode.MIGRATION, attempt=2)
_ALL_KRAFT: Final = Standing(BrokerMode.KRAFT, attempt=2)
_HELD: Final = Standing(BrokerMode.KRAFT, attempt=2, loaded=True, held=True)
PHASES: Final = (
    RehearsedPhase(
        "own files",
        "nodes start with their files, without topics",
        own_files,
        Takes(8.0, broker_s=0.2),
    ),
    RehearsedPhase("ZooKeeper mode", "brokers as they are", zookeeper_mode, Takes(0.5)),
    RehearsedPhase(
        "wait",
        "controllers start; brokers restart with the migration on",
        wait,
        Takes(5.4, broker_s=0.15),
        _BEFORE,
    ),
    RehearsedPhase("copy", "the metadata is copied", copy, Takes(0.5, thousand_s=0.07), _MIGRATING),
    RehearsedPhase(
        "dual write",
        "load and changes of ISRs",
        dual_write,
        Takes(0.5, waited_s=LOAD_S),
        _MIGRATING,
    ),
    RehearsedPhase(
        "leader killed",
        "SIGKILL to the leading controller",
        leader_killed,
        Takes(4.0, waited_s=AFTER_S),
        _UNDER_LOAD,
    ),
    RehearsedPhase(
        "to KRaft mode",
        "brokers restart in KRaft mode",
        to_kraft,
        Takes(5.0, broker_s=0.85, both_s=0.17),
        _UNDER_LOAD,
    ),
    RehearsedPhase(
        "and back",
        "brokers restart in ZooKeeper mode",
        from_kraft,
        Takes(5.0, broker_s=0.45, both_s=0.12),
        _ROLLED,
    ),
    RehearsedPhase(
        "rollback",
        "kraft-bridge rollback --yes; brokers as they were",
        rollback,
        Takes(4.0, thousand_s=3.8, waited_s=16.0),  # until the sessions of killed brokers end
        _UNDER_LOAD,
    ),
    RehearsedPhase(
        "second attempt",
        "a new quorum, to dual write",
        again,
        Takes(5.0, broker_s=0.2, thousand_s=2.0),
        _BACK,
    ),
    RehearsedPhase(
        "roll",
        "brokers restart in KRaft mode",
        roll,
        Takes(5.0, broker_s=0.85, both_s=0.17),
        _AGAIN,
    ),
    RehearsedPhase(
        "hold",
        "controllers restart without the flag",
        hold,
        Takes(2.5, broker_s=0.09, waited_s=AFTER_S),
        _ALL_KRAFT,
    ),
    RehearsedPhase(
        "finalise",
        "kraft-bridge finalise --yes",
        finalise,
        Takes(1.0, waited_s=AFTER_S),
        _HELD,
    ),
)


def resume(play: Play, standing: Standing) -> None:
    """Start everything as it stood when a phase began, from the folders of an earlier run.

    Raises:
        StuckError: it does not come to that.
    """
    stage = play.stage
    if standing is _UNDER_LOAD and stage.is_rolled_back():
        standing = _GIVEN_BACK  # it was interrupted behind the command
    for number in stage.brokers.ids:
        _session_ends(play, number)
    if standing.attempt:
        stage.keep_quorum(standing.attempt)
    if standing.held:
        for node in stage.quorum.nodes.values():
            _held(node)
    if standing.ruled:
        _start_quorum(play)
        _wait(play, "end of the brokers' sessions", lambda: _all_fenced(play))
    if standing.mode is None:
        return
    for number in stage.brokers.ids:
        stage.brokers.begin(number, standing.mode, stage.around)
    all_run(play)
    for number in stage.brokers.ids if standing.ruled else ():
        _serves(play, number, standing.mode)
    _whole(play)
    if standing.loaded:
        play.load.begin()


# ---------------------------------------------------------------- steps
def _roll(play: Play, mode: BrokerMode) -> None:
    """Restart each broker in a mode; each is waited for until its replicas are in sync."""
    stage = play.stage
    for number in stage.brokers.ids:
        stage.brokers.end(number, SHUTDOWN_S)
        stage.brokers.begin(number, mode, stage.around)
        _runs(play, number)
        _serves(play, number, mode)
        _whole(play)
        play.note(f"broker {number} is in {mode.value}")


def _serves(play: Play, number: int, mode: BrokerMode) -> None:
    """Wait until the quorum has it in this mode; until the copy is done it is not unfenced."""
    kind = "kraft" if mode is BrokerMode.KRAFT else "zookeeper"

    hopeless = _Hopeless(play)

    def serves() -> bool:
        status = play.stage.leading()
        if status is None:
            hopeless.look()
            return False
        copied = _driver(status) in {"DUAL_WRITE", ""}
        return any(
            one["id"] == number and one["kind"] == kind and not (copied and one["fenced"])
            for one in status["brokers"]
        )

    _wait(play, f"broker {number} in service", serves)


def all_run(play: Play) -> None:
    """Wait until every broker runs and is registered, as at the end of each phase.

    Raises:
        StuckError: one has ended, or the quorum refuses it.
    """
    for number in play.stage.brokers.ids:
        _runs(play, number)


def _runs(play: Play, number: int) -> None:
    """Wait until a broker runs and is registered where it is to be.

    Raises:
        StuckError: it ended, or the quorum refuses it.
    """
    brokers = play.stage.brokers
    hopeless = _Hopeless(play, _STAYS_FROM_THE_START)

    def runs() -> bool:
        if why := brokers.ended(number):
            raise StuckError(f"broker {number} ended: {why}")
        if not brokers.absent(number):
            return True
        _refused(play, number)
        if play.stage.leading() is None:
            hopeless.look()
        return False

    _wait(play, f"broker {number}", runs)


def _refused(play: Play, number: int) -> None:
    status = play.stage.leading()
    for one in [] if status is None else status["refusals"]:
        if one["broker"] == number and one["times"] >= _REFUSED_TIMES:
            raise ClusterFaultError(
                f"broker {number} is refused: {one['error']}: {one['text']} {one['remedy']}".strip()
            )


def _all_fenced(play: Play) -> bool:
    """Whether the quorum has noticed that the brokers of an earlier run are gone."""
    status = play.stage.leading()
    return status is not None and all(one["fenced"] for one in status["brokers"])


def _session_ends(play: Play, number: int) -> None:
    path = f"/brokers/ids/{number}"
    _wait(play, f"end of {path}", lambda: play.stage.client.exists(path) is None)


def _whole(play: Play) -> None:
    """Wait until every replica of a broker that is here is in sync."""
    _wait(play, "replicas in sync", lambda: play.stage.brokers.short() == 0)


def _has_the_log(play: Play, number: int) -> None:
    """Wait until a controller has what is committed now: the next one may end then."""
    status = _until(play, "a controller that leads", lambda _status: True)
    end = status["offsets"]["high_watermark"]
    play.stage.quorum.nodes[number].wait_status(
        "the log of the others", lambda seen: bool(seen["offsets"]["high_watermark"] >= end)
    )


def _hold(play: Play, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        play.stage.check_servers()
        time.sleep(_POLL_S)


def _driver(status: dict[str, Any]) -> str:
    migration = status["migration"]
    return "" if migration is None else str(migration["driver_state"])


def _until(play: Play, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the status of the controller that leads is as wanted, and return it.

    Raises:
        StuckError: it says that waiting does not help.
    """
    found: list[dict[str, Any]] = []
    since: list[float] = []
    hopeless = _Hopeless(play)

    def ready() -> bool:
        status = play.stage.leading()
        if status is None:
            hopeless.look()
            return False
        if reached(status):
            found.append(status)
            return True
        found_fatal = fatal(status, play.stage.brokers.ids)
        if not found_fatal:
            since.clear()
        elif not since:
            since.append(time.monotonic())
        elif time.monotonic() - since[0] > _FATAL_S:
            raise ClusterFaultError("; ".join(found_fatal))
        return False

    _wait(play, what, ready)
    return found[-1]


class _Hopeless:
    """Looks at controllers of which none is active: ZooKeeper may refuse every one of them.

    Args:
        play: whose stage is looked at.
        kinds: of reasons that count; empty: these, and each that waiting alone does not remove.
            After a rollback controllers have such a reason, and brokers do well without them.
    """

    def __init__(self, play: Play, kinds: frozenset[str] = frozenset()) -> None:
        self._play = play
        self._kinds = kinds
        self._since_s: float | None = None

    def look(self) -> None:
        """Once more.

        Raises:
            StuckError: a reason that waiting does not remove was there long enough.
        """
        found = [
            str(one["text"])
            for status in self._play.stage.statuses()
            for one in (status["migration"] or {}).get("waiting", ())
            if one["why"] in _STAYS_FROM_THE_START or (one["fatal"] and not self._kinds)
        ]
        now_s = time.monotonic()
        self._since_s = (self._since_s or now_s) if found else None
        if self._since_s is not None and now_s - self._since_s > _FATAL_S:
            raise ClusterFaultError("; ".join(dict.fromkeys(found)))


def fatal(
    status: Mapping[str, Any], ids: Sequence[int], passes: Collection[str] = ()
) -> Sequence[str]:
    """Reasons to wait that nobody removes here: also what an operator could repair.

    Args:
        status: of a controller.
        ids: of the brokers that are started.
        passes: kinds that will pass now.
    """
    migration = status["migration"]
    waiting = [] if migration is None else migration["waiting"]
    return [
        str(one["text"])
        for one in waiting
        if one["fatal"] or (one["why"] not in passes and _stays(one, ids))
    ]


def _stays(reason: dict[str, Any], ids: Sequence[int]) -> bool:
    elsewhere = str(reason["subject"]) not in map(str, ids)
    return reason["why"] in _STAYS or (reason["why"] in _STAYS_ELSEWHERE and elsewhere)


def _wait(play: Play, what: str, ready: Callable[[], bool]) -> None:
    """Wait for what must come, with a generous end.

    Raises:
        StuckError: it does not come.
        ProcessError: a server ended by itself.
    """
    end = time.monotonic() + PATIENCE_S
    while not ready():
        play.stage.check_servers()
        if time.monotonic() > end:
            raise StuckError(f"no {what} within {PATIENCE_S:g} s")
        time.sleep(_POLL_S)


def _compare(play: Play) -> None:
    """Compare both stores, once ZooKeeper has everything."""
    stage = play.stage
    _until(play, "lag 0", lambda status: status["migration"]["lag"]["records_without_no_ops"] == 0)
    status = _until(play, "a controller that leads", lambda _status: True)
    folder = str(stage.quorum.nodes[status["node_id"]].data)
    words = ["zk", "diff", "--json", "-c", stage.files[0]]
    words += ["--zookeeper", stage.zk.hosts, "--log-dir", folder]
    paths: list[str] = []
    for _ in range(_COMPARED_TIMES):
        # Brokers may change an ISR in the moment between the two readings.
        found = json.loads(stage.verb(*words, codes=(0, 1)))
        paths = [one["path"] for one in found["differences"]]
        if not paths:
            return
        time.sleep(1)
    play.differs.append(f"{len(paths)} znodes differ from the log, such as {paths[0]}")
