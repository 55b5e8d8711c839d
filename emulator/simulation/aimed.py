"""Draw a cluster whose faults all strike at chosen states of the migration driver.

At random times most faults come in dual write. Here a seed has one fault for each of some states;
one of them is the pair whose turn it is, so as many seeds as there are pairs aim at every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Final

from emulator.migration.states import State
from emulator.simulation.faults import RECIPES
from emulator.simulation.scenario import Scenario, quick
from emulator.simulation.swarm import DELAYS_US, SYNCS_US

MORE: Final = 7
"""Faults beside the one whose turn it is, less those whose state is taken."""
REASONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (
            "INACTIVE",
            "",
        ): "the driver leaves it in the step in which it enters it, and one that was "
        "deposed, which stays there, asks for nothing.",
        ("UNINITIALIZED", "broker-cut"): "no broker has connected yet.",
        ("UNINITIALIZED", "broker-death"): "no broker has begun yet.",
        ("UNINITIALIZED", "broker-shutdown"): "no broker has begun yet.",
        ("UNINITIALIZED", "broker-leaves"): "no broker has begun yet.",
    }
)
"""(state or "", fault or "") -> why a fault does nothing to what is under way there; "": any."""


def reason(state: str, fault: str) -> str:
    """Why a cell of the table of states and faults is empty; "" when it should not be."""
    keys = ((state, fault), (state, ""), ("", fault))
    return next((REASONS[key] for key in keys if key in REASONS), "")


PAIRS: Final = tuple(
    (state.value, fault) for fault in RECIPES for state in State if not reason(state.value, fault)
)


def aimed(seed: int) -> Scenario:
    """Draw a small cluster, near to ZooKeeper or far from it, whose turn it is."""
    rng = Random(f"aimed {seed}")
    turn = PAIRS[seed % len(PAIRS)]
    chosen = {turn[0]: turn[1]}
    for state, fault in rng.sample(PAIRS, MORE):
        chosen.setdefault(state, fault)
    faults = tuple(f"{fault}@{state}/{at}" for at, (state, fault) in enumerate(chosen.items()))
    return replace(
        quick(seed),
        faults=faults,
        topics=rng.choice((3, 9)),
        changes=rng.choice((6, 12)),
        zookeeper_delay_us=rng.choice(DELAYS_US),
        delay_us=rng.choice(DELAYS_US),
        sync_us=rng.choice(SYNCS_US),
        faults_within_ms=300,
    )
