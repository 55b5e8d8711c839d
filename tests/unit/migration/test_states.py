"""The table of states."""

from __future__ import annotations

from functools import partial

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration import states
from emulator.migration.driver import MigrationDriver
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import NEXT, DriverEvent, State, mermaid
from emulator.seam import state_after
from tests.kit.tables import Watched, check_pairs
from tests.unit.migration.test_driver_terms import STATES, OneOfSeveral, begun
from wire import records as r

CLAIMED = STATES[1:]


def _held_in(state: State, patch: pytest.MonkeyPatch) -> OneOfSeveral:
    """What it sends to ZooKeeper in this state is on its way, and what it sends to brokers too."""
    if state is State.KRAFT_CONTROLLER_TO_BROKER_COMM:
        patch.setattr(MigrationDriver, "_after_propagation", lambda _driver, _now_ms: [])
    world = begun(state)
    assert world.driver.state is state
    return world


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, states)
    waits = OneOfSeveral().follow()
    assert waits.driver.state is State.INACTIVE
    waits.lead()
    assert waits.driver.state is State.WAIT_FOR_CONTROLLER_QUORUM
    waits.resign()
    assert waits.driver.state is State.INACTIVE
    for state in STATES:
        with monkeypatch.context() as patch:
            world = _held_in(state, patch)
            world.resign()
            assert world.driver.state is State.INACTIVE
    for state in CLAIMED:
        with monkeypatch.context() as patch:
            world = _held_in(state, patch)
            world.driver.write_behind.mode = Mode.DEPOSED
            world.driver.tick(world.now_ms)
            assert world.driver.state is State.INACTIVE
    world = begun()
    world.resign()
    world.journal.epoch += 1
    world.append(r.NoOpRecord())
    world.lead()
    world.reach(State.DUAL_WRITE, 10_000)
    led = [State.INACTIVE, State.WAIT_FOR_CONTROLLER_QUORUM]
    write = [State.SYNC_KRAFT_TO_ZK, State.KRAFT_CONTROLLER_TO_BROKER_COMM, State.DUAL_WRITE]
    first = [*led, State.WAIT_FOR_BROKERS, State.BECOME_CONTROLLER, State.ZK_MIGRATION, *write]
    second = [*led, State.BECOME_CONTROLLER, *write]
    assert world.states == [state.value for state in (*first, *second)]
    world.resign()
    world.append(r.ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION))
    world.lead()
    assert world.driver.state is State.INACTIVE
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    check_pairs(NEXT, State, DriverEvent, partial(state_after, NEXT))


def test_the_diagram_has_every_row() -> None:
    lines = mermaid().splitlines()
    events = [event for line in lines for event in line.partition(": ")[2].split(", ") if event]
    assert len(events) == len(NEXT)
    for (state, event), then in NEXT.items():
        (line,) = (one for one in lines if f" {state.value} --> {then.value}: " in one)
        assert event.value in line
