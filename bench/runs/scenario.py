"""A scenario: its cases, and the rows they make on some targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final


class Kind(StrEnum):
    """What a scenario does."""

    CREATE = "create"
    """CreateTopics, one topic in each request."""
    ISR = "isr"
    """AlterPartition of one partition: its ISR shrinks, then grows back."""
    CONFIG = "config"
    """IncrementalAlterConfigs of one topic."""
    COPY = "copy"
    """The migration itself: how long the first copy out of ZooKeeper takes."""
    RESTART = "restart"
    """The controller is killed and started again."""
    SCALE = "scale"
    """A large cluster through all that a migration has; see ``runs.scale``."""
    RAW = "raw"
    """ZooKeeper alone: multis by its own asynchronous Java client."""


LOADS: Final = frozenset({Kind.CREATE, Kind.ISR, Kind.CONFIG, Kind.SCALE})
"""Kinds with an arrival schedule."""


@dataclass(frozen=True, slots=True)
class Case:
    """One point of a scenario. None: the key does not apply, or the target's default holds.

    ``rate``: requests due each second; request n is due ``n / rate`` after the begin. ``count``:
    requests. ``partitions``: of each topic, those created and those present. ``topics_present``:
    topics in ZooKeeper before the migration. ``latency_ms``: added to each request to ZooKeeper.
    ``bound_records``: our bound of the lag, 0 for none. ``connections``: of the load, each with one
    request outstanding. ``freeze_s``: how long ZooKeeper is stopped, from ``fault_at_s`` on.
    ``brokers``: of kind scale.
    ``servers``: of ZooKeeper. ``kill_leader``: at ``fault_at_s`` the leader of the ensemble dies.
    ``drain_s``: how long ZooKeeper may take after the last answer. ``multi_ops`` and ``window``: of
    kind raw: operations of a multi, multis in flight; ``count`` are its znodes. ``burst``: so many
    requests are due together. ``poisson``: arrivals know nothing of each other. ``arrivals_s``:
    recorded ones, in place of both. ``fsync_ms``: each sync of ZooKeeper's log takes one of these.
    """

    name: str
    rate: float | None = None
    count: int | None = None
    partitions: int = 1
    topics_present: int = 0
    latency_ms: float = 0.0
    bound_records: int | None = None
    connections: int = 64
    fault_at_s: float | None = None
    freeze_s: float = 0.0
    brokers: int = 3
    servers: int = 1
    kill_leader: bool = False
    drain_s: float = 120.0
    multi_ops: int = 0
    window: int = 0
    burst: int = 1
    poisson: bool = False
    arrivals_s: tuple[float, ...] = ()
    fsync_ms: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Length of the schedule; 0 for kinds without one."""
        return 0.0 if self.rate is None or self.count is None else self.count / self.rate

    @property
    def arrivals(self) -> str:
        """How requests come, in words; empty: one after the other.

        >>> Case("a", burst=20, poisson=True).arrivals, Case("a").arrivals
        ('bursts of 20 at random', '')
        """
        if self.arrivals_s:
            text = json.dumps(self.arrivals_s).encode()
            return f"recorded ({hashlib.sha256(text).hexdigest()[:8]})"
        parts = [f"bursts of {self.burst}"] if self.burst > 1 else []
        return " ".join([*parts, "at random"] if self.poisson else parts)

    @property
    def due_s(self) -> list[float] | None:
        """When each request is due, and at last the end of the schedule; None: ``n / rate``."""
        if self.rate is None or self.count is None:
            return None
        if self.arrivals_s:
            return [*self.arrivals_s, self.seconds]
        if self.burst == 1 and not self.poisson:
            return None
        gap_s, random, at_s, found = self.burst / self.rate, Random(0), 0.0, list[float]()
        while len(found) < self.count:
            found += [at_s] * min(self.burst, self.count - len(found))
            # The same arrivals for each target and repeat.
            at_s += random.expovariate(1 / gap_s) if self.poisson else gap_s
        return [*found, max(at_s, found[-1])]


