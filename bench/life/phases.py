"""The phases of a life, in order: each is one thing that an operator does.

A phase may be begun again after it was cut: it does what is left of it.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.demo.controllers import IDS
from bench.demo.verdict import ALREADY
from bench.life import advised, commands
from bench.life.held import held_copy
from bench.life.life import Life
from bench.life.stage import Stage
from bench.life.standing import Mode, Quorum
from emulator.servers.kafka import KafkaBroker
from emulator.servers.machine import Shared

NEWEST: Final = "3.9.2"
OLDEST: Final = "3.4.1"
LEVEL, LEVEL_NAME = 21, "3.9-IV0"
"""The newest metadata.version of the bridge releases."""
KEEPS_ITS_LOG: Final = frozenset({"3.4.1", "3.5.2", "3.6.2"})
"""Brokers of these releases keep the log of an earlier quorum; from 3.7 brokers delete it."""
AT_THE_CLAIM: Final = frozenset(
    f"{api} STALE_CONTROLLER_EPOCH" for api in ("CreateTopics", "IncrementalAlterConfigs")
)
"""A broker in ZooKeeper mode writes configs itself, with a check that ``/controller`` is as it
knows it; the one that was the controller writes that of a new topic first. Between the claim and
its first UpdateMetadata it refuses them, and writes nothing."""
TWICE: Final = frozenset(f"{api} {error}" for api, error in ALREADY.items())
"""A broker that passes a change on does so again if the controller is gone, and a client whose
change was written while nobody ruled asks again: the change is there, and refused. That it is there
is a check of its own."""
_FREED: Final = re.compile(r"([\d,]+) ms until /controller was free")
_FREED_MS_MAX: Final = 1_000
"""From the end of the last controller to a free ``/controller``: the part that is ours."""
_COPY: Final = "__cluster_metadata-0"
_COPYING: Final = "copying"
"""The phase that ``rollback`` names while a copy is under way."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One row of the table."""

    name: str
    """For ``--until`` and the table."""
    act: Callable[[Life], None]
    releases: frozenset[str] | None = None
    """Lives that have it; None: every life."""
    needs: str | None = None
    """The release of the brokers that it starts, where that is not the life's own."""
    excused: frozenset[str] = frozenset()
    """Refusals of changes, as ``API ERROR``, with which a client may have to ask again."""


def zookeeper_mode(life: Life) -> None:
    """A plain restart of each broker in ZooKeeper mode: what the other rows are compared with."""
    for broker in life.stage.cluster.brokers:
        life.restart(broker, Mode.ZOOKEEPER)


def dual_write(life: Life) -> None:
    """Controllers are started, brokers restart with the flag one by one, and dual write begins."""
    if life.stage.standing.quorum is Quorum.ABSENT:
        life.stage.plan_quorum()
    _migrate(life)


def _migrate(life: Life) -> None:
    """Let preflight judge what was planned; controllers start, brokers restart with the flag."""
    if life.stage.advised:
        advised.walk(life, advised.DUAL_WRITE)
        return
    if life.stage.standing.quorum is Quorum.ABSENT:
        output = commands.preflight(life.stage)
        life.check("preflight finds nothing that blocks", held=True, figures=output.splitlines()[0])
        life.stage.start_quorum()
    for broker in _in_mode(life, Mode.ZOOKEEPER):
        life.restart(broker, Mode.MIGRATING, while_stopped=_forget(life))
    commands.wait_dual_write(life.stage)
    life.print_line(commands.look(life.stage))


def to_kraft(life: Life) -> None:
    """Every broker restarts in KRaft mode: partition epochs move that states do not show."""
    _roll(life, lambda: None)


def _roll(life: Life, then: Callable[[], None]) -> None:
    if life.stage.advised:
        advised.walk(life, advised.IN_KRAFT, then)
    else:
        for broker in _in_mode(life, Mode.MIGRATING):
            life.restart(broker, Mode.KRAFT)
            then()
    commands.wait_kraft(life.stage)


def from_kraft(life: Life) -> None:
    """They restart in ZooKeeper mode with the flag again."""
    if life.stage.advised:
        advised.walk(life, advised.BROKERS_BACK)
        return
    for broker in _in_mode(life, Mode.KRAFT):
        life.restart(broker, Mode.MIGRATING)


def rollback(life: Life) -> None:
    """Controllers end, a broker is elected, and brokers restart in plain ZooKeeper mode."""
    if life.stage.advised:
        advised.walk(life, advised.BACK, back=_give_back)
    elif life.stage.standing.quorum is Quorum.MIGRATING:
        _give_back(life)
    _to_zookeeper(life)


def _give_back(life: Life, go: Callable[[Stage], str] = commands.rollback) -> str:
    """Roll back: controllers end, a broker becomes the controller; returns the command's output."""
    stage = life.stage
    shared = Shared()
    output = go(stage)
    sharing = shared.read()
    life.print_line(output)
    freed = _FREED.search(output)
    what = "/controller was free within a second"
    if freed is not None:
        took_ms = int(freed[1].replace(",", ""))
        life.check_speed(what, took_ms <= _FREED_MS_MAX, f"{took_ms} ms", sharing)
    elif not life.row.cut:  # a phase that was cut has measured nothing
        life.check(what, held=False, figures="the command does not say")
    stage.standing.quorum = Quorum.ABSENT
    stage.save()
    return output


def _to_zookeeper(life: Life) -> None:
    """Restart each broker with the properties that it had before the migration."""
    stage = life.stage
    stage.wait("a broker as controller", lambda: stage.ruling().someone)
    holder = stage.wait("/controller", lambda: stage.znode("/controller"))
    epoch = holder["kraftControllerEpoch"]
    life.check("a broker in ZooKeeper mode rules", epoch == -1, f"{holder}")
    for broker in _in_mode(life, Mode.MIGRATING):
        life.restart(broker, Mode.ZOOKEEPER)


