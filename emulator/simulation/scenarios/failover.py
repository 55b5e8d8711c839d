"""Draw three controllers in a migration, and faults that end a leader's term in a chosen state.

The first fault ends, or may end, the term of a leader in one state of its driver; consecutive seeds
go through all states and such faults. Others strike at random, or at later leaders in any state.
In some seeds an operator finalises the migration meanwhile.
Clients ask for changes for a minute of virtual time from the end of the copy on.
"""

from __future__ import annotations

from random import Random
from typing import Final

from emulator.migration.states import State
from emulator.simulation.awaited import ELECTED_AGAIN
from emulator.simulation.clients.taking import taking
from emulator.simulation.faults.voters import LEADERS, VOTERS
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios.quorum import SYNCS_US, TRAFFIC_MS
from emulator.simulation.scenarios.scenario import Scenario

ENDS: Final = tuple(name for name in (*VOTERS, *LEADERS) if name != "voter-disk-slow")
"""Faults after which another voter leads, or may lead."""
PAIRS: Final = tuple((state.value, name) for name in ENDS for state in State)
OTHERS: Final = (
    "voter-disk-slow",
    "lost-reply",
    "lost-replies",
    "cut",
    "delayed-bytes",
    "network-slow",
    "zookeeper-freeze",
    "zookeeper-restart",
    "zookeeper-refuses",
    "stale-server",
    "session-expiry",
    "foreign-write",
    "foreign-znodes",
    "both-counters",
    "broker-cut",
    "broker-death",
    "broker-shutdown",
    "broker-leaves",
)
SHARE: Final = 0.07
"""How often a seed has one of those."""
FINALISED_SHARE: Final = 0.25
"""How often an operator finalises."""
AFTER_MS: Final = (0, 0, 1, 5, 20, 200)
DELAYS_US: Final = ((100, 500), (100, 3 * MS), (100, 3 * MS), (1 * MS, 60 * MS))
LEVELS: Final = ("3.4-IV0", "3.6-IV1", "3.7-IV0", "3.7-IV4", "3.9-IV0")


def failover(seed: int) -> Scenario:
    """Draw everything there is to draw."""
    rng = Random(f"failover {seed}")
    state, name = PAIRS[seed % len(PAIRS)]
    faults = [f"{name}@{state}{_after(rng)}"]
    faults += [f"{one}{_place(rng)}" for one in rng.choices(ENDS, k=rng.randint(0, 4))]
    faults += [f"{one}{_place(rng)}" for one in OTHERS if rng.random() < SHARE]
    change_every_ms = rng.choice((400, 1_000, 2_000))
    named = tuple(f"{one}/{index}" for index, one in enumerate(faults))

    def pace(chance: float, *every_ms: int) -> int:
        return rng.choice(every_ms) if rng.random() < chance else 0

    return Scenario(
        controllers=3,
        faults=(
            *named,
            *taking("failover", seed, 0.1),
            *_finalised(Random(f"failover finalise {seed}")),
        ),
        brokers=rng.randint(3, 6),
        topics=rng.choice((0, 2, 3, 9)),
        partitions_max=rng.choice((1, 4, 12)),
        changes=TRAFFIC_MS // change_every_ms,
        change_every_ms=change_every_ms,
        metadata_version=rng.choice(LEVELS),
        bound=rng.choice((0, 15, 60, 10_000)),
        multi_ops=rng.choice((3, 12, 400)),
        batch_size=rng.choice((3, 200)),
        delay_us=rng.choice(DELAYS_US),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=TRAFFIC_MS * 3 // 4,
        snapshot_interval_ms=rng.choice((2_000, 9_000, 3_600_000)),
        moves_every_ms=pace(0.3, 500, 2_000),
        client_changes_every_ms=pace(0.3, 500, 2_000),
        acl_changes_every_ms=pace(0.2, 500, 2_000),
        token_changes_every_ms=pace(0.2, 1_000, 3_000),
        rolls=rng.choice((0, 0, 0, 1, 3)),
    )


def _finalised(rng: Random) -> tuple[str, ...]:
    """An operator; from a stream of its own, so that a seed has the other faults that it had."""
    return (f"finalise{_place(rng)}/f",) if rng.random() < FINALISED_SHARE else ()


def _place(rng: Random) -> str:
    """A fault strikes at random, or a later leader: when it is elected, or in a state."""
    if rng.random() < 0.5:
        return ""
    states = (ELECTED_AGAIN, *(state.value for state in State))
    return f"@{rng.choice(states)}{_after(rng)}"


def _after(rng: Random) -> str:
    after_ms = rng.choice(AFTER_MS)
    return f"+{after_ms}" if after_ms else ""
