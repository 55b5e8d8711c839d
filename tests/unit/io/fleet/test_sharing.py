"""The brokers of a fleet share what they are told alike."""

from __future__ import annotations

from dataclasses import replace

from emulator.broker.zookeeper.shared_control import SharedControl
from tests.unit.io.fleet.test_fleet import PLAN, ran


def test_the_brokers_of_a_fleet_read_control_requests_by_one_decoder() -> None:
    found = ran(replace(PLAN, brokers=2, topics=0, seconds=0.1))
    decoders = [member.life.node.connections.bodies.decoder for member in found.fleet.members]
    shared = {id(decoder.__self__) for decoder in decoders}  # type: ignore[union-attr]
    assert len(shared) == 1
    assert isinstance(decoders[0].__self__, SharedControl)  # type: ignore[union-attr]
