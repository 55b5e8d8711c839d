"""Plays the phases of a rehearsal, and takes the figures of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.life.waits import RulingWatch
from bench.rehearsal.brokers import BrokerRefusedError
from bench.rehearsal.changes import AnsweredChange, RehearsalLoad
from bench.rehearsal.evidence import Evidence
from bench.rehearsal.phases import PHASES, Play, RehearsedPhase, all_run
from bench.rehearsal.stage import RehearsalStage, StuckError
from bench.rehearsal.verdict import FAILED, REHEARSED, PhaseFigures, Rehearsal
from bench.rehearsal.znodes import LoadedZnode, LoadError
from emulator.servers.process import ProcessError

REPLICAS_MAX: Final = 2
_FAILURES: Final = (
    StuckError,
    ProcessError,
    LoadError,
    KazooException,
    KazooTimeoutError,
    OSError,  # with it TimeoutError
)
_WITHOUT_RULE: Final = frozenset({"ZooKeeper mode", "wait", "copy", "rollback", "second attempt"})
"""Phases in which brokers in ZooKeeper mode rule for a time, which a stand-in does not do."""


class _Playing:
    """One run.

    Args:
        stage: its servers are not started.
        found: takes the figures.
        evidence: takes rows.
        note: takes lines of progress.
    """

    def __init__(
        self,
        stage: RehearsalStage,
        found: Rehearsal,
        evidence: Evidence,
        note: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._found = found
        self._evidence = evidence
        self._began_s = time.monotonic()
        self._answered: list[AnsweredChange] = []
        """Any thread may append one."""
        replicas = min(REPLICAS_MAX, len(stage.brokers.ids))
        self.load = RehearsalLoad(
            stage.brokers.bootstrap, found.load_per_s, replicas, self._answered.append
        )
        self._play = Play(stage, self.load, found.load_per_s, note, found.differences, found.lost)

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
                phase.act(self._play)
                all_run(self._play)
                figures.state = REHEARSED
            except BrokerRefusedError as error:
                found.refused_brokers.append(str(error))
                figures.state, figures.why = FAILED, str(error)
            except _FAILURES as error:
                figures.state, figures.why = FAILED, why(error)
        if phase.name not in _WITHOUT_RULE:
            figures.without_controller_s = watch.without_controller_s
        if watch.quorum_s is not None:
            figures.lag_records, figures.lag_ms = watch.lag_records, watch.lag_ms
            figures.bound_records = stage.blocked.bound
            if stage.controllers is not None:
                stage.blocked.look(stage.controllers, now=True)
            figures.blocked_s = (stage.blocked.ms - blocked_ms) / 1_000
        figures.going_back = _going_back(stage)
        figures.end_s = self.now_s()
        self._changes(figures)
        return figures.state == REHEARSED

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
        found: takes the figures.
        evidence: takes a row for each change and each phase.
        note: takes lines of progress.
        phases: in their order.
        begins: takes the number of each phase that begins, from 0 on.

    Raises:
        OSError: the evidence cannot be written.
    """
    found.phases = [PhaseFigures(one.name, one.did) for one in phases]
    note(f"ZooKeeper takes {len(nodes):,} znodes")
    try:
        stage.load(nodes)
    except _FAILURES as error:
        found.phases[0].state, found.phases[0].why = FAILED, why(error)
    else:
        _played(_Playing(stage, found, evidence, note), found, note, phases, begins)
    for one in found.phases:
        evidence.add("phase", **asdict(one))


def _played(
    playing: _Playing,
    found: Rehearsal,
    note: Callable[[str], None],
    phases: Sequence[RehearsedPhase],
    begins: Callable[[int], None],
) -> None:
    try:
        for number, (figures, one) in enumerate(zip(found.phases, phases, strict=True)):
            begins(number)
            if not playing.phase(one, figures):
                return
            note(f"{one.name}: {figures.seconds:.1f} s")
    finally:
        playing.load.abandon()


def _going_back(stage: RehearsalStage) -> str:
    """What it takes to go back now, as the controller that leads says it."""
    status = stage.leading()
    if status is None:
        return "nothing: brokers are in ZooKeeper mode, and no controller of ours runs"
    if status["migration"] is None:
        end = (status["finalisation"] or {}).get("state")
        if end == "finalised":
            return "there is no way back but an offline one, which loses every change made since"
        return "start the controllers with the flag again first, then as after the roll"
    return str(status["migration"]["going_back"]["text"])


def why(error: BaseException) -> str:
    r"""The text of an error in one line; many have none.

    >>> why(OSError("a\nb")), why(TimeoutError())
    ('a b', 'TimeoutError')
    """
    return " ".join(f"{error}".split()) or type(error).__name__
