"""Misfortune at a chosen state of the migration driver."""

import pytest

from emulator.migration.states import State
from emulator.simulation import faults
from emulator.simulation.scenario import Scenario

PASSED = (
    State.WAIT_FOR_BROKERS,
    State.BECOME_CONTROLLER,
    State.ZK_MIGRATION,
    State.SYNC_KRAFT_TO_ZK,
    State.KRAFT_CONTROLLER_TO_BROKER_COMM,
    State.DUAL_WRITE,
)


@pytest.fixture
def strike(monkeypatch):
    """Registers a fault "strike" that begins as soon as the driver is in a state."""

    def register(state, what):
        struck = []

        def watch(world):
            def stepped(process, appended, real=world.checkers[0].stepped):
                if not struck and process.node.driver.state is state:
                    struck.append(world.scheduler.now_us)
                    world.scheduler.tell("fault", f"strikes in {state.value}")
                    what(world)
                real(process, appended)

            world.checkers[0].stepped = stepped

        monkeypatch.setitem(faults.RECIPES, "strike", watch)
        return struck

    return register


@pytest.mark.slow
@pytest.mark.requirement("U01")
@pytest.mark.parametrize("metadata_version", ["3.4-IV0", "3.9-IV0"])
@pytest.mark.parametrize("effects", range(1, 31, 3))
def test_a_crash_in_the_copy_begins_it_anew(simulate, strike, effects, metadata_version):
    copied = Scenario(
        faults=("strike",),
        topics=12,
        changes=0,
        batch_size=3,
        faults_within_ms=0,
        metadata_version=metadata_version,
    )
    struck = strike(State.ZK_MIGRATION, lambda world: world.process.crash_after(effects))
    report = simulate(effects, copied)
    assert struck
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
def test_zookeeper_stops_in_any_state_and_the_end_is_the_same(simulate, strike, state, seed):
    struck = strike(state, faults.zookeeper_freeze)
    report = simulate(seed, Scenario(faults=("strike",), faults_within_ms=0, changes=15))
    assert struck
    assert not report.failure, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("state", PASSED, ids=lambda state: state.value)
@pytest.mark.parametrize("seed", range(3))
def test_a_session_ends_in_any_state_and_the_end_is_the_same(simulate, strike, state, seed):
    struck = strike(state, faults.session_expiry)
    report = simulate(seed, Scenario(faults=("strike",), faults_within_ms=0, changes=15))
    assert struck
    assert not report.failure, str(report)


def _fields(scenario):
    return {name: getattr(scenario, name) for name in scenario.__dataclass_fields__}
