"""Faults of brokers."""

from __future__ import annotations

from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.faults.strike import Strike
from wire import messages as m

HEARTBEAT_VERSION = 1


def broker_death(strike: Strike) -> None:
    """SIGKILL of a broker; it comes back, at times before its session is over."""
    broker = _one(strike)
    if broker.alive:
        strike.world.kill_broker(broker)


def broker_shutdown(strike: Strike) -> None:
    """A controlled shutdown: the broker asks until it may go, then comes back."""
    broker = _one(strike)
    if not broker.alive or broker.epoch < 0:
        return
    strike.tell(f"{broker.name} wants to shut down")

    def ask(tries: int) -> None:
        if not broker.alive:
            return
        request = m.BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            current_metadata_offset=max(0, strike.world.facts.offset),
            want_shut_down=True,
        )

        def answered(answer: object | None) -> None:
            may = isinstance(answer, m.BrokerHeartbeatResponse) and answer.should_shut_down
            if may or not tries:
                if broker.alive:
                    strike.world.kill_broker(broker)
            else:
                strike.after_ms(100, lambda: ask(tries - 1))

        broker.ask(request, HEARTBEAT_VERSION, answered)

    ask(20)


def broker_leaves(strike: Strike) -> None:
    """A broker goes for good, and is unregistered; it comes back where the copy waits for it."""
    world = strike.world
    left = [b for b in world.brokers.values() if b.id not in world.departed]
    if len(left) < 2:  # one must stay
        return
    broker = strike.rng.choice(left)
    world.departed.add(broker.id)
    if broker.alive:
        world.kill_broker(broker)

    def unregister(tries: int) -> None:
        others = world.able_brokers()
        registered = world.facts.brokers.get(broker.id)
        if registered is None or broker.id not in world.departed or not tries:
            return
        world.unregistered.add(broker.id)
        if others:
            request = m.UnregisterBrokerRequest(broker_id=broker.id)
            strike.rng.choice(others).ask(request, 0, lambda _: None)
        strike.after_ms(500, lambda: unregister(tries - 1))

    def come_back() -> None:
        if not world.traffic.begun:
            world.departed.discard(broker.id)
            world.start_broker(broker.id)

    strike.after_ms(strike.rng.randint(6_000, 15_000), come_back)
    if strike.rng.random() < 0.7:
        strike.after_ms(strike.rng.randint(10, 3_000), lambda: unregister(40))


def _one(strike: Strike) -> SimulatedBroker:
    brokers = sorted(strike.world.brokers.values(), key=lambda one: one.id)
    return strike.rng.choice(brokers)
