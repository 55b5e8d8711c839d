"""Draw a cluster in KRaft mode with three controllers, and faults of which a quorum must know.

Clients ask for changes for a minute of virtual time; what they ask for and which faults there are
is on or off by the seed, as in ``swarm``.
"""

from __future__ import annotations

from random import Random
from typing import Final

from emulator.simulation.awaited import ELECTED, ELECTED_AGAIN
from emulator.simulation.faults.voters import VOTERS
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios.scenario import Scenario

TRAFFIC_MS: Final = 60_000
AFTER_MS: Final = (0, 1, 5, 20, 200)
OTHERS: Final = ("broker-death", "broker-shutdown", "broker-cut", "network-slow")
"""Faults that are not those of voters."""
LEVELS: Final = ("3.4-IV0", "3.6-IV1", "3.7-IV4", "3.9-IV0")
DELAYS_US: Final = ((100, 500), (100, 3 * MS), (100, 3 * MS), (1 * MS, 60 * MS))
SYNCS_US: Final = ((200, 4 * MS), (200, 4 * MS), (5 * MS, 60 * MS))


def quorum(seed: int) -> Scenario:
    """Draw everything there is to draw."""
    rng = Random(f"quorum {seed}")
    kinds = rng.sample(sorted(VOTERS), rng.randint(1, 5))
    kinds += [name for name in OTHERS if rng.random() < 0.15]
    names = [name for name in kinds for _ in range(rng.choice((1, 1, 2, 3)))]
    change_every_ms = rng.choice((100, 250, 600))

    def pace(chance: float, *every_ms: int) -> int:
        return rng.choice(every_ms) if rng.random() < chance else 0

    return Scenario(
        controllers=3,
        migration=False,
        faults=tuple(f"{name}{_state(rng)}/{index}" for index, name in enumerate(names)),
        brokers=rng.randint(3, 6),
        topics=0,
        partitions_max=rng.choice((1, 4, 12)),
        changes=TRAFFIC_MS // change_every_ms,
        change_every_ms=change_every_ms,
        metadata_version=rng.choice(LEVELS),
        delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=TRAFFIC_MS * 3 // 4,
        snapshot_interval_ms=rng.choice((2_000, 9_000, 3_600_000)),
        moves_every_ms=pace(0.3, 250, 900),
        client_changes_every_ms=pace(0.3, 250, 900),
        acl_changes_every_ms=pace(0.2, 250, 900),
        token_changes_every_ms=pace(0.2, 400, 900),
    )


def _state(rng: Random) -> str:
    """Most faults come at random; some when a leader has just been elected."""
    if rng.random() < 0.7:
        return ""
    return f"@{rng.choice((ELECTED, ELECTED_AGAIN))}+{rng.choice(AFTER_MS)}"
