"""Named faults: each a recipe that begins now and mends itself after a while.

None of them breaks a promise of ZooKeeper, TCP or a disk: everything here was seen, or may be seen,
with the real ones (``docs/simulation.md`` says where).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from emulator.zookeeper.ops import SetData

if TYPE_CHECKING:
    from emulator.simulation.world import World

Fault = Callable[["World"], None]
FOREIGN_SESSION: Final = 1


def controller_crash(world: World) -> None:
    """SIGKILL between two steps; another life begins on the same disk."""
    world.process.crash()


def controller_crash_in_step(world: World) -> None:
    """SIGKILL between two effects of one step: some files written, some bytes sent."""
    world.process.crash_after(world.rng.randint(1, 40))


def controller_pause(world: World) -> None:
    """A machine is paused, another takes over its disk; then the first runs on, knowing nothing.

    The same as a second controller with an older epoch: its next write must fail and be its last.
    It wakes only after a later one has claimed: before that no other voter could have stopped it
    from committing, and with one voter the two logs would part.
    """
    if not world.process.alive:
        return
    old = world.take_over()

    def thaw() -> None:
        if world.claimed_kraft_epoch > old.node.raft.leader_epoch:
            old.thaw()
        else:
            world.after_ms(100, thaw)

    world.after_ms(world.rng.randint(50, 2_000), thaw)


def lost_reply(world: World) -> None:
    """ZooKeeper does what is asked; the answer is lost with the connection."""
    world.zookeeper.swallow_replies = 1


def lost_replies(world: World) -> None:
    """The same three times, so that what follows the first loss is hit as well."""
    world.zookeeper.swallow_replies = 3


def cut(world: World) -> None:
    """The connection to ZooKeeper breaks; requests and answers under way are lost."""
    for link in world.network.between("controller", "zookeeper"):
        world.network.cut(link)


def delayed_bytes(world: World) -> None:
    """The network keeps what is sent to ZooKeeper, the controller loses the connection, or dies.

    What was kept arrives when the controller, or its next life, has connected anew.
    """
    held = world.network.between("controller", "zookeeper")
    for link in held:
        world.network.hold(link, world.zookeeper)

    def lose() -> None:
        if world.rng.random() < 0.5:
            world.process.crash()
            return
        for link in held:
            world.network.mute(link, link.opener)
            if link.opener.name in link.open:
                link.open.discard(link.opener.name)
                link.opener.closed(link.conn, "cut")

    def release() -> None:
        world.scheduler.tell("network", "delayed bytes arrive at ZooKeeper")
        for link in held:
            world.network.release(link, world.zookeeper)

    world.after_ms(world.rng.randint(5, 150), lose)
    world.after_ms(world.rng.randint(200, 3_000), release)


def zookeeper_freeze(world: World) -> None:
    """SIGSTOP, for shorter or longer than the session timeout."""
    if world.zookeeper.frozen:
        return
    world.zookeeper.freeze()
    world.after_ms(world.rng.choice((300, 2_000, 5_000, 9_000)), world.zookeeper.thaw)


def session_expiry(world: World) -> None:
    """ZooKeeper ends the controller's session."""
    world.zookeeper.expire_sessions(frozenset())


def foreign_write(world: World) -> None:
    """Somebody writes ``/migration``, with the value it has: one counter moves alone."""
    node = world.tree.nodes.get("/migration")
    if node is None or world.zookeeper.frozen:
        return
    world.tree.write(SetData("/migration", node.data), FOREIGN_SESSION, world.scheduler.now_ms)
    world.note_foreign_write()


def zookeeper_restart(world: World) -> None:
    """SIGKILL of ZooKeeper; what was not applied is lost, tree and sessions stay."""
    if not world.zookeeper.frozen:
        world.zookeeper.restart()


def broker_death(world: World) -> None:
    """SIGKILL of a broker; it comes back, at times before its session is over."""
    broker = world.rng.choice(sorted(world.brokers.values(), key=lambda one: one.id))
    if broker.alive:
        world.kill_broker(broker)


def broker_cut(world: World) -> None:
    """A controller's channel to a broker, or a broker's to the controller, breaks."""
    links = [
        *world.network.between("controller", "broker"),
        *world.network.between("broker", "controller"),
    ]
    if links:
        world.network.cut(world.rng.choice(links))


RECIPES: Final[Mapping[str, Fault]] = {
    "controller-crash": controller_crash,
    "controller-crash-in-step": controller_crash_in_step,
    "controller-pause": controller_pause,
    "lost-reply": lost_reply,
    "lost-replies": lost_replies,
    "cut": cut,
    "delayed-bytes": delayed_bytes,
    "zookeeper-freeze": zookeeper_freeze,
    "session-expiry": session_expiry,
    "foreign-write": foreign_write,
    "zookeeper-restart": zookeeper_restart,
    "broker-death": broker_death,
    "broker-cut": broker_cut,
}
