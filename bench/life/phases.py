"""The phases of a life, in order: each is one thing that an operator does.

A phase may be begun again after it was cut: it does what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.life.life import Life
from bench.life.standing import Mode, Quorum
from bench.rig.waiting import wait_for

_DUAL_WRITE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Phase:
    """One row of the table."""

    name: str
    """For ``--until`` and the table."""
    act: Callable[[Life], None]
    releases: frozenset[str] | None = None
    """Lives that have it; None: every life."""


def zookeeper_mode(life: Life) -> None:
    """A plain restart of each broker in ZooKeeper mode: what the other rows are compared with."""
    for broker in life.stage.cluster.brokers:
        life.restart(broker, Mode.ZOOKEEPER)


def dual_write(life: Life) -> None:
    """Controllers are started, brokers restart with the flag one by one, and dual write begins."""
    if life.stage.standing.quorum is Quorum.ABSENT:
        life.stage.new_quorum()
    for broker in life.stage.cluster.brokers:
        if life.stage.standing.brokers[broker.id].mode is Mode.ZOOKEEPER:
            life.restart(broker, Mode.MIGRATING)
    wait_for(
        "dual write",
        lambda: life.stage.status()["migration"]["driver_state"] == "DUAL_WRITE",
        _DUAL_WRITE_S,
    )


def roll_one(life: Life) -> None:
    """The last broker restarts in KRaft mode."""
    last = life.stage.cluster.brokers[-1]
    if life.stage.standing.brokers[last.id].mode is Mode.MIGRATING:
        life.restart(last, Mode.KRAFT)


def back_one(life: Life) -> None:
    """It restarts in ZooKeeper mode again."""
    last = life.stage.cluster.brokers[-1]
    if life.stage.standing.brokers[last.id].mode is Mode.KRAFT:
        life.restart(last, Mode.MIGRATING)


def roll(life: Life) -> None:
    """Every broker restarts in KRaft mode, one by one."""
    for broker in life.stage.cluster.brokers:
        if life.stage.standing.brokers[broker.id].mode is Mode.MIGRATING:
            life.restart(broker, Mode.KRAFT)
            life.same_metadata()


PHASES: Final = (
    Phase("zookeeper", zookeeper_mode),
    Phase("dual-write", dual_write),
    Phase("roll-one", roll_one),
    Phase("back-one", back_one),
    Phase("roll", roll),
)


def of(release: str) -> list[Phase]:
    """The phases of a life that begins with a release."""
    return [one for one in PHASES if one.releases is None or release in one.releases]
