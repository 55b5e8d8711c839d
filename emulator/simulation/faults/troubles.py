"""Faults that last until an operator repairs them."""

from __future__ import annotations

from functools import partial
from typing import Final

from emulator.simulation.checkers.base import CONTROLLER
from emulator.simulation.faults.strike import Recipe, Strike
from emulator.simulation.faults.taken import STRANGER, take
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.models.broker_settings import RELEASE
from emulator.simulation.world import FINALISED, MIGRATION, Trouble, World
from emulator.zookeeper.ops import Create, Delete, SetData

EPOCH: Final = "/controller_epoch"
LEVELS: Final = ("3.4-IV0", "3.6-IV1", "3.9-IV0")
PLACES: Final = (
    "/brokers/topics",
    "/config/topics",
    "/config/users",
    "/kraft_bridge",
    "/migration",
)
GARBAGE: Final = b"{"


def controller_dead(strike: Strike) -> None:
    """A controller dies, and no supervisor starts it again."""
    world = strike.world
    hosts = list(world.controllers.values())
    host = strike.rng.choice(hosts)
    others = [one for one in hosts if one is not host]
    if _late(strike) or host.process is None or not host.process.alive:
        return
    if others and not all(one.process and one.process.alive and one.restarts for one in others):
        return
    host.restarts = False
    strike.add_line(f"{host.name} stays away")
    strike.rng.choice((host.process.kill, host.process.crash))()


def broker_dead(strike: Strike) -> None:
    """A broker dies, and no supervisor starts it again."""
    broker = _one(strike)
    if broker is None or _late(strike):
        return
    strike.add_line(f"{broker.name} stays away")
    strike.world.departed.add(broker.id)
    strike.world.lives.kill(broker)


def broker_gone(strike: Strike) -> None:
    """The machine of a broker is lost for good, once all is copied; another broker is left."""
    world, broker = strike.world, _one(strike)
    alive = [one for one in world.lives.now.values() if one.alive]
    if broker is None or _late(strike) or world.facts.migration_state != MIGRATION:
        return
    if len(alive) < 2 or world.lives.gone:
        return
    strike.add_line(f"{broker.name} is gone for good")
    world.departed.add(broker.id)
    world.lives.gone.add(broker.id)
    world.lives.kill(broker)


def broker_refused(strike: Strike) -> None:
    """A broker is restarted with another level, or release, than the cluster has."""
    world, broker = strike.world, _one(strike)
    level = world.scenario.metadata_version
    if broker is None or _late(strike) or broker.id in world.lives.wrong:
        return
    others = [one for one in LEVELS if one != level]
    wrong = {"inter.broker.protocol.version": strike.rng.choice(others)}
    if broker.in_kraft_mode or world.lives.goes_kraft(broker.id):
        if level < "3.7":
            return
        wrong = {RELEASE: "3.4"}
    world.lives.wrong[broker.id] = wrong
    world.lives.blamed.add(broker.id)
    strike.add_line(f"{broker.name} is restarted with {wrong}")
    world.lives.kill(broker)

    def mend() -> None:
        world.lives.wrong.pop(broker.id, None)
        now = world.lives.now[broker.id]
        if now.alive:
            world.lives.kill(now)

    words = ("inter.broker.protocol.version", "release")
    world.troubles.append(
        Trouble(strike.name, f"broker {broker.id}", mend, node=broker.id, remedy=words)
    )


def znode_forbidden(strike: Strike) -> None:
    """ZooKeeper's ACLs forbid writing a part of the tree, until somebody changes them."""
    world, tree = strike.world, strike.world.tree
    place = strike.rng.choice(PLACES)
    locked = {path for path in tree.nodes if path.startswith(place)} - tree.read_only
    if _late(strike) or not locked:
        return
    tree.read_only |= locked
    strike.add_line(f"no right to write {place}")

    def mend() -> None:
        tree.read_only -= locked

    world.troubles.append(Trouble(strike.name, place, mend, remedy=("permission", "right to")))


