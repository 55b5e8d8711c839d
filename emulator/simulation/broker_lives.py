"""The lives of all brokers of a simulated cluster, one after the other, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

from emulator.broker.shared_log import LogImages
from emulator.net.control import ControlRequest
from emulator.simulation import broker_settings
from emulator.simulation.aftermath import Aftermath
from emulator.simulation.broker import BrokerAsked, SimulatedBroker
from emulator.simulation.ledger import Ledger
from emulator.simulation.network import Network
from emulator.simulation.scenario import Scenario
from emulator.simulation.scheduler import MS, Scheduler
from emulator.simulation.violation import ensure
from emulator.simulation.zookeeper_server import ZooKeeperServer

GONE_MS: Final = (10, 2_000)
"""From the death of a broker to the end of its session."""
EARLY: Final = 0.2
"""Share of lives that begin before the session of the life before is over."""


class BrokerOnlooker(Protocol):
    """Sees what brokers are told and do; may raise Violated."""

    def told(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """A broker has received a control request."""

    def granted(self, broker: SimulatedBroker) -> None:
        """A change of an ISR was granted to the leader that had asked for it."""

    def passed_on(self, asked: BrokerAsked) -> None:
        """A client has the answer of a broker, or none."""


class BrokerLives:
    """See the module's docstring. ``now`` is the newest life of each broker.

    Args:
        seed: of the run.
        scenario: how many there are.
        scheduler: the clock.
        network: where they listen.
        zookeeper: where they have sessions.
        aftermath: counts what is said twice.
        ledger: the main host's, now.
        onlookers: see what they see.
    """

    def __init__(  # noqa: PLR0917  # what brokers live in
        self,
        seed: int,
        scenario: Scenario,
        scheduler: Scheduler,
        network: Network,
        zookeeper: ZooKeeperServer,
        aftermath: Aftermath,
        ledger: Callable[[], Ledger],
        onlookers: Sequence[BrokerOnlooker],
    ) -> None:
        self.now: dict[int, SimulatedBroker] = {}
        self.departed: set[int] = set()
        """Brokers that will not come back."""
        self.unregistered: set[int] = set()
        """Brokers that somebody has asked to unregister; the request may still be on its way."""
        self._scenario = scenario
        self._scheduler = scheduler
        self._network = network
        self._zookeeper = zookeeper
        self._aftermath = aftermath
        self._ledger = ledger
        self._onlookers = onlookers
        self._rng = Random(f"broker lives {seed}")
        self._count: dict[int, int] = {}
        self._images = LogImages()
        self._last_told: dict[tuple[int, str], tuple[ControlRequest, int]] = {}
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
            broker_settings.configured(self._scenario, broker_id),
            self._images,
            self._scheduler,
            self._network,
            Random(self._rng.getrandbits(64)),
            self,
        )
        self.now[broker_id] = broker

        def start() -> None:
            if broker.alive:
                broker.start()

        self._after_ms(self._rng.randint(0, 200), start)

    def kill(self, broker: SimulatedBroker) -> None:
        """SIGKILL; its znode goes with its session, and it starts again, perhaps before that."""
        self._scheduler.tell(broker.name, "killed")
        broker.die()
        gone_ms = self._rng.randint(*GONE_MS)
        back_ms = self._rng.randint(0, gone_ms) if self._rng.random() < EARLY else gone_ms + 10
        self._after_ms(gone_ms, lambda: self._zookeeper.expire_sessions_of(broker.name))
        self._after_ms(back_ms, lambda: self.start(broker.id))

    def _after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._scheduler.after(delay_ms * MS, action)

    # ---------------------------------------------------------------- what brokers show
    def told(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """See BrokerEyes."""
        kind = (broker.id, type(request).__name__)
        lost = self._aftermath.happenings["lost", "broker"]
        before, lost_before = self._last_told.get(kind, (None, 0))
        if before == request and lost > lost_before:  # else the same is to be said again
            self._aftermath.happened("repeated", "broker")
        self._last_told[kind] = (request, lost)
        for one in self._onlookers:
            one.told(broker, request)

    def fetched(self, offset: int, leader_epoch: int, value: bytes) -> None:
        """See BrokerEyes."""
        self._ledger().fetched(offset, leader_epoch, value)

    def granted(self, broker: SimulatedBroker) -> None:
        """See BrokerEyes."""
        for one in self._onlookers:
            one.granted(broker)

    def passed_on(self, asked: BrokerAsked) -> None:
        """See BrokerEyes."""
        for one in self._onlookers:
            one.passed_on(asked)

    def forgotten(self, broker: SimulatedBroker) -> None:
        """See BrokerEyes: right if it was unregistered; then it is started again."""
        known = self._ledger().facts.brokers.get(broker.id)
        gone = known is None or known.epoch != broker.epoch
        what = f"the registration of {broker.name} with epoch {broker.epoch} was forgotten"
        ensure(gone and broker.id in self.unregistered, "answered-is-committed", what)
        self._after_ms(0, lambda: self.kill(broker) if broker.alive else None)

    def ended(self, broker: SimulatedBroker, exit_code: int) -> None:
        """See BrokerEyes: a service manager starts it again."""
        del exit_code
        self._after_ms(self._rng.randint(*GONE_MS), lambda: self.start(broker.id))
