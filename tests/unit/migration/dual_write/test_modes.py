"""The table of the write-behind's modes, and that nothing passes it by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.migration.dual_write import write_behind
from emulator.migration.dual_write.modes import NEXT, ORDERLY, Mode, check_mode, mermaid
from tests.unit.migration.world import World


def test_every_mode_can_be_reached_and_left() -> None:
    assert set(NEXT) == set(Mode)
    for mode in Mode:
        assert any(mode in after for before, after in NEXT.items() if before is not mode), mode
        assert Mode.STOPPED in NEXT[mode], "leadership may be lost at any time"


def test_a_doubt_may_interrupt_what_is_gone_back_to() -> None:
    for mode in ORDERLY:
        assert {Mode.DOUBT, Mode.SETTLING} <= NEXT[mode]
        assert mode in NEXT[Mode.SETTLING]


def test_a_change_that_the_table_does_not_list_stops_the_node() -> None:
    with pytest.raises(AssertionError, match="from deposed to running"):
        check_mode(Mode.DEPOSED, Mode.RUNNING)
    world = World().dual_write()
    with pytest.raises(AssertionError, match="from running to running"):
        world.driver.write_behind._enter(Mode.RUNNING)


def test_the_mode_is_entered_in_one_place() -> None:
    text = Path(write_behind.__file__).read_text()
    assert re.findall(r"self\.mode(?:, \S+)? = (.*)", text) == ['Mode.STOPPED, ""', "mode"]


def test_the_diagram_has_every_edge_but_those_to_stopped() -> None:
    edges = [line for line in mermaid().splitlines() if "-->" in line]
    wanted = sum(len(after - {Mode.STOPPED, before}) for before, after in NEXT.items())
    assert len(edges) == 1 + wanted
