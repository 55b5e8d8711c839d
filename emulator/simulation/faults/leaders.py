"""Faults that strike the leader of several voters in a migration."""

from __future__ import annotations

from typing import Final

from emulator.simulation.faults.strike import Recipe, Strike
from emulator.simulation.faults.voters import PARTED_MS, chosen


def zookeeper_parted(strike: Strike) -> None:
    """A voter and ZooKeeper do not reach each other, or one of both not; the voters do.

    For shorter or longer than the session timeout: ZooKeeper may end a session whose owner leads.
    """
    world, rng = strike.world, strike.rng
    one = chosen(strike).name
    ways = rng.choice(("both", "both", "in", "out"))
    pairs = [(one, "zookeeper")] * (ways != "in") + [("zookeeper", one)] * (ways != "out")
    strike.add_line(f"{one} and zookeeper are parted: {ways}")
    for pair in pairs:
        world.network.part(*pair)

    def join() -> None:
        strike.add_line(f"{one} and zookeeper are joined again")
        for pair in pairs:
            world.network.join(*pair)

    strike.after_ms(rng.choice(PARTED_MS), join)


LEADERS: Final[dict[str, Recipe]] = {"zookeeper-parted": zookeeper_parted}
