"""An operator finalises the migration: the way of ``docs/finalising.md``, among other faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from emulator.simulation.faults.brokers import ask_to_unregister
from emulator.simulation.faults.strike import Recipe, Strike
from emulator.simulation.models.host import Host
from emulator.simulation.world import FINALISED, MIGRATION

LOOK_MS: Final = 100
PATIENCE_MS: Final = 15_000
"""How long a stop in order, or the final record, is waited for."""
BETWEEN_MS: Final = (0, 0, 500, 3_000)
"""Pauses between restarts: the controller before need not be back yet."""
TRIES: Final = 20
"""How often a controller gets the flag again, because something is missing: among faults that end
leaders one after the other the operator does not give up before a run does."""
TOO_EARLY: Final = 0.3
"""How often controllers are restarted without waiting for brokers."""
TOO_LATE: Final = 0.3
"""How often somebody restarts a broker in ZooKeeper mode when all is final."""


def finalise(strike: Strike) -> None:
    """Brokers are restarted in KRaft mode, then controllers without the flag, by SIGTERM.

    While something is missing, as the mark of a leader that was killed meanwhile, a controller gets
    the flag again, and is stopped in order when it, or another one, writes both stores. A broker
    that has left for good is unregistered.
    """
    world = strike.world

    def begin() -> None:
        if not world.finalising:
            world.finalising = True
            _finish(strike, TRIES)

    def copied() -> bool:
        return world.facts.migration_state == MIGRATION and world.kraft_offset > 0

    strike.when(copied, begin, within_ms=60_000)


def is_final(strike: Strike) -> bool:
    """Whether the final record is committed."""
    return strike.world.facts.migration_state == FINALISED


def _finish(strike: Strike, tries: int) -> None:
    if is_final(strike):
        _come_too_late(strike)
        return
    if not tries:
        strike.add_line("gives up")
        return
    steps: list[Callable[[], None]] = [
        partial(_in_kraft_mode, strike, broker_id) for broker_id in strike.world.brokers
    ]
    hosts = list(strike.world.controllers.values())
    strike.rng.shuffle(hosts)
    stops: list[Callable[[], None]] = [partial(_without_flag, strike, host) for host in hosts]

    def then() -> None:
        if too_early:
            wait()
            return
        _await(
            strike,
            PATIENCE_MS,
            lambda: is_final(strike) or not _brokers_in_zookeeper_mode(strike),
            lambda: _one_by_one(strike, stops, wait),
        )

    def wait() -> None:
        _await(strike, PATIENCE_MS, lambda: is_final(strike), look_again)

    def look_again() -> None:
        if not is_final(strike):
            host = strike.rng.choice(hosts)
            strike.add_line(f"{host.name} gets the flag again")
            strike.world.set_flag(host.node_id, flag=True)
            _restart(strike, host)
            _await(strike, 2 * PATIENCE_MS, dual_write, lambda: _finish(strike, tries - 1))
        else:
            _finish(strike, tries)

    def dual_write() -> bool:
        process = strike.world.active.process
        return process is not None and process.migration_state == "DUAL_WRITE"

    too_early = tries == TRIES and strike.rng.random() < TOO_EARLY
    if too_early:
        steps += stops
        strike.rng.shuffle(steps)
    _one_by_one(strike, steps, then)


def _one_by_one(strike: Strike, steps: list[Callable[[], None]], then: Callable[[], None]) -> None:
    """Do one after the other, at random distances."""
    if not steps:
        then()
        return
    steps[0]()
    later = strike.rng.choice(BETWEEN_MS)
    strike.after_ms(later, lambda: _one_by_one(strike, steps[1:], then))


def _await(
    strike: Strike, left_ms: int, holds: Callable[[], bool], then: Callable[[], None]
) -> None:
    """Go on as soon as something holds, or when the time is over."""
    if holds() or left_ms <= 0:
        then()
    else:
        strike.after_ms(LOOK_MS, lambda: _await(strike, left_ms - LOOK_MS, holds, then))


def _in_kraft_mode(strike: Strike, broker_id: int) -> None:
    """Restart a broker that is in ZooKeeper mode; unregister one that will not come back."""
    world, lives = strike.world, strike.world.lives
    if broker_id in world.departed:
        registered = world.facts.brokers.get(broker_id)
        if registered is not None and registered.is_migrating_zk_broker and lives.able():
            strike.add_line(f"broker {broker_id} is unregistered")
            ask_to_unregister(strike, broker_id)
        return
    lives.to_kraft(broker_id)
    broker = lives.now[broker_id]
    if broker.alive and not broker.in_kraft_mode:
        strike.add_line(f"{broker.name} is restarted in KRaft mode")
        lives.kill(broker)


def _without_flag(strike: Strike, host: Host) -> None:
    strike.world.set_flag(host.node_id, flag=False)
    _restart(strike, host)


def _restart(strike: Strike, host: Host) -> None:
    """SIGTERM; the next life follows by itself."""
    process = host.process
    if process is None or not process.alive:
        return
    host.may_halt = "it was asked to stop"
    strike.add_line(f"{process.name} is asked to stop")
    process.shutdown()

    def insist() -> None:
        if process.alive:
            process.crash()

    _await(strike, PATIENCE_MS, lambda: not process.alive, insist)


def _brokers_in_zookeeper_mode(strike: Strike) -> bool:
    world = strike.world
    return any(one.is_migrating_zk_broker for one in world.facts.brokers.values())


def _come_too_late(strike: Strike) -> None:
    """At times a broker is started in ZooKeeper mode after the end, and then as it should be."""
    if strike.rng.random() >= TOO_LATE:
        return
    lives = strike.world.lives
    left = sorted(lives.now.keys() - strike.world.departed)
    if not left:
        return
    broker_id = strike.rng.choice(left)
    strike.add_line(f"broker {broker_id} is started in ZooKeeper mode, too late")
    for after_ms in (0, 6_000):
        strike.after_ms(after_ms, partial(_turn, strike, broker_id))


def _turn(strike: Strike, broker_id: int) -> None:
    lives = strike.world.lives
    lives.turn(broker_id)
    if (broker := lives.now[broker_id]).alive:
        lives.kill(broker)


FINALISING: Final[dict[str, Recipe]] = {"finalise": finalise}
