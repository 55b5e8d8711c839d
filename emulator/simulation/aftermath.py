"""The effects of faults, by the state of the migration driver in which they struck.

The models report when something is lost, refused or repeated. This module decides which fault
caused it. A strike is open from its begin until the main process changes its state or ends, or
until ``AFTER_US`` after the fault has ended, as a lost request is repeated only then. A loss, a
refusal or a repetition while a strike is open counts for this strike if faults of its kind can
cause it at that place (``REACH``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from emulator.simulation.models.scheduler import MS, Scheduler

What: TypeAlias = Literal["lost", "refused", "repeated", "elected"]
"""Lost: bytes, pages, events or effects that never came to be. Refused: an error of ZooKeeper or of
the disk, or damage with which a process does not begin. Repeated: a write or a control request that
had been received already came again. Elected: another voter leads."""
Where: TypeAlias = Literal["process", "zookeeper", "broker", "disk", "voter"]
"""Inside the controller's process, on the way to ZooKeeper, a broker or another voter and there, on
the disk."""

AFTER_US: Final = 2_000 * MS
ELECTED_AFTER_US: Final = 8_000 * MS
"""An election begins when a voter has had no request of its leader for two to three seconds."""

_ALL: Final[tuple[What, ...]] = ("lost", "refused", "repeated")
_ENDED: Final = frozenset(
    (what, where)
    for what in ("lost", "repeated")
    for where in ("process", "zookeeper", "broker", "disk")
)
_RIVALLED: Final = _ENDED | {("refused", "zookeeper")}
_DISK: Final = _ENDED | {("refused", "disk")}
_ZOOKEEPER: Final = frozenset((what, "zookeeper") for what in _ALL)
_BROKER: Final = frozenset((what, "broker") for what in ("lost", "repeated"))
_VOTER: Final = frozenset(
    {("lost", "process"), ("lost", "disk"), ("lost", "voter"), ("elected", "voter")}
)
_WRITTEN: Final = frozenset((what, "zookeeper") for what in ("refused", "repeated"))

REACH: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "controller-crash": _ENDED,
    "controller-crash-in-step": _ENDED,
    "controller-kill": _ENDED,
    "controller-shutdown": _ENDED,
    "controller-pause": _RIVALLED,
    "controller-cloned": _RIVALLED,
    "disk-slow": _ENDED,
    "disk-error": _DISK,
    "disk-forgets": _DISK,
    "disk-rots": _DISK,
    "disk-full": _DISK,
    "disk-reorders": _ENDED,
    "disk-restored": _RIVALLED,
    "rollback": _RIVALLED,
    "lost-reply": _ZOOKEEPER,
    "lost-replies": _ZOOKEEPER,
    "zookeeper-freeze": _ZOOKEEPER,
    "zookeeper-restart": _ZOOKEEPER,
    "zookeeper-refuses": _WRITTEN,
    "stale-server": _RIVALLED,
    "session-expiry": _ZOOKEEPER,
    "foreign-write": _WRITTEN,
    "foreign-znodes": _WRITTEN,
    "both-counters": _WRITTEN,
    "epoch-bumped": _RIVALLED,
    "controller-deleted": _RIVALLED,
    "controller-foreign": _RIVALLED,
    "zookeeper-restored": _RIVALLED | {("elected", "voter")},
    "cut": _ZOOKEEPER,
    "network-slow": _ZOOKEEPER | _BROKER,
    "delayed-bytes": _RIVALLED,
    "broker-cut": _BROKER,
    "broker-death": _BROKER,
    "broker-shutdown": _BROKER,
    "broker-leaves": _BROKER,
    "voter-crash": _VOTER,
    "voter-crash-in-step": _VOTER,
    "voter-kill": _VOTER,
    "voter-shutdown": _VOTER,
    "voter-pause": _VOTER,
    "voters-parted": _VOTER,
    "zookeeper-parted": _VOTER | _ZOOKEEPER,
    "voter-disk-slow": _VOTER,
    "voter-disk-error": _VOTER | {("refused", "disk")},
    "voter-disk-lost": _VOTER,
    "voter-disk-restored": _VOTER,
    "all-power": _VOTER,
    "finalise": _VOTER,
    "controller-dead": _ENDED | _VOTER,
    "broker-dead": _BROKER,
    "broker-gone": _BROKER,
    "claim-taken": _ENDED,
    "broker-refused": _BROKER,
    "znode-forbidden": _WRITTEN,
    "znode-malformed": _WRITTEN,
    "epoch-missing": _WRITTEN,
    "flag-forgotten": _ENDED | _VOTER,
}
"""Fault -> what it can do, and where."""


@dataclass(slots=True)
class Struck:
    """A fault has struck the driver in a state; ``effects``: what came of it there."""

    state: str
    fault: str
    effects: set[What] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Open:
    struck: Struck
    process: str
    ended_us: Callable[[], int | None]


class Aftermath:
    """Collects the strikes of one run.

    Args:
        scheduler: the clock.
        place: name of the main process and the state of its driver, now; "" for none.
    """

    def __init__(self, scheduler: Scheduler, place: Callable[[], tuple[str, str]]) -> None:
        self.strikes: list[Struck] = []
        self.happenings: Counter[tuple[What, Where]] = Counter()
        """All there were, of any fault or none."""
        self._scheduler = scheduler
        self._place = place
        self._open: list[_Open] = []

    def begins(self, fault: str, ended_us: Callable[[], int | None]) -> None:
        """A fault strikes now; ``ended_us`` returns when it ended, None as long as it has not."""
        process, state = self._place()
        if state:
            struck = Struck(state, fault)
            self.strikes.append(struck)
            self._open.append(_Open(struck, process, ended_us))

    def happened(self, what: What, where: Where) -> None:
        """A model has lost, refused or got again something."""
        self.happenings[what, where] += 1
        if self._open:
            place, now_us = self._place(), self._scheduler.now_us
            self._open = [o for o in self._open if _lasts(o, place, now_us, ELECTED_AFTER_US)]
            after_us = ELECTED_AFTER_US if what == "elected" else AFTER_US
            for one in self._open:
                reaches = (what, where) in REACH.get(one.struck.fault, ())
                if reaches and _lasts(one, place, now_us, after_us):
                    one.struck.effects.add(what)

    def lost_between(self, opener: str, acceptor: str) -> None:
        """A message on a connection of a controller was lost."""
        brokers = [one.startswith("broker") for one in (opener, acceptor)]
        if opener.startswith("client") or (brokers[0] and acceptor == "zookeeper"):
            return
        if any(brokers):
            self.happened("lost", "broker")
        else:
            self.happened("lost", "zookeeper" if acceptor == "zookeeper" else "voter")


def _lasts(one: _Open, place: tuple[str, str], now_us: int, after_us: int) -> bool:
    ended_us = one.ended_us()
    recent = ended_us is None or now_us <= ended_us + after_us
    return recent and place == (one.process, one.struck.state)


Effects: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""State -> fault -> ``struck``: seeds in which it struck there; ``seeds``: those with an effect."""


def sum_up(runs: Iterable[Iterable[Struck]]) -> Effects:
    """Count seeds.

    >>> sum_up([[Struck("DUAL_WRITE", "cut", {"lost"}), Struck("DUAL_WRITE", "cut")]])
    {'DUAL_WRITE': {'cut': {'seeds': 1, 'struck': 1}}}
    """
    found: Effects = {}
    for strikes in runs:
        hits: dict[tuple[str, str], bool] = {}
        for one in strikes:
            cell = (one.state, one.fault)
            hits[cell] = hits.get(cell, False) or bool(one.effects)
        for (state, fault), hit in hits.items():
            counts = found.setdefault(state, {}).setdefault(fault, {"seeds": 0, "struck": 0})
            counts["seeds"] += hit
            counts["struck"] += 1
    return found
