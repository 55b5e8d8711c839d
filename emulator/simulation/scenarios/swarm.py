"""Draw a cluster in which almost every feature may be on or off, large or small, fast or slow.

A mix that always has everything hides failures that only a part of it shows: with ZooKeeper frozen
most of the time hardly any multi is ever in flight. So each seed draws which faults and which
classes of requests it has, and how much of each.

Source: Groce, Zhang, Eide, Chen, Regehr: Swarm Testing, ISSTA 2012; FoundationDB's simulator.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from emulator.simulation.clients.taking import taking
from emulator.simulation.faults import RECIPES
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios.scenario import Scenario

LEVELS: Final = (
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV2",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV2",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
)
DELAYS_US: Final = (
    (100, 500),
    (100, 3 * MS),
    (100, 3 * MS),
    (1 * MS, 60 * MS),
    (100, 200 * MS),
)
SYNCS_US: Final = ((200, 4 * MS), (200, 4 * MS), (5 * MS, 60 * MS), (50 * MS, 800 * MS))
AFTER_MS: Final = (0, 0, 0, 1, 5, 20, 60, 200)
ROLLS: Final = (0, 0, 0, 0, 0, 1, 3, 9)
REFUSALS: Final = (0.0, 0.0, 0.0, 0.0, 0.0, 0.1)
FRAMES: Final = (0, 0, 0, 0, 0, 0, 30_000, 12_000)
LATER: Final = ("disk-forgets", "disk-rots", "rollback")
"""Drawn from a stream of their own, so that a seed still has the other faults that it had."""
STATES: Final = (
    "WAIT_FOR_BROKERS",
    "BECOME_CONTROLLER",
    "ZK_MIGRATION",
    "SYNC_KRAFT_TO_ZK",
    "KRAFT_CONTROLLER_TO_BROKER_COMM",
    "DUAL_WRITE",
)


def swarm(seed: int) -> Scenario:
    """Draw everything there is to draw."""
    rng = Random(f"swarm {seed}")
    share = rng.choice((0.04, 0.08, 0.15))
    drawn = [name for name in RECIPES if name not in LATER]
    kinds = [name for name in drawn if rng.random() < share] or [rng.choice(drawn)]
    names = [name for name in kinds for _ in range(rng.choice((1, 1, 1, 2)))]
    faults = [f"{name}{_state(rng)}/{index}" for index, name in enumerate(names)]
    later = Random(f"swarm later {seed}")
    keys = {name: name.removeprefix("disk-") for name in LATER}
    faults += [f"{name}{_state(later)}/{keys[name]}" for name in LATER if later.random() < share]

    def pace(chance: float, *every_ms: int) -> int:
        return rng.choice(every_ms) if rng.random() < chance else 0

    chosen = Scenario(
        faults=(*faults, *taking("swarm", seed, 0.06)),
        brokers=rng.choice((1, 2, 3, 3, 4, 5)),
        topics=rng.choice((0, 1, 2, 3, 5, 9)),
        partitions_max=rng.choice((1, 4, 4, 12, 40)),
        changes=rng.choice((6, 12, 20, 30)),
        change_every_ms=rng.choice((5, 15, 40, 80, 200)),
        metadata_version=rng.choice(LEVELS),
        bound=rng.choice((0, 10, 15, 40, 200, 10_000)),
        multi_ops=rng.choice((3, 12, 60, 400)),
        delay_us=rng.choice(DELAYS_US),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=rng.choice((300, 1_500, 4_000)),
        snapshot_interval_ms=rng.choice((300, 900, 3_600_000)),
        batch_size=rng.choice((1, 3, 20, 200)),
        moves_every_ms=pace(0.5, 15, 40, 120),
        client_changes_every_ms=pace(0.5, 15, 60),
        acl_changes_every_ms=pace(0.4, 15, 60),
        token_changes_every_ms=pace(0.3, 30, 90),
        hostile_every_ms=pace(0.3, 20, 100),
        feature_changes_every_ms=pace(0.2, 50, 200),
        rolls=Random(f"swarm rolls {seed}").choice(ROLLS),
        envelope_refusals=Random(f"swarm refusals {seed}").choice(REFUSALS),
        zookeeper_frame_bytes=Random(f"swarm frames {seed}").choice(FRAMES),
    )
    if chosen.zookeeper_frame_bytes:
        # What hostile clients ask for may be longer than such a server takes, and stay unwritten.
        return replace(chosen, hostile_every_ms=0)
    return chosen


def _state(rng: Random) -> str:
    """Most faults come at random; some when the migration has reached a state."""
    return f"@{rng.choice(STATES)}{after(rng)}" if rng.random() < 0.3 else ""


def after(rng: Random) -> str:
    """When a fault that waits for a state begins: in its first step, or so many ms later."""
    after_ms = rng.choice(AFTER_MS)
    return f"+{after_ms}" if after_ms else ""
