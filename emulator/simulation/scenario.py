"""What a simulated cluster is like and what happens to it, but for the seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sizes, bounds and faults.

    ``faults`` names recipes of ``faults.py``; each begins at a random time, in the order given only
    by chance. ``bound`` is ``kraftbridge.zk.write.behind.max.records``, ``multi_ops`` its
    ``...multi.ops``. ``moves_every_ms``: how often a client asks for a leader or other replicas,
    beside the other changes; 0: never.
    """

    faults: tuple[str, ...] = ()
    brokers: int = 3
    topics: int = 3
    changes: int = 20
    change_every_ms: int = 60
    metadata_version: str = "3.9-IV0"
    bound: int = 10_000
    multi_ops: int = 400
    delay_us: tuple[int, int] = (100, 3_000)
    faults_within_ms: int = 1_500
    snapshot_interval_ms: int = 3_600_000
    batch_size: int = 200
    moves_every_ms: int = 0
    client_changes_every_ms: int = 0
    """How often a client changes a quota or a credential; 0: never, and there are none."""
    acl_changes_every_ms: int = 0
    """How often a client adds or removes an access control entry; 0: never, and no authorizer."""


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
        faults=(crash, rng.choice(CRASHES[2:]), *more),
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
    """Draw a cluster on which every fault comes down, some more than once."""
    rng = Random(f"long scenario {seed}")
    faults = [*FAULTS, *rng.choices(FAULTS, k=4)]
    rng.shuffle(faults)
    return Scenario(
        faults=tuple(faults),
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
