"""Faults of brokers."""

from __future__ import annotations

from emulator.simulation.faults.strike import Strike
from emulator.simulation.models.broker import SimulatedBroker
from wire import messages as m


def broker_death(strike: Strike) -> None:
    """SIGKILL of a broker; it comes back, at times before its session is over."""
    broker = _one(strike)
    if broker is not None and broker.alive:
        strike.world.lives.kill(broker)


def broker_shutdown(strike: Strike) -> None:
    """SIGTERM: the broker asks until it may go, then comes back; patience ends at some time."""
    broker = _one(strike)
    if broker is None or not broker.alive or broker.epoch < 0:
        return
    strike.add_line(f"{broker.name} wants to shut down")
    broker.shut_down()

    def look(tries: int) -> None:
        if not broker.alive:
            return
        if tries:
            strike.after_ms(100, lambda: look(tries - 1))
        else:
            strike.world.lives.kill(broker)

    look(strike.rng.randint(20, 100))


def broker_leaves(strike: Strike) -> None:
    """A broker goes for good, and is unregistered; it comes back where the copy waits for it."""
    world = strike.world
    left = [b for b in world.brokers.values() if b.id not in world.departed]
    if len(left) < 2:  # one must stay
        return
    broker = strike.rng.choice(left)
    world.departed.add(broker.id)
    if broker.alive:
        world.lives.kill(broker)

    def unregister(tries: int) -> None:
        registered = world.facts.brokers.get(broker.id)
        if registered is None or broker.id not in world.departed or not tries:
            return
        ask_to_unregister(strike, broker.id)
        strike.after_ms(500, lambda: unregister(tries - 1))

    def come_back() -> None:
        if not world.traffic.begun:
            world.departed.discard(broker.id)
            world.lives.start(broker.id)

    strike.after_ms(strike.rng.randint(6_000, 15_000), come_back)
    if strike.rng.random() < 0.7:
        strike.after_ms(strike.rng.randint(10, 3_000), lambda: unregister(40))


def ask_to_unregister(strike: Strike, broker_id: int) -> None:
    """Ask once, through another broker, if there is one that may answer."""
    lives = strike.world.lives
    lives.unregistered.add(broker_id)
    if others := lives.able():
        request = m.UnregisterBrokerRequest(broker_id=broker_id)
        strike.rng.choice(others).ask(request, 0, lambda _: None)


def _one(strike: Strike) -> SimulatedBroker | None:
    """Any broker; None: controllers start first, and none has begun yet."""
    brokers = sorted(strike.world.brokers.values(), key=lambda one: one.id)
    return strike.rng.choice(brokers) if brokers else None