def copying(life: Life) -> None:
    """An attempt whose copy comes to no end, as ZooKeeper does not answer: everything goes back.

    The copy begins when the last broker restarts with the flag. The replicas of this broker do not
    get in sync until a controller is active again.
    """
    stage = life.stage
    if stage.standing.quorum is Quorum.MIGRATING or _in_mode(life, Mode.MIGRATING):
        rollback(life)  # of a run that was cut
    _plan_anew(life)
    with held_copy(stage) as held:

        def back() -> None:
            held()
            began = f"rolled back, from {_COPYING}:"
            output = _give_back(life)
            life.check("it went back from the copy", began in output, output.splitlines()[0])

        *others, last = stage.cluster.brokers
        for broker in others:
            life.restart(broker, Mode.MIGRATING, while_stopped=_forget(life))
        life.restart(last, Mode.MIGRATING, while_stopped=_forget(life), when_started=back)
    _to_zookeeper(life)


def _plan_anew(life: Life) -> None:
    """Folders are formatted first, so that nothing can claim once the mark of the way back goes."""
    life.stage.plan_quorum()
    life.stage.format_quorum()
    commands.clear(life.stage)


def again(life: Life) -> None:
    """A new quorum; what the first attempt left is cleared, and dual write begins again."""
    if life.stage.standing.quorum is Quorum.ABSENT:
        _plan_anew(life)
    _migrate(life)


def _forget(life: Life) -> Callable[[KafkaBroker], None]:
    """Removes what a broker has fetched of an earlier quorum's log, where its release keeps it."""

    def remove(broker: KafkaBroker) -> None:
        folder = broker.data / _COPY
        if release_of(life, broker) in KEEPS_ITS_LOG and folder.exists():
            life.print_line(f"  broker {broker.id}: rm -r {folder.name} in its log.dirs")
            shutil.rmtree(folder)

    return remove


def release_of(life: Life, broker: KafkaBroker) -> str:
    """The release that a broker is started with."""
    return life.stage.standing.brokers[broker.id].release


def roll(life: Life) -> None:
    """Every broker restarts in KRaft mode, one by one."""
    _roll(life, life.same_metadata)


def finalise(life: Life) -> None:
    """Controllers restart without the flag, the leading one last; then ZooKeeper ends.

    One of 3.4 does not say whether it has the flag: the same restart makes it one of 3.9.
    """
    stage = life.stage
    if stage.advised:
        advised.walk(life, advised.FINAL)
    else:
        _without_flag(life)
    commands.wait_finalised(stage)
    stage.end_zookeeper()


def _without_flag(life: Life) -> None:
    stage = life.stage
    life.print_line(commands.missing(stage))
    stage.standing.controllers_release = NEWEST
    stage.save()
    while left := [each for each in IDS if each not in stage.standing.without_flag]:
        leads = stage.status()["node_id"]
        number = next((each for each in left if each != leads), left[0])
        life.restart_controller(
            number,
            f"with the flag to without, {OLDEST} to {NEWEST}",
            functools.partial(stage.standing.without_flag.append, number),
        )


def upgrade(life: Life) -> None:
    """Brokers of the oldest bridge release become those of the newest one, as controllers are."""
    stage = life.stage
    _all_to(life, NEWEST)
    commands.raise_level(stage, LEVEL_NAME.partition("-")[0])
    level = stage.status()["metadata_version"]["level"]
    life.check("metadata.version is raised", level == LEVEL, f"{level}")


def to_4_1(life: Life) -> None:
    """Brokers become those of 4.1.1, one by one."""
    _all_to(life, "4.1.1")


def to_4_3(life: Life) -> None:
    """Brokers become those of 4.3.0; the level of 4.0 is refused."""
    _all_to(life, "4.3.0")
    output = commands.refused_level(life.stage, LEVEL + 1)
    named = f"{LEVEL + 1}" in output and "Local controller" in output
    life.check("a level beyond 3.9 is refused by name", named, output.strip())


def _all_to(life: Life, release: str) -> None:
    for broker in life.stage.cluster.brokers:
        if release_of(life, broker) != release:
            life.restart(broker, Mode.KRAFT, release)


def _in_mode(life: Life, mode: Mode) -> list[KafkaBroker]:
    wanted = life.stage.in_mode(mode)
    return [broker for broker in life.stage.cluster.brokers if broker.id in wanted]


PHASES: Final = (
    Phase("zookeeper", zookeeper_mode),
    Phase("dual-write", dual_write, excused=AT_THE_CLAIM | TWICE),
    Phase("to-kraft", to_kraft),
    Phase("from-kraft", from_kraft),
    Phase("rollback", rollback, excused=TWICE),
    Phase("copying", copying, excused=AT_THE_CLAIM | TWICE),
    Phase("again", again, excused=AT_THE_CLAIM | TWICE),
    Phase("roll", roll),
    Phase("finalise", finalise, excused=TWICE),
    Phase("upgrade", upgrade, frozenset({OLDEST}), needs=NEWEST),
    Phase("4.1.1", to_4_1, needs="4.1.1"),
    Phase("4.3.0", to_4_3, needs="4.3.0"),
)


def phases_from(release: str) -> list[Phase]:
    """The phases of a life that begins with a release."""
    return [one for one in PHASES if one.releases is None or release in one.releases]


def phases_up_to(wanted: Sequence[Phase], last: str | None) -> list[Phase]:
    """The phases up to one, in their order; all if none is named."""
    names = [one.name for one in PHASES]
    end = len(names) if last is None else names.index(last) + 1
    return [one for one in wanted if one.name in names[:end]]
