"""The table of states."""

from __future__ import annotations

import pytest

from emulator.migration.states import NEXT, State, check_change, mermaid


def test_every_state_can_be_reached_and_left() -> None:
    assert set(NEXT) == set(State)
    reached = {after for afters in NEXT.values() for after in afters}
    assert reached == set(State) - {State.UNINITIALIZED}
    with pytest.raises(AssertionError):
        check_change(State.WAIT_FOR_BROKERS, State.ZK_MIGRATION)


def test_the_diagram_has_every_edge() -> None:
    edges = [line for line in mermaid().splitlines() if "-->" in line]
    assert len(edges) == 1 + sum(len(afters) for afters in NEXT.values())
