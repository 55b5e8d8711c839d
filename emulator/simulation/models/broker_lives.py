"""The lives of all brokers of a simulated cluster, one after the other, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from emulator.broker.kraft.shared_log import LogImages
from emulator.net.control import ControlRequest
from emulator.simulation.models import broker_settings
from emulator.simulation.models.broker import BrokerAsked, BrokerEyes, SimulatedBroker
from emulator.simulation.models.scheduler import MS
from emulator.simulation.violation import ensure

if TYPE_CHECKING:
    from emulator.simulation.world import World


# Brokers that are restarted in the other mode: from ZooKeeper to KRaft, and back.
#
# An operator does so one broker at a time, in an order of his own, and may change his mind: as long
# as the migration is not finalised a broker may return to ZooKeeper mode. Here the instants are
# drawn, so that some rolls meet faults, and each other.
#
# Source: KIP-866, "Controller Migration", "Rollback".

PATIENCE_MS: Final = (2_000, 10_000)
"""How long a controlled shutdown may take."""


class Rolls:
    """Each roll has its own random stream and may be left out (``rolls/3`` in ``Scenario.skip``).

    Args:
        world: whose brokers are rolled.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._to_come = 0
        self.done = 0

    @property
    def over(self) -> bool:
        """Whether no roll is to come or under way."""
        return not self._to_come

    def operations(self) -> list[str]:
        """Names of all rolls, for ``Scenario.skip``."""
        return [f"rolls/{number}" for number in range(self._world.scenario.rolls)]

    def begin(self) -> None:
        """The migration has come to where brokers may be rolled."""
        scenario = self._world.scenario
        for number, name in enumerate(self.operations()):
            if name not in scenario.skip:
                rng = Random(f"{self._world.seed} roll {number}")
                at_ms = rng.randint(0, 2 * scenario.faults_within_ms)
                self._after(at_ms, partial(self._roll, rng))

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._to_come += 1

        def act() -> None:
            self._to_come -= 1
            action()

        self._world.after_ms(delay_ms, act)

    def _roll(self, rng: Random) -> None:
        world = self._world
        ready = [one for one in world.lives.able() if not one.stopping]
        # Once finalising has begun, no broker returns to ZooKeeper mode.
        if not ready or world.finalising:
            return
        broker = rng.choice(sorted(ready, key=lambda one: one.id))
        self.done += 1
        mode = world.lives.turn(broker.id)
        world.lives.blamed.add(broker.id)
        world.scheduler.add_line("roll", f"{broker.name} is restarted in {mode} mode")
        if rng.random() < 0.3:
            world.lives.kill(broker)
            return
        broker.shut_down()

        def insist() -> None:
            if broker.alive:
                world.lives.kill(broker)

        self._after(rng.randint(*PATIENCE_MS), insist)


GONE_MS: Final = (10, 2_000)
"""Time from the death of a broker to the end of its ZooKeeper session."""
SLACK_US: Final = 200 * MS
FAULTY_US: Final = 15_000 * MS
"""How late a controller may learn that ZooKeeper has a registration."""
EARLY: Final = 0.2
"""Share of lives that begin before the session of the life before is over."""


