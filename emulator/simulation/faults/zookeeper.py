"""Faults of ZooKeeper, and writes of other clients to it."""

from __future__ import annotations

from emulator.simulation.faults.strike import Strike
from emulator.simulation.world import MIGRATION
from emulator.zookeeper.ops import Create, SetData

LOCKABLE = ("/brokers/topics", "/config/topics", "/config/brokers", "/kraft_bridge", "/migration")


def lost_reply(strike: Strike) -> None:
    """ZooKeeper does what is asked; the answer is lost with the connection."""
    strike.world.zookeeper.swallow_replies = 1


def lost_replies(strike: Strike) -> None:
    """The same three times, so that what follows the first loss is hit as well."""
    strike.world.zookeeper.swallow_replies = 3


def zookeeper_freeze(strike: Strike) -> None:
    """SIGSTOP, for shorter or longer than the session timeout."""
    world = strike.world
    if world.zookeeper.frozen:
        return
    world.zookeeper.freeze()
    strike.after_ms(strike.rng.choice((300, 2_000, 5_000, 9_000)), world.zookeeper.thaw)


def zookeeper_restart(strike: Strike) -> None:
    """SIGKILL of ZooKeeper; what was not applied is lost, tree and sessions stay."""
    if not strike.world.zookeeper.frozen:
        strike.world.zookeeper.restart()


def session_expiry(strike: Strike) -> None:
    """ZooKeeper ends the controllers' sessions, at times those of brokers too."""
    strike.world.zookeeper.expire_sessions(brokers=strike.rng.random() < 0.3)


def foreign_write(strike: Strike) -> None:
    """Somebody writes ``/migration``, with the value it has: one counter moves alone."""
    node = strike.world.tree.nodes.get("/migration")
    if node is not None and not strike.world.zookeeper.frozen:
        strike.world.foreign_write(SetData("/migration", node.data))


def both_counters(strike: Strike) -> None:
    """Somebody writes both counters, with the values they have, while a multi is on its way.

    The multi behind it then takes these writes for those of the multi it follows, so there may be a
    hole until the controller, which knows of the refused one, has compared everything.
    """
    world = strike.world
    nodes = world.tree.nodes
    if "/kraft_bridge" not in nodes or world.zookeeper.frozen:
        return
    times = strike.rng.choice((1, 1, 2))

    def underway() -> bool:
        return world.zookeeper.has_request_of_a_controller and not world.zookeeper.frozen

    def write() -> None:
        world.counters_feigned = "/kraft_bridge" in nodes
        for path in ("/migration", "/kraft_bridge") * times:
            if path in nodes:
                world.foreign_write(SetData(path, nodes[path].data))

    def look(tries: int) -> None:
        if underway() or not tries:
            write()
        else:
            world.scheduler.after(100, lambda: look(tries - 1))

    strike.after_ms(1_000, lambda: None)
    look(9_000)


def foreign_znodes(strike: Strike) -> None:
    """Somebody makes znodes of his own: beside Kafka's, among them, and below a topic's."""
    world = strike.world
    if world.zookeeper.frozen:
        return
    topics = sorted(world.tree.nodes["/brokers/topics"].children)
    paths = [f"/consumers/{strike.rng.randint(0, 9)}", "/config/changes/odd", "/admin/odd"]
    if topics:
        topic = strike.rng.choice(topics)
        if world.facts.migration_state == MIGRATION:
            # By a broker that does not know yet who the controller is.
            paths.append(f"/admin/delete_topics/{topic}")
        base = f"/brokers/topics/{topic}"
        paths += [f"{base}/odd", f"{base}/partitions/0/state/odd", f"{base}/partitions/0/odd"]
    for path in strike.rng.sample(paths, strike.rng.randint(1, len(paths))):
        if world.foreign_write(Create(path, b"{}")):
            world.foreign.add(path)


def zookeeper_refuses(strike: Strike) -> None:
    """ZooKeeper's ACLs forbid writing a part of the tree, for a while."""
    tree = strike.world.tree
    places = strike.rng.sample(LOCKABLE, strike.rng.randint(1, 2))
    locked = {path for path in tree.nodes for place in places if path.startswith(place)}
    locked -= tree.read_only
    tree.read_only |= locked
    strike.add_line(f"no right to write {places}")

    def unlock() -> None:
        tree.read_only -= locked
        strike.add_line("the right to write is back")

    strike.after_ms(strike.rng.choice((200, 2_000, 8_000)), unlock)


def stale_server(strike: Strike) -> None:
    """A server of the ensemble lags: its clients read an old tree until they sync."""
    world = strike.world
    model = world.zookeeper.model
    if model.lagging:
        return
    model.lag_behind()

    def reconnect() -> None:
        if strike.rng.random() < 0.5:
            world.process.crash()
        else:
            for link in world.network.between("controller", "zookeeper"):
                world.network.cut(link)

    strike.after_ms(strike.rng.randint(50, 1_000), reconnect)
    strike.after_ms(strike.rng.randint(1_000, 5_000), model.catch_up)
