"""What all brokers of a fleet have in common, and the properties of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final

# Waves: what happens to many brokers of a fleet, and when each is due.
#
# A wave is written ``KIND@SECOND``, then ``:COUNT`` (all when not given) and ``/RATE`` (brokers
# each second; all at once when not given), such as ``restart@20:50/5``.

_WAVE: Final = re.compile(
    r"(?P<kind>[a-z]+)@(?P<at>NUMBER)(?::(?P<count>[0-9]{1,7}|all))?(?:/(?P<rate>NUMBER))?".replace(
        "NUMBER", r"[0-9]{1,7}(?:\.[0-9]{1,6})?"
    )
)
"""Numbers are short, so that every turn has a time."""


class WaveKind(Enum):
    """What happens to a broker."""

    RESTART = "restart"
    """A controlled shutdown, then the next life in the same mode."""
    ROLL = "roll"
    """A controlled shutdown, then the next life in KRaft mode."""
    DIE = "die"
    """All its connections end at once, nothing is sent; chosen by chance."""
    REVIVE = "revive"
    """The next life of one that died."""


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave; ``count`` None: every broker; ``rate`` None: all at once."""

    kind: WaveKind
    at_s: float
    count: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """One broker's turn, in milliseconds from the begin of the waves."""

    at_ms: int
    index: int
    kind: WaveKind


def parse_wave(text: str) -> Wave:
    """Read one wave.

    Raises:
        ValueError: it is none; the text says what is possible.

    >>> parse_wave("restart@20:50/5")
    Wave(kind=<WaveKind.RESTART: 'restart'>, at_s=20.0, count=50, rate=5.0)
    """
    match = _WAVE.fullmatch(text.strip())
    kinds = {one.value: one for one in WaveKind}
    if match is None or match["kind"] not in kinds:
        raise ValueError(
            f"{text}: a wave is KIND@SECOND, KIND@SECOND:COUNT or KIND@SECOND:COUNT/RATE, and KIND "
            f"is {', '.join(kinds)}; numbers have at most 7 digits, and 6 behind the point"
        )
    count = None if match["count"] in {None, "all"} else int(match["count"])
    rate = None if match["rate"] is None else float(match["rate"])
    if count == 0 or rate == 0:
        raise ValueError(f"{text}: a count or a rate of 0 is no wave")
    return Wave(kinds[match["kind"]], float(match["at"]), count, rate)


def schedule(waves: Sequence[Wave], brokers: int, rng: Random) -> list[Due]:
    """When each broker has its turn, in order.

    Restarts and rolls go through the brokers by index, deaths choose by chance, and a revival takes
    those that died before it and were not revived yet.

    Args:
        waves: in any order.
        brokers: size of the fleet; more in a wave are left out.
        rng: chooses the brokers that die.
    """
    due: list[Due] = []
    dead: list[int] = []
    for wave in sorted(waves, key=lambda one: one.at_s):
        alive = [index for index in range(brokers) if index not in dead]
        match wave.kind:
            case WaveKind.DIE:
                rng.shuffle(alive)
                chosen = alive[: wave.count]
                dead += chosen
            case WaveKind.REVIVE:
                chosen, dead = dead[: wave.count], dead[len(dead[: wave.count]) :]
            case WaveKind.RESTART | WaveKind.ROLL:
                chosen = alive[: wave.count]
        gap_ms = 0.0 if wave.rate is None else 1_000 / wave.rate
        due += [
            Due(int(wave.at_s * 1_000 + number * gap_ms), index, wave.kind)
            for number, index in enumerate(chosen)
        ]
    return sorted(due, key=lambda one: one.at_ms)


FOLDER: Final = "none"
"""Name of the folder in the configuration of a broker; nothing is written."""
CONTROLLER_LISTENER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"
SET_BY_THE_FLEET: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "kraftbridge.faults.enable",
        "kraftbridge.metrics.port",
        "kraftbridge.release",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
        "zookeeper.connect",
        "zookeeper.metadata.migration.enable",
    }
)
"""Properties that are each broker's own, follow from options, or would have no effect."""

_OF_ZOOKEEPER: Final = ("zookeeper.", "kraftbridge.zookeeper.")
"""Prefixes of what a broker that was rolled to KRaft mode has no more."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What all brokers of a fleet have in common.

    ``controller``: text for controller.quorum.bootstrap.servers. ``zookeeper``: connect string, or
    None: the brokers are in KRaft mode. ``listener``: the name of theirs; it is not encrypted.
    ``manual_isrs``: leaders propose no change of an ISR by themselves.
    """

    host: str
    controller: str | None
    zookeeper: str | None
    cluster_id: str | None
    release: str
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further properties of every broker."""
    listener: str = PLAINTEXT
    manual_isrs: bool = False

    @property
    def migration(self) -> bool:
        """Whether ZooKeeper-mode brokers migrate."""
        return self.zookeeper is not None and self.controller is not None

    def properties(self, broker_id: int, port: int, *, kraft: bool) -> dict[str, str]:
        """The properties of one broker."""
        found = {
            "listeners": f"{self.listener}://{self.host}:{port}",
            "log.dirs": FOLDER,
            "kraftbridge.release": self.release,
        }
        if self.controller is not None:
            found["controller.quorum.bootstrap.servers"] = self.controller
            found["controller.listener.names"] = CONTROLLER_LISTENER
        if self.listener != PLAINTEXT:
            found["inter.broker.listener.name"] = self.listener
        if self.migration or self.listener != PLAINTEXT:
            protocols = f"{CONTROLLER_LISTENER}:PLAINTEXT,{self.listener}:PLAINTEXT"
            found["listener.security.protocol.map"] = protocols
        if kraft:
            found |= {"process.roles": "broker", "node.id": str(broker_id)}
        else:
            assert self.zookeeper is not None
            found |= {"broker.id": str(broker_id), "zookeeper.connect": self.zookeeper}
            if self.migration:
                found["zookeeper.metadata.migration.enable"] = "true"
        more = self.extra
        if kraft and self.zookeeper is not None:
            more = {key: more[key] for key in more if not key.startswith(_OF_ZOOKEEPER)}
        return {**found, **more}