def znode_malformed(strike: Strike) -> None:
    """Somebody spoils a znode that the copy would read."""
    world = strike.world
    paths = [path for path in world.tree.nodes if path.startswith("/config/topics/")]
    if _copied(strike) or not paths:
        return
    path = strike.rng.choice(sorted(paths))
    before = world.tree.nodes[path].data
    if before == GARBAGE:
        return
    world.foreign_write(SetData(path, GARBAGE))
    strike.add_line(f"{path} is spoiled")
    world.troubles.append(Trouble(strike.name, path, partial(_write, world, SetData(path, before))))


def epoch_missing(strike: Strike) -> None:
    """Somebody deletes ``/controller_epoch`` before the first claim."""
    world = strike.world
    node = world.tree.nodes.get(EPOCH)
    if _copied(strike) or node is None:
        return
    world.foreign_write(Delete(EPOCH))
    strike.add_line(f"{EPOCH} is deleted")
    world.troubles.append(
        Trouble(strike.name, EPOCH, partial(_write, world, Create(EPOCH, node.data)))
    )


def claim_taken(strike: Strike) -> None:
    """A controller of another quorum takes ``/controller``, and a voter of ours has to claim."""
    world = strike.world
    epoch = world.claimed_kraft_epoch
    process = world.process
    if _late(strike) or world.zookeeper.frozen or world.finalising or epoch < 0:
        return

    def mend() -> None:
        if world.numbers(CONTROLLER).get("brokerid") == STRANGER:
            world.foreign_write(Delete(CONTROLLER))
            world.controller_deleted = True

    take(strike, epoch + strike.rng.choice((10, 30)))
    words = ("delete the znode if that quorum",)
    world.troubles.append(Trouble(strike.name, CONTROLLER, mend, remedy=words))
    if process.alive:
        process.kill()


def flag_forgotten(strike: Strike) -> None:
    """Somebody restarts a controller without the flag of the migration."""
    world = strike.world
    facts = world.facts
    host = strike.rng.choice(list(world.controllers.values()))
    in_zookeeper_mode = any(one.is_migrating_zk_broker for one in facts.brokers.values())
    alone = len(world.controllers) == 1 and facts.migration_state == MIGRATION
    process = host.process
    if _late(strike) or process is None or not process.alive or world.finalising:
        return
    if alone and not in_zookeeper_mode:
        return
    world.set_flag(host.node_id, flag=False)
    strike.add_line(f"{host.name} is restarted without the flag")
    host.may_halt = "it was asked to stop"
    process.shutdown()


def _write(world: World, op: Create | SetData) -> None:
    world.foreign_write(op)


def _late(strike: Strike) -> bool:
    """The operator is where he wanted to be, or on his way back."""
    world = strike.world
    final = world.facts.migration_state == FINALISED
    return world.arrived or world.going_back or world.rolled_back or final


def _copied(strike: Strike) -> bool:
    """A controller of the quorum has the claim, or had it."""
    world = strike.world
    return _late(strike) or world.claimed_kraft_epoch >= 0 or "/migration" in world.tree.nodes


def _one(strike: Strike) -> SimulatedBroker | None:
    lives = strike.world.lives
    alive = [one for one in lives.now.values() if one.alive and one.id not in lives.departed]
    return strike.rng.choice(sorted(alive, key=lambda one: one.id)) if alive else None


TROUBLES: Final[dict[str, Recipe]] = {
    "controller-dead": controller_dead,
    "broker-dead": broker_dead,
    "broker-gone": broker_gone,
    "broker-refused": broker_refused,
    "znode-forbidden": znode_forbidden,
    "znode-malformed": znode_malformed,
    "claim-taken": claim_taken,
    "epoch-missing": epoch_missing,
    "flag-forgotten": flag_forgotten,
}
