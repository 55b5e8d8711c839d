"""The simulated broker among faults that meet."""

from __future__ import annotations

from random import Random

import pytest

from emulator.broker.stand_in.observer import FollowedLog
from emulator.simulation import zookeeper_mode
from emulator.simulation.broker import PACE, SimulatedBroker
from emulator.simulation.network import Network
from emulator.simulation.scheduler import EPOCH_MS, MS, Scheduler
from emulator.simulation.zookeeper import ZooKeeperModel

ADDRESS = ("controller", 9093)


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
    scheduler = Scheduler()
    network = Network(scheduler, Random(1), (3 * MS, 3 * MS))
    controller = SilentController()
    network.listen(ADDRESS, controller)
    tree = ZooKeeperModel(Random(2)).tree
    zookeeper_mode.fill(tree, Random(4), brokers=1, topics=0, now_ms=EPOCH_MS)
    broker = SimulatedBroker(
        1,
        1,
        "a-cluster",
        ADDRESS,
        FollowedLog(),
        tree,
        scheduler,
        network,
        Random(3),
        told=lambda *_: None,
        fetched=lambda *_: None,
        forgotten=lambda _: None,
    )
    broker.start()

    def cut() -> None:
        for link in network.between("broker", "controller"):
            network.cut(link)

    connected_ms = 6
    scheduler.after((connected_ms + PACE.reply_ms - before_ms) * MS, cut)
    while (next_us := scheduler.next_us) is not None and next_us <= 2 * PACE.reply_ms * MS:
        scheduler.step()
    # The log and the registration have a connection each; both were made once more, not twice.
    assert len(controller.conns) == 4
    assert broker.alive
