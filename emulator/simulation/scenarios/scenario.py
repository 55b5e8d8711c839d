"""The parameters of a simulated cluster and its faults, without the seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final

from emulator.migration.propagation.gate import PAUSE_US
from emulator.simulation.clients.taking import taking

_PLANNED: Final = re.compile(
    r"(?P<name>[a-z-]+)(@(?P<state>[A-Z_]+)(\+(?P<after_ms>\d+))?)?(/(?P<key>\w+))?"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come.

    ``state``: it begins ``after_ms`` after the migration has reached it; "" for a random time.
    ``key`` names its own random stream, so that it does the same whatever other faults there are.
    """

    name: str
    state: str
    after_ms: int
    key: str


def planned(text: str, position: int) -> Planned:
    """Read a fault as a scenario names it: ``name[@STATE[+ms]][/key]``.

    >>> planned("cut@ZK_MIGRATION+20/7", 0)
    Planned(name='cut', state='ZK_MIGRATION', after_ms=20, key='7')
    >>> planned("cut", 3)
    Planned(name='cut', state='', after_ms=0, key='3')
    """
    match = _PLANNED.fullmatch(text)
    if match is None:
        raise ValueError(f"a fault is name[@STATE[+ms]][/key], not {text!r}")
    after_ms = int(match["after_ms"] or 0)
    return Planned(match["name"], match["state"] or "", after_ms, match["key"] or str(position))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sizes, bounds, loads, delays and faults. Times in milliseconds unless named otherwise.

    ``faults`` are texts for :func:`planned`. ``skip`` names operations of clients that are left out
    (``changes/7``), for shrinking. An ``..._every_ms`` says how often a client asks for something
    of a class; 0: never. ``bound`` is ``kraftbridge.zk.write.behind.max.records``, ``multi_ops``
    its ``...multi.ops``.
    """

    faults: tuple[str, ...] = ()
    skip: frozenset[str] = frozenset()
    controllers: int = 1
    """Voters of the quorum."""
    migration: bool = True
    """False: the cluster never had a ZooKeeper; its brokers begin in KRaft mode."""
    brokers: int = 3
    topics: int = 3
    partitions_max: int = 4
    changes: int = 20
    change_every_ms: int = 60
    metadata_version: str = "3.9-IV0"
    bound: int = 10_000
    multi_ops: int = 400
    delay_us: tuple[int, int] = (100, 3_000)
    zookeeper_delay_us: tuple[int, int] = (100, 3_000)
    sync_us: tuple[int, int] = (200, 4_000)
    faults_within_ms: int = 1_500
    snapshot_interval_ms: int = 3_600_000
    batch_size: int = 200
    moves_every_ms: int = 0
    client_changes_every_ms: int = 0
    """Quotas and credentials; 0: and there are none."""
    acl_changes_every_ms: int = 0
    """0: and no authorizer."""
    token_changes_every_ms: int = 0
    hostile_every_ms: int = 0
    """Requests with names and values that are long, odd or wrong."""
    feature_changes_every_ms: int = 0
    broker_release: str = "3.9"
    envelope_refusals: float = 0.0
    """Share of Envelopes that the controller refuses with CLUSTER_AUTHORIZATION_FAILED."""
    rolls: int = 0
    """Restarts of a broker in the other mode, ZooKeeper's or KRaft."""
    turn_us: int = 100
    """From an event of a controller to the step that takes it, and all that came meanwhile."""
    changes_at_once: int = 1
    calls_per_batch: int = 200
    """Calls of one step that a controller appends together, at most."""
    pause_us: int = PAUSE_US
    """For so long after a propagation, for each broker, changes are gathered."""
    attempts: int = 1
    """Migrations of the one cluster: from all but the last an operator goes back."""
    back_at: str = ""
    """When an operator goes back the first time: ``STATE`` or ``STATE+ms``, as a fault begins; "":
    drawn, as the later times are."""
    goal: str = ""
    """Where an operator takes the cluster by the advice of the product alone, one of ``GOALS`` of
    ``advised.py``; "": nobody does."""
    hold: bool = False
    """``kraftbridge.finalise.hold`` of the controllers."""
    zookeeper_frame_bytes: int = 0
    """Longest request that ZooKeeper takes (its ``jute.maxbuffer``); 0: its default."""

    def __str__(self) -> str:
        """What is not as it is by default."""
        odd = [
            f"{one.name}={value!r}"
            for one in fields(self)
            if (value := getattr(self, one.name)) != one.default
        ]
        return f"Scenario({', '.join(odd)})"


def crowded(draw: Callable[[int], Scenario]) -> Callable[[int], Scenario]:
    """Of every second cluster that is drawn controllers take many calls in a step.

    And gather what they propagate, as they do with hundreds of brokers.

    From a stream of their own, so that a seed still has all else that it had.
    """

    def drawn(seed: int) -> Scenario:
        chosen, rng = draw(seed), Random(f"crowded {seed}")
        if rng.random() < 0.5:
            return chosen
        return replace(
            chosen,
            changes=2 * chosen.changes,
            turn_us=rng.choice((2_000, 10_000, 40_000)),
            changes_at_once=rng.choice((4, 12, 30)),
            calls_per_batch=rng.choice((1, 2, 5, 200)),
            pause_us=rng.choice((PAUSE_US, 20_000, 100_000)),
        )

    return drawn


CRASHES: Final = ("controller-crash", "controller-crash-in-step", "lost-reply", "lost-replies")
FAULTS: Final = (
    *CRASHES,
    "controller-pause",
    "cut",
    "delayed-bytes",
    "zookeeper-freeze",
    "session-expiry",
    "foreign-write",
    "zookeeper-restart",
    "broker-death",
    "broker-cut",
)


def quick(seed: int) -> Scenario:
    """Draw a small cluster with at least one controller crash and one lost ZooKeeper reply."""
    rng = Random(f"scenario {seed}")
    crash = rng.choice(CRASHES[:2])
    more = rng.sample(FAULTS, rng.randint(0, 2))
    return Scenario(
        faults=(crash, rng.choice(CRASHES[2:]), *more, *taking("quick", seed, 0.03)),
        brokers=rng.randint(1, 3),
        topics=rng.randint(0, 3),
        changes=rng.randint(8, 20),
        change_every_ms=rng.choice((10, 40, 80)),
        metadata_version=rng.choice(("3.4-IV0", "3.6-IV1", "3.9-IV0")),
        bound=rng.choice((0, 15, 40, 10_000)),
        multi_ops=rng.choice((3, 12, 400)),
        batch_size=rng.choice((3, 200)),
        snapshot_interval_ms=rng.choice((700, 3_600_000)),
    )


def long(seed: int) -> Scenario:
    """Draw a cluster in which every fault strikes, some more than once."""
    rng = Random(f"long scenario {seed}")
    faults = [*FAULTS, *rng.choices(FAULTS, k=4)]
    rng.shuffle(faults)
    return Scenario(
        faults=(*faults, *taking("long", seed, 0.5)),
        topics=rng.randint(2, 6),
        changes=100,
        change_every_ms=rng.choice((40, 120)),
        metadata_version=rng.choice(("3.4-IV0", "3.6-IV1", "3.7-IV4", "3.9-IV0")),
        bound=rng.choice((0, 15, 60, 10_000)),
        multi_ops=rng.choice((3, 12, 400)),
        batch_size=rng.choice((3, 200)),
        faults_within_ms=12_000,
        snapshot_interval_ms=rng.choice((1_500, 3_600_000)),
    )
