"""Faults of connections."""

from __future__ import annotations

from emulator.simulation.faults.strike import Strike
from emulator.simulation.models.scheduler import MS


def cut(strike: Strike) -> None:
    """The connection to ZooKeeper breaks; requests and answers under way are lost."""
    for link in strike.world.network.between("controller", "zookeeper"):
        strike.world.network.cut(link)


def delayed_bytes(strike: Strike) -> None:
    """The network keeps what is sent to ZooKeeper, the controller loses the connection, or dies.

    What was kept arrives when the controller, or its next life, has connected anew. At times the
    connection on which it ends its old session breaks as well.
    """
    world = strike.world
    released: list[bool] = []
    held = world.network.between("controller", "zookeeper")
    for link in held:
        world.network.hold(link, world.zookeeper)

    def lose() -> None:
        if strike.rng.random() < 0.5:
            world.process.crash()
            return
        for link in held:
            world.network.mute(link, link.opener)
            if link.opener.name in link.open:
                link.open.discard(link.opener.name)
                link.opener.closed(link.conn, "cut")
        if strike.rng.random() < 0.5:
            cut_next(strike.rng.randint(0, strike.rng.choice((10, 60, 200))))

    def cut_next(after_ms: int) -> None:
        new = [one for one in world.network.between("controller", "zookeeper") if one not in held]
        if new:
            world.after_ms(after_ms, lambda: world.network.cut(new[0]))
        elif not released:
            world.after_ms(1, lambda: cut_next(after_ms))

    def release() -> None:
        released.append(True)
        world.scheduler.add_line("network", "delayed bytes arrive at ZooKeeper")
        for link in held:
            world.network.release(link, world.zookeeper)

    strike.after_ms(strike.rng.randint(5, 150), lose)
    strike.after_ms(strike.rng.randint(200, 3_000), release)


def broker_cut(strike: Strike) -> None:
    """A connection of a broker breaks: to the controller, from it, or to ZooKeeper."""
    network = strike.world.network
    links = [
        *network.between("controller", "broker"),
        *network.between("broker", "controller"),
        *network.between("broker", "zookeeper"),
    ]
    if links:
        network.cut(strike.rng.choice(links))


def network_slow(strike: Strike) -> None:
    """Messages to and from ZooKeeper, or all others, take up to 5 s, for a while."""
    network, scenario = strike.world.network, strike.world.scenario
    usual = {"zookeeper": scenario.zookeeper_delay_us, "": scenario.delay_us}
    place = strike.rng.choice(("zookeeper", ""))
    slowest_ms = strike.rng.choice((500, 2_000, 5_000))
    strike.add_line(f"up to {slowest_ms} ms to {place or 'all but zookeeper'}")
    network.slow(place, (100, slowest_ms * MS))
    mended_ms = strike.rng.choice((500, 3_000, 12_000))
    strike.after_ms(mended_ms, lambda: network.slow(place, usual[place]))
