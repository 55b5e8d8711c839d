"""The simulated broker among faults that meet."""

from __future__ import annotations

import pytest

from emulator.simulation.models.broker_settings import REQUEST_MS
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.scenarios.settings import FIRST_ID, voters
from emulator.simulation.world import World


class SilentController:
    """Takes connections and answers nothing."""

    name = "controller#1"

    def __init__(self) -> None:
        self.conns: list[int] = []

    def accepted(self, conn: int) -> None:
        self.conns.append(conn)

    def connected(self, conn: int) -> None:
        raise AssertionError("it connects to nobody")

    def received(self, conn: int, data: bytes) -> None:
        """It never answers."""

    def closed(self, conn: int, why: str) -> None:
        """It does not mind."""


@pytest.mark.parametrize("before_ms", range(5))
def test_a_connection_that_is_cut_while_its_answer_is_given_up_is_lost_once(before_ms: int) -> None:
    """The end of a cut connection arrived when the broker had already left it, and had no owner."""
    world = World(1, Scenario(brokers=1, delay_us=(3 * MS, 3 * MS)))
    controller = SilentController()
    world.network.listen(voters(world.scenario)[FIRST_ID], controller)
    world.lives.start(0)
    while not controller.conns:
        world.scheduler.step()
    connected_us = world.scheduler.now_us

    def cut() -> None:
        for link in world.network.between("broker", "controller"):
            world.network.cut(link)

    world.scheduler.after((3 + REQUEST_MS - before_ms) * MS, cut)
    end_us = connected_us + int(1.5 * REQUEST_MS * MS)
    while (next_us := world.scheduler.next_us) is not None and next_us <= end_us:
        world.scheduler.step()
    # The connection for the log was made once more, not twice; no leader is known to register with.
    assert len(controller.conns) == 2
    assert world.brokers[0].alive
