"""Plays the phases of a rehearsal, and takes the figures of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.life.waits import RulingWatch
from bench.rehearsal.brokers import BrokerRefusedError
from bench.rehearsal.changes import AnsweredChange, RehearsalLoad
from bench.rehearsal.evidence import Evidence
from bench.rehearsal.phases import PHASES, Play, RehearsedPhase, all_run, resume
from bench.rehearsal.stage import ClusterFaultError, RehearsalStage, StuckError
from bench.rehearsal.verdict import FAILED, OF_THE_RUN, REHEARSED, PhaseFigures, Rehearsal
from bench.rehearsal.znodes import LoadedZnode, LoadError
from emulator.servers.process import ProcessError

REPLICAS_MAX: Final = 2
_TIMES: Final = 100
"""Load of one run is begun less often; topics have other names each time."""
_AS_KAFKA: Final = "errors"
"""The kind of repairs of which Kafka's controller does the same: none."""
_FAILURES: Final = (
    StuckError,
    ProcessError,
    LoadError,
    KazooException,
    KazooTimeoutError,
    OSError,  # with it TimeoutError
)
_WITHOUT_RULE: Final = frozenset(
    {"own files", "ZooKeeper mode", "wait", "copy", "rollback", "second attempt"}
)
"""Phases in which brokers in ZooKeeper mode rule for a time, which a stand-in does not do."""


class _Playing:
    """One run.

    Args:
        stage: its servers are not started.
        found: takes the figures.
        evidence: takes rows.
        note: takes lines of progress.
        earlier_s: seconds that an interrupted run took.
    """

    def __init__(
        self,
        stage: RehearsalStage,
        found: Rehearsal,
        evidence: Evidence,
        note: Callable[[str], None],
        earlier_s: float,
    ) -> None:
        self._stage = stage
        self._found = found
        self._evidence = evidence
        self._began_s = time.monotonic() - earlier_s
        self._told = {(one.kind, one.text) for one in found.reasons}
        self._answered: list[AnsweredChange] = []
        """Any thread may append one."""
        replicas = min(REPLICAS_MAX, len(stage.brokers.ids))
        self.load = RehearsalLoad(
            stage.brokers.bootstrap,
            found.load_per_s,
            replicas,
            self._answered.append,
            _TIMES * found.resumed,
        )
        self.play = Play(
            stage,
            self.load,
            found.load_per_s,
            note,
            differs=found.differences,
            lost=found.lost,
            refused=found.refused_nodes,
            assumed=found.assumed,
        )

    def now_s(self) -> float:
        """Seconds since the run began, as the evidence has them."""
        return round(time.monotonic() - self._began_s, 6)

    def phase(self, phase: RehearsedPhase, figures: PhaseFigures) -> bool:
        """Whether it came to its end."""
        stage, found = self._stage, self._found
        figures.begin_s = self.now_s()
        blocked_ms = stage.blocked.ms
        with RulingWatch(stage.ruling, time.monotonic) as watch:
            try:
                phase.act(self.play)
                all_run(self.play)
                figures.state = REHEARSED
            except BrokerRefusedError as error:
                found.refused_brokers.append(str(error))
                figures.state, figures.why = FAILED, str(error)
            except _FAILURES as error:
                figures.state, figures.why = FAILED, why(error)
                figures.in_cluster = isinstance(error, ClusterFaultError)
        if phase.name not in _WITHOUT_RULE:
            figures.without_controller_s = watch.without_controller_s
        if watch.quorum_s is not None:
            figures.lag_records, figures.lag_ms = watch.lag_records, watch.lag_ms
            figures.bound_records = stage.blocked.bound
            if stage.controllers is not None:
                stage.blocked.look(stage.controllers, now=True)
            figures.blocked_s = (stage.blocked.ms - blocked_ms) / 1_000
        status = stage.leading()
        figures.going_back = _going_back(status)
        self._repairs(status)
        figures.end_s = self.now_s()
        self._changes(figures)
        self._evidence.add("phase", **asdict(figures))
        self._reasons()
        return figures.state == REHEARSED

    def _reasons(self) -> None:
        """What was found against it since the last phase; each is a row."""
        for one in self._found.reasons:
            if one.kind in OF_THE_RUN and (one.kind, one.text) not in self._told:
                self._told.add((one.kind, one.text))
                self._evidence.add("reason", of=one.kind, text=one.text)

    def _repairs(self, status: Mapping[str, Any] | None) -> None:
        """What the controller that leads has repaired since the last phase; each is a row."""
        for text in repairs(status):
            if text not in self._found.repaired:
                self._found.repaired.append(text)
                self._evidence.add("repaired", text=text)

    def _changes(self, figures: PhaseFigures) -> None:
        """The changes that were answered in a phase; each is a row."""
        assert figures.begin_s is not None
        assert figures.end_s is not None
        waits = []
        for one in self._answered[:]:
            at_s, waited_s = round(one.at_s - self._began_s, 6), round(one.waited_s, 6)
            if figures.begin_s <= at_s < figures.end_s:
                row = {"answered_s": at_s, "waited_s": waited_s, "error": one.error}
                self._evidence.add("change", api=one.api, **row)
                if not one.error:
                    waits.append(waited_s)
        figures.changes, figures.longest_change_s = len(waits), max(waits, default=None)


