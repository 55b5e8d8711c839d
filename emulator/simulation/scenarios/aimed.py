"""Draw a cluster whose faults all strike at chosen states of the migration driver.

At random times most faults come in dual write. Here a seed has one fault for each of some states,
in its first step or some milliseconds later; the first is pair number seed modulo the number
of pairs, so that many consecutive seeds aim at every pair.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from emulator.migration.states import State
from emulator.simulation.clients.taking import taking
from emulator.simulation.faults import RECIPES
from emulator.simulation.scenarios.scenario import Scenario, quick
from emulator.simulation.scenarios.swarm import DELAYS_US, SYNCS_US, after

# (state, fault), or (state, "") for all faults, that cannot be aimed at: the driver leaves INACTIVE
# in the step in which it enters it, and in UNINITIALIZED no broker has begun yet.
NOT_AIMED: Final = frozenset(
    {
        ("INACTIVE", ""),
        ("UNINITIALIZED", "broker-cut"),
        ("UNINITIALIZED", "broker-death"),
        ("UNINITIALIZED", "broker-shutdown"),
        ("UNINITIALIZED", "broker-leaves"),
    }
)
MORE: Final = 7
"""Faults beside the first, fewer when two have the same state."""
PAIRS: Final = tuple(
    (state.value, fault)
    for fault in RECIPES
    for state in State
    if not {(state.value, ""), (state.value, fault)} & NOT_AIMED
)


def aimed(seed: int) -> Scenario:
    """Draw a small cluster with its faults, near to ZooKeeper or far from it."""
    rng = Random(f"aimed {seed}")
    turn = PAIRS[seed % len(PAIRS)]
    chosen = {turn[0]: turn[1]}
    for state, fault in rng.sample(PAIRS, MORE):
        chosen.setdefault(state, fault)
    faults = tuple(
        f"{fault}@{state}{after(rng)}/{at}" for at, (state, fault) in enumerate(chosen.items())
    )
    return replace(
        quick(seed),
        faults=faults + taking("aimed", seed, 0.06),
        topics=rng.choice((3, 9)),
        changes=rng.choice((6, 12)),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=300,
    )
