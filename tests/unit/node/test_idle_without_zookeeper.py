"""An idle controller without ZooKeeper does not fill its memory."""

from __future__ import annotations

import pytest

from emulator.controller import machine
from tests.unit.node.test_machine import dual_writing


@pytest.mark.requirement("W02")
def test_no_ops_become_rare_and_are_frequent_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "NO_OPS_AT_PACE", 20)
    world = dual_writing()
    world.advance(5_000)
    world.held = []
    begin = world.node.raft.high_watermark
    world.advance(120_000)
    after = world.node.raft.high_watermark - begin
    assert after < 110, "240 at the configured interval"
    driver = world.node.driver
    assert not driver.propagation_gate._unwritten, "there is nothing in them to tell"
    world.held = None
    world.advance(30_000)
    begin = world.node.raft.high_watermark
    world.advance(10_000)
    assert world.node.raft.high_watermark - begin == 20