def _unseen(_number: int) -> None:
    """Nobody is told."""


def play(
    stage: RehearsalStage,
    nodes: Sequence[LoadedZnode],
    found: Rehearsal,
    evidence: Evidence,
    note: Callable[[str], None],
    *,
    phases: Sequence[RehearsedPhase] = PHASES,
    begins: Callable[[int], None] = _unseen,
) -> None:
    """Play all phases; the first that fails leaves those behind it not rehearsed.

    Args:
        stage: its servers are not started.
        nodes: of the dump.
        found: takes the figures; phases that it has were rehearsed before an interruption.
        evidence: takes a row for each change and each phase.
        note: takes lines of progress.
        phases: in their order.
        begins: takes the number of each phase that begins, from 0 on.

    Raises:
        OSError: the evidence cannot be written.
    """
    done = len(found.phases)
    found.phases += [PhaseFigures(one.name, one.did) for one in phases[done:]]
    left = [*zip(found.phases, phases, strict=True)][done:]
    earlier_s = max((one.end_s or 0.0 for one in found.phases[:done]), default=0.0)
    playing = _Playing(stage, found, evidence, note, earlier_s)
    try:
        if _begun(playing, nodes, left[0], note, resumed=bool(done)):
            _played(playing, [*enumerate(left, done)], note, begins)
    finally:
        playing.load.abandon()
    for figures, _ in left:
        if figures.end_s is None:
            evidence.add("phase", **asdict(figures))


def _begun(
    playing: _Playing,
    nodes: Sequence[LoadedZnode],
    first: tuple[PhaseFigures, RehearsedPhase],
    note: Callable[[str], None],
    *,
    resumed: bool,
) -> bool:
    """Whether servers stand as they are to when the first phase begins."""
    figures, phase = first
    try:
        if not resumed or phase.standing is None:
            note(f"ZooKeeper takes {len(nodes):,} znodes")
            playing.play.stage.load(nodes)
        else:
            note(f"everything is started as it stood before '{phase.name}'")
            playing.play.stage.reload(len(nodes))
            resume(playing.play, phase.standing)
    except (*_FAILURES, BrokerRefusedError) as error:
        figures.state, figures.why = FAILED, why(error)
        figures.in_cluster = isinstance(error, ClusterFaultError)
        return False
    return True


def _played(
    playing: _Playing,
    left: Sequence[tuple[int, tuple[PhaseFigures, RehearsedPhase]]],
    note: Callable[[str], None],
    begins: Callable[[int], None],
) -> None:
    for number, (figures, one) in left:
        begins(number)
        if not playing.phase(one, figures):
            return
        note(f"{one.name}: {figures.seconds:.1f} s")


def _going_back(status: Mapping[str, Any] | None) -> str:
    """What it takes to go back now, as the controller that leads says it."""
    if status is None:
        return "nothing: brokers are in ZooKeeper mode, and no controller of ours runs"
    if status["migration"] is None:
        end = (status["finalisation"] or {}).get("state")
        if end == "finalised":
            return "there is no way back but an offline one, which loses every change made since"
        return "start the controllers with the flag again first, then as after the roll"
    return str(status["migration"]["going_back"]["text"])


def repairs(status: Mapping[str, Any] | None) -> Iterator[str]:
    """What a status says was repaired, where Kafka's own controller does otherwise."""
    migration = None if status is None else status["migration"]
    for one in [] if migration is None else migration.get("repairs", ()):
        if one["kind"] != _AS_KAFKA:
            what = f"{one['request']} of broker {one['broker']} failed"
            if one["broker"] < 0:
                what = f"ZooKeeper refused {one['request']}"
            yield f"{what}: {one['error']}: {one['done']}. Kafka's controller: {one['kafka']}"


def why(error: BaseException) -> str:
    r"""The text of an error in one line; many have none.

    >>> why(OSError("a\nb")), why(TimeoutError())
    ('a b', 'TimeoutError')
    """
    return " ".join(f"{error}".split()) or type(error).__name__
