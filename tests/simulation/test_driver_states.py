"""Misfortune at a chosen state of the migration driver."""

from dataclasses import replace

import pytest

from emulator.migration.states import State
from emulator.simulation.faults import RECIPES
from emulator.simulation.scenarios.scenario import Scenario

PASSED = (
    State.WAIT_FOR_BROKERS,
    State.BECOME_CONTROLLER,
    State.ZK_MIGRATION,
    State.SYNC_KRAFT_TO_ZK,
    State.KRAFT_CONTROLLER_TO_BROKER_COMM,
    State.DUAL_WRITE,
)
MANY = Scenario(topics=14, partitions_max=14, changes=15)
"""So many partitions that brokers are not told of all in one step: each state can be struck."""


@pytest.mark.slow
@pytest.mark.requirement("U01")
@pytest.mark.parametrize("metadata_version", ["3.4-IV0", "3.9-IV0"])
@pytest.mark.parametrize("effects", range(1, 31, 3))
def test_a_crash_in_the_copy_begins_it_anew(simulate, monkeypatch, effects, metadata_version):
    monkeypatch.setitem(RECIPES, "strike", lambda strike: strike.world.process.crash_after(effects))
    copied = Scenario(
        faults=("strike@ZK_MIGRATION",),
        topics=12,
        changes=0,
        batch_size=3,
        faults_within_ms=0,
        metadata_version=metadata_version,
    )
    report = simulate(effects, copied)
    assert struck(report)
    assert not report.failure, str(report)
    assert len(report.claims) == 2, str(report)
    whole = simulate(effects, Scenario(**{**_fields(copied), "faults": ()}))
    assert not whole.failure, str(whole)
    assert report.topics == whole.topics
    assert len(whole.topics) >= 11


@pytest.mark.slow
@pytest.mark.requirement("U13")
@pytest.mark.parametrize("state", PASSED, ids=lambda state: state.value)
@pytest.mark.parametrize("seed", range(3))
def test_zookeeper_stops_in_any_state_and_the_end_is_the_same(simulate, state, seed):
    report = simulate(seed, replace(MANY, faults=(f"zookeeper-freeze@{state.value}",)))
    assert struck(report)
    assert not report.failure, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("state", PASSED, ids=lambda state: state.value)
@pytest.mark.parametrize("seed", range(3))
def test_a_session_ends_in_any_state_and_the_end_is_the_same(simulate, state, seed):
    report = simulate(seed, replace(MANY, faults=(f"session-expiry@{state.value}",)))
    assert struck(report)
    assert not report.failure, str(report)


def struck(report):
    """Whether the fault that waits for a state came."""
    return any(" fault " in line and "@" in line for line in report.lines)


def _fields(scenario):
    return {name: getattr(scenario, name) for name in scenario.__dataclass_fields__}