_PLAIN: Final = Case("")
_LATER: Final = ("brokers", "burst", "poisson", "arrivals_s", "fsync_ms")


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Topics created, one after the other on each connection, before anything is measured.

    A Java server compiles what it runs often; what a cold one does shows ``restart``. ``changes``:
    so many of the load's own kind then, of ISRs or configs; rounded up to whole rounds.
    """

    topics: int = 240
    partitions: int = 5
    changes: int = 0

    def __str__(self) -> str:
        made = f"{self.topics} topics of {self.partitions} partitions created"
        return f"{made}, {self.changes} changes before" if self.changes else f"{made} before"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file of ``bench/scenarios``. ``quick``: names of the cases of a quick run, in order."""

    name: str
    about: str
    kind: Kind
    cases: tuple[Case, ...]
    targets: tuple[str, ...]
    warm_up: WarmUp
    quick: tuple[str, ...]

    def shortened(self) -> Scenario:
        """Only the cases of a quick run."""
        return replace(self, cases=tuple(one for one in self.cases if one.name in self.quick))


@dataclass(frozen=True, slots=True)
class Planned:
    """One row to take. ``position``: 0 for the first target of its round."""

    scenario: Scenario
    case: Case
    target: str
    repeat: int
    position: int
    zookeeper: str | None = None
    """Connect string of one that is there already; None: the row gets its own."""

    @property
    def run_id(self) -> str:
        """Its name: of its file, and of its rows in the trace."""
        return f"{self.group}.{self.target}.r{self.repeat}"

    @property
    def group(self) -> str:
        """What the rows that are compared with each other have in common."""
        return f"{self.scenario.name}.{self.case.name}"

    @property
    def round(self) -> str:
        """What the rows of one round have in common: their trees must agree."""
        return f"{self.group}.r{self.repeat}"

    @property
    def digest(self) -> str:
        """Of all that decides what is measured: a row of another digest is taken again."""
        warm_up = asdict(self.scenario.warm_up)
        if not warm_up["changes"]:
            del warm_up["changes"]  # as the later keys of a case
        case = asdict(self.case)
        for key in _LATER:
            # Rows of before there were these keys are still those of the same case.
            if case[key] == getattr(_PLAIN, key):
                del case[key]
        content = [self.scenario.kind, case, warm_up, self.target, self.zookeeper]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def seconds(self) -> float:
        """About how long it takes on two cores; a guess for the plan."""
        case = self.case
        if self.scenario.kind is Kind.RAW:
            return 15.0 + (case.count or 0) / 20_000
        present = case.topics_present * (5 + case.partitions)
        if self.scenario.kind is Kind.SCALE:
            return 90.0 + case.seconds + present * 0.0012 + case.brokers * 0.1
        java = 0.0 if self.target in {"kraft-bridge", "write-ahead", "sequential"} else 8.0
        warm_up = self.scenario.warm_up
        made = (case.count or 0) * case.partitions + warm_up.topics * warm_up.partitions
        return (
            14.0
            + java
            + 3.0 * (case.servers - 1)
            + case.seconds * (1.3 if java else 1.1)
            + case.freeze_s
            + present * (0.0012 if java else 0.0003)
            + (made + warm_up.changes) * (0.0006 if java else 0.0001)
        )


def planned(
    scenario: Scenario, targets: Sequence[str], repeats: int, zookeeper: str | None = None
) -> list[Planned]:
    """All rows, round by round; the target that runs first alternates between rounds."""
    rows = []
    for repeat in range(1, repeats + 1):
        for number, case in enumerate(scenario.cases):
            turn = (repeat - 1 + number) % len(targets)
            order = [*targets[turn:], *targets[:turn]]
            rows += [
                Planned(scenario, case, target, repeat, position, zookeeper)
                for position, target in enumerate(order)
            ]
    return rows