class BrokerLives(BrokerEyes):
    """See the module's docstring. ``now`` is the newest life of each broker.

    Args:
        world: in which they live.
    """

    def __init__(self, world: World) -> None:
        self.now: dict[int, SimulatedBroker] = {}
        self.departed: set[int] = set()
        """Brokers that will not come back."""
        self.gone: set[int] = set()
        """Those of them whose machine is gone: an operator cannot start them either."""
        self.unregistered: set[int] = set()
        """Brokers that somebody has asked to unregister; the request may still be on its way."""
        self.blamed: set[int] = set()
        """Brokers that somebody else than the operator has restarted as they should not be."""
        self.wrong: dict[int, dict[str, str]] = {}
        """What somebody has written into the properties of a broker, for its next lives."""
        self._world = world
        self._scheduler = world.scheduler
        self._rng = Random(f"broker lives {world.seed}")
        self._count: dict[int, int] = {}
        scenario = world.scenario
        self._kraft = set[int]() if scenario.migration else set(range(scenario.brokers))
        """Brokers whose next life is in KRaft mode."""
        self._images = LogImages()
        self._last_requests: dict[tuple[int, str], tuple[ControlRequest, int]] = {}
        """By broker and kind: the newest, and how many messages had been lost by then."""

    def able(self) -> list[SimulatedBroker]:
        """Brokers that can pass a request on."""
        return [one for one in self.now.values() if one.alive and one.epoch >= 0]

    def start(self, broker_id: int) -> None:
        """Begin another life of a broker, unless it is to stay away."""
        known = self.now.get(broker_id)
        if broker_id in self.departed or (known is not None and known.alive):
            return
        life = self._count[broker_id] = self._count.get(broker_id, 0) + 1
        broker = SimulatedBroker(
            broker_id,
            life,
            broker_settings.configured(
                self._world.scenario,
                broker_id,
                kraft=broker_id in self._kraft,
                wrong=self.wrong.get(broker_id, broker_settings.NOTHING_WRONG),
            ),
            self._images,
            self._scheduler,
            self._world.network,
            Random(self._rng.getrandbits(64)),
            self,
        )
        self.now[broker_id] = broker

        def start() -> None:
            if broker.alive:
                broker.start()

        self._after_ms(self._rng.randint(0, 200), start)

    def turn(self, broker_id: int) -> str:
        """The next life of a broker is in the other mode; returns its name."""
        self._kraft ^= {broker_id}
        return "KRaft" if broker_id in self._kraft else "ZooKeeper"

    def to_zookeeper_mode(self) -> list[int]:
        """Every next life is in ZooKeeper mode; brokers of which that is a change."""
        changed, self._kraft = sorted(self._kraft), set()
        return changed

    def end(self) -> None:
        """Every broker is gone, and its clients wait no more."""
        for broker in self.now.values():
            if broker.alive:
                broker.die()

    def to_kraft(self, broker_id: int) -> None:
        """The next life of a broker is in KRaft mode, whatever was to come."""
        self._kraft.add(broker_id)

    def goes_kraft(self, broker_id: int) -> bool:
        """Whether the next life of a broker is in KRaft mode."""
        return broker_id in self._kraft

    def back_to_zookeeper(self, broker_id: int) -> None:
        """The next life of a broker is in ZooKeeper mode, whatever was to come."""
        self._kraft.discard(broker_id)

    def kill(self, broker: SimulatedBroker) -> None:
        """SIGKILL; its znode goes with its session, and it starts again, perhaps before that."""
        self._scheduler.add_line(broker.name, "killed")
        broker.die()
        gone_ms = self._rng.randint(*GONE_MS)
        back_ms = self._rng.randint(0, gone_ms) if self._rng.random() < EARLY else gone_ms + 10
        self._after_ms(gone_ms, lambda: self._world.zookeeper.expire_sessions_of(broker.name))
        self._after_ms(back_ms, lambda: self.start(broker.id))

    def _after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._scheduler.after(delay_ms * MS, action)

    def covered(self, offset: int) -> None:
        """ZooKeeper has the log up to an offset; the epoch of a broker is that of its record."""
        for broker in self.now.values():
            if broker.known_us is None and 0 <= broker.epoch <= offset:
                broker.known_us = self._scheduler.now_us

    # ---------------------------------------------------------------- what brokers show
    @override
    def control_request_received(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        kind = (broker.id, type(request).__name__)
        lost = self._world.aftermath.happenings["lost", "broker"]
        before, lost_before = self._last_requests.get(kind, (None, 0))
        if (
            before == request and lost > lost_before
        ):  # after a loss the same request is to be sent again
            self._world.aftermath.happened("repeated", "broker")
        self._last_requests[kind] = (request, lost)
        for one in self._world.onlookers:
            one.control_request_received(broker, request)

    @override
    def fetched(self, offset: int, leader_epoch: int, value: bytes, high_watermark: int) -> None:
        """Observers of several voters get more, and show it below the mark only."""
        committed = self._world.committed
        if self._world.voters is not None and offset >= high_watermark:
            return
        what = f"offset {offset} of {committed.end_offset} left"
        ensure(offset < committed.end_offset, "served-is-committed", what)
        committed.served(offset, leader_epoch, value)

    @override
    def marked(self, high_watermark: int, leader_id: int, leader_epoch: int) -> None:
        voters, end_offset = self._world.voters, self._world.committed.end_offset
        if voters is None:
            return
        what = f"{high_watermark} of {end_offset} was told to be committed"
        ensure(high_watermark <= end_offset, "served-is-committed", what)
        if leader_id >= 0:
            voters.leads(leader_id, leader_epoch)

    def refused(self, broker: SimulatedBroker, opener: str) -> None:
        """See BrokerEyes.

        Only a broker in KRaft mode may get control requests, which it does not understand. They
        may come from a controller that has not read the new registration in ZooKeeper yet, or from
        one that was paused and has been replaced. Where faults delay ZooKeeper's answers, this may
        go on for longer.
        """
        late_us = 2 * self._world.network.slowest_us + (
            FAULTY_US if self._world.scenario.faults else SLACK_US
        )
        early = broker.known_us is None or self._scheduler.now_us <= broker.known_us + late_us
        excused = early or opener != self._world.process.name
        right = broker.in_kraft_mode and excused
        ensure(right, "told-in-order", f"{broker.name} was sent nonsense by {opener}")

    @override
    def granted(self, broker: SimulatedBroker) -> None:
        for one in self._world.onlookers:
            one.granted(broker)

    @override
    def passed_on(self, asked: BrokerAsked) -> None:
        for one in self._world.onlookers:
            one.passed_on(asked)

    @override
    def forgotten(self, broker: SimulatedBroker) -> None:
        """Right if it was unregistered; then it is started again."""
        known = self._world.facts.brokers.get(broker.id)
        gone = known is None or known.epoch != broker.epoch
        what = f"the registration of {broker.name} with epoch {broker.epoch} was forgotten"
        ensure(gone and broker.id in self.unregistered, "answered-is-committed", what)
        self._after_ms(0, lambda: self.kill(broker) if broker.alive else None)

    @override
    def ended(self, broker: SimulatedBroker, exit_code: int) -> None:
        """A service manager starts it again."""
        del exit_code
        self._after_ms(self._rng.randint(*GONE_MS), lambda: self.start(broker.id))
