"""Run the steps of one release on one controller, until one fails.

A step that the release does not have is not run. Steps after a red step are not run either: they
would start from the state that the failed step left behind. So one defect makes one red cell, and
the table names every step that was not run.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException

from bench.load.cluster_api import RefusedError
from bench.matrix import controllers
from bench.matrix.known import may_enforce_acls, not_known
from bench.matrix.leftovers import left
from bench.matrix.login import LoginError
from bench.matrix.stage import Stage, WrongError
from bench.matrix.steps import endings, entities, lifecycle, security
from emulator.servers.process import ProcessError, running
from emulator.servers.tool_host import ToolHost
from emulator.servers.zk_dump import UnreadableError

CLASSES: Final = (*entities.CLASSES, *security.CLASSES)
STEPS: Final[dict[str, Callable[[Stage], None]]] = {
    "versions": lifecycle.versions,
    "register": lifecycle.register,
    "copy": lifecycle.copy,
    **{one.name: one.change for one in CLASSES},
    "broker death": lifecycle.broker_death,
    "elections": lifecycle.elections,
    "reassignment": lifecycle.reassignment,
    "to KRaft mode": lifecycle.to_kraft,
    "back from KRaft": lifecycle.back_from_kraft,
    "roll": endings.roll,
    "rollback": endings.rollback,
    "second attempt": endings.again,
    "finalise": endings.finalise,
}
"""Row -> what it does, in order."""
_FIRST: Final = ("versions", "register", "copy")
"""These are always taken: the first one looks at brokers that have met no controller yet."""
BUILDS_ON: Final = {
    "elections": "broker death",
    "back from KRaft": "to KRaft mode",
    "second attempt": "rollback",
}
"""Step -> the step that it depends on."""
PROVES: Final[dict[str, tuple[str, ...]]] = {
    "versions": ("I17",),
    "register": ("N02", "U15"),
    "copy": ("G05", "U15", "X03"),
    "back from KRaft": ("B02", "F04"),
    "roll": ("F05", "U15"),
    "rollback": ("A05", "B01", "G03", "Y03"),
    "second attempt": ("B06",),
    "finalise": ("F07", "U15"),
}
"""Step -> the rows of tests/requirements.toml that it proves for a release."""
_FAILURES: Final = (
    WrongError,
    ProcessError,
    RefusedError,
    LoginError,
    KazooException,
    UnreadableError,
    OSError,
    KeyError,
    TimeoutError,
)
GREEN, RED, NOT_APPLICABLE, NOT_RUN = "green", "red", "n/a", "not run"


@dataclass(frozen=True, slots=True)
class Cell:
    """How one step of one release ended on one controller."""

    release: str
    step: str
    controller: str
    """``ours`` or ``kafka``."""
    state: str
    """`GREEN`, `RED`, `NOT_APPLICABLE` or `NOT_RUN`."""
    why: str = ""
    """Unless green: one sentence."""
    seconds: float = 0.0
    left: str = ""
    """If red: what the step left behind."""


@dataclass(frozen=True, slots=True)
class Played:
    """A release on one controller."""

    cells: list[Cell]
    complaints: Counter[str]
    """Kinds of WARN, ERROR and FATAL lines of the brokers, with their numbers."""
    seconds: float


PrintLine = Callable[[str], None]


def play(
    release: str,
    controller: str,
    folder: Path,
    *,
    host: ToolHost,
    print_line: PrintLine,
    only: Collection[str] | None = None,
) -> Played:
    """Migrate a fresh cluster of a release.

    Args:
        release: of brokers, and of Kafka's controller.
        controller: ``ours`` or ``kafka``.
        folder: for its files; made.
        host: Kafka's tools.
        print_line: takes each cell as a line.
        only: names of steps; versions, register and copy are always taken.

    Raises:
        ProcessError: the old cluster itself did not start.
    """
    begun = time.monotonic()
    begin = controllers.ours if controller == "ours" else controllers.kafkas
    wanted = steps_of(only)
    cells: list[Cell] = []
    foreign = running()
    with Stage(release, begin, folder, may_enforce_acls(release), host) as stage:
        _seed(stage, wanted)
        for name in wanted:
            cell = _cell(stage, name, controller, cells)
            cells.append(cell)
            if cell.state == GREEN:
                stage.kept.setdefault("green", set()).add(name)
            print_line(line(cell))
        complaints = _complaints(stage)
    for process in [one for one in running() if one not in foreign]:
        print_line(
            f"{release} on {controller}: {process.name} {process.pid} was left behind; it is ended"
        )
        process.kill()
    return Played(cells, complaints, time.monotonic() - begun)


def steps_of(only: Collection[str] | None) -> list[str]:
    """The steps to take, in order.

    >>> steps_of(["roll", "copy"])
    ['versions', 'register', 'copy', 'roll']
    """
    return [name for name in STEPS if name in _FIRST or only is None or name in only]


def _seed(stage: Stage, wanted: Collection[str]) -> None:
    """Create in the old cluster what the steps need before the migration.

    Raises:
        ProcessError: the old cluster refuses it.
    """
    for one in CLASSES:
        if (one.name in wanted or one.name == "topics") and not not_known(stage.release, one.name):
            try:
                one.seed(stage)
            except _FAILURES as error:
                prefix = f"{stage.release} in ZooKeeper mode: what {one.name} begins with: "
                raise ProcessError(f"{prefix}{_sentence(error)}") from error


def _cell(stage: Stage, name: str, controller: str, so_far: list[Cell]) -> Cell:
    release = stage.release
    if why := not_known(release, name):
        return Cell(release, name, controller, NOT_APPLICABLE, why)
    if failed := [cell.step for cell in so_far if cell.state == RED]:
        return Cell(release, name, controller, NOT_RUN, f"not run: {failed[0]} before it failed")
    before = stage.standing()
    begun = time.monotonic()
    try:
        STEPS[name](stage)
    except _FAILURES as error:
        seconds = time.monotonic() - begun
        found = "; ".join(left(before, stage.standing(), _differences(stage)))
        return Cell(release, name, controller, RED, _sentence(error), seconds, found or "nothing")
    return Cell(release, name, controller, GREEN, "", time.monotonic() - begun)


def _differences(stage: Stage) -> list[str]:
    try:
        return stage.differences()
    except _FAILURES as error:
        return [f"they cannot be compared: {_sentence(error)}"]


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def _complaints(stage: Stage) -> Counter[str]:
    """What brokers logged at WARN or above in migration mode and after, by kind, and how often.

    Ids, numbers and names of partitions are taken out, so that a kind is a kind.
    """
    found: Counter[str] = Counter()
    for broker in stage.cluster.brokers:
        if broker.log.exists():
            for text in broker.log.read_text(errors="replace").splitlines():
                _, _, rest = text.partition("] ")
                if rest.startswith(("WARN", "ERROR", "FATAL")):
                    found[_kind(rest)] += 1
    return found


def _kind(text: str) -> str:
    """A log line without what differs from one to the next.

    >>> _kind("WARN [Broker id=1] Received LeaderAndIsr for partition made-2 (x)")
    'WARN [Broker id=N] Received LeaderAndIsr for partition P (x)'
    """
    named = re.sub(r"\b(partition|topic) [\w.]+(-\d+)?", r"\1 P", text)
    return re.sub(r"\d+", "N", named)[:160]


def line(cell: Cell) -> str:
    """A cell in one line."""
    place = f"{cell.release} on {cell.controller}, {cell.step}"
    if cell.state == NOT_RUN:
        return f"{place}: {cell.why}"
    why = f": {cell.why}" if cell.why else ""
    behind = f"; left behind: {cell.left}" if cell.left else ""
    return f"{place}: {cell.state} ({cell.seconds:.1f} s){why}{behind}"
