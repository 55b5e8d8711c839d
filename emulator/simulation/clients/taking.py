"""Which faults take the claim from a controller, and how every kind of cluster draws them."""

from __future__ import annotations

from random import Random
from typing import Final

TAKING: Final = ("epoch-bumped", "controller-deleted", "controller-foreign", "zookeeper-restored")
AFTER_MS: Final = (0, 5, 200, 1_000)
STATES: Final = (
    "BECOME_CONTROLLER",
    "ZK_MIGRATION",
    "SYNC_KRAFT_TO_ZK",
    "DUAL_WRITE",
    "DUAL_WRITE",
)


def taking(kind: str, seed: int, share: float) -> tuple[str, ...]:
    """Draw some of them, each with this probability, as texts for a scenario.

    From a stream of their own, so that a seed still has the other faults that it had. Half strike
    at a random time, the others when the migration has reached a state, or a little later.

    >>> taking("swarm", 3, 0.5)
    ('epoch-bumped@DUAL_WRITE+1000/t0',)
    """
    rng = Random(f"{kind} taking {seed}")
    found = []
    for index, name in enumerate(TAKING):
        if rng.random() < share:
            aimed = f"@{rng.choice(STATES)}+{rng.choice(AFTER_MS)}" if rng.random() < 0.5 else ""
            found.append(f"{name}{aimed}/t{index}")
    return tuple(found)
