"""What of a simulation is a cluster, so that a proof by it counts as one by simulation."""

from typing import Final

from emulator.simulation.world import World

SEVERAL: Final = 2
"""One machine that talks to a model of ZooKeeper and to nobody else is no cluster."""


def is_cluster(world: World) -> bool:
    """Whether several of the product's machines ran in it, controllers or brokers, over time."""
    machines = sum(host.lives > 0 for host in world.hosts.values()) + len(world.brokers)
    return machines >= SEVERAL and world.scheduler.now_us > 0
