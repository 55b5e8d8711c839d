"""Everything that clients ask for during a run: classes of requests, each at its own pace.

Each request draws from a random stream of its own, named by class and number, so that one can be
left out (``Scenario.skip``) and the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from emulator.simulation.acl_changes import AclChanges
from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.client_changes import ClientChanges
from emulator.simulation.facts import Facts
from emulator.simulation.feature_changes import FeatureChanges
from emulator.simulation.hostile import Hostile
from emulator.simulation.load import Load
from emulator.simulation.moves import Moves
from emulator.simulation.scenario import Scenario
from emulator.simulation.scheduler import MS, Scheduler
from emulator.simulation.token_changes import TokenChanges


class Client(Protocol):
    """One class of requests."""

    rng: Random

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask once, through one of these brokers."""

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""


class Traffic:
    """All classes a scenario wants, from :meth:`begin` until as many changes are asked for.

    Args:
        seed: of the run.
        scenario: which classes, how often, how much.
        facts: the newest that is committed.
        brokers: those that can pass a request on.
        scheduler: the clock.
    """

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        facts: Callable[[], Facts],
        brokers: Callable[[], list[SimulatedBroker]],
        scheduler: Scheduler,
    ) -> None:
        self._seed = seed
        self._scenario = scenario
        self._brokers = brokers
        self._scheduler = scheduler
        self.begun = False
        self.load = Load(
            facts,
            lambda what: scheduler.add_line("client", what),
            scenario.partitions_max,
            keeps_one=scenario.attempts > 1 or bool(scenario.back_at),
        )
        self.moves = Moves(facts)
        self.client_changes = ClientChanges(facts)
        self.acl_changes = AclChanges(facts)
        self.token_changes = TokenChanges(facts)
        self.hostile = Hostile(lambda what: scheduler.add_line("client", what))
        self._classes: dict[str, tuple[Client, int]] = {
            "changes": (self.load, scenario.change_every_ms),
            "moves": (self.moves, scenario.moves_every_ms),
            "clients": (self.client_changes, scenario.client_changes_every_ms),
            "acls": (self.acl_changes, scenario.acl_changes_every_ms),
            "tokens": (self.token_changes, scenario.token_changes_every_ms),
            "hostile": (self.hostile, scenario.hostile_every_ms),
            "features": (FeatureChanges(facts), scenario.feature_changes_every_ms),
        }
        self.asked = dict.fromkeys(self._classes, 0)
        """Requests so far, by class; those left out count."""

    def begin(self) -> None:
        """The migration has come to where clients may ask."""
        self.begun = True
        self.load.begin()
        for name, (client, every_ms) in self._classes.items():
            if every_ms and self._scenario.changes:
                self._ask(name, client, every_ms)

    @property
    def over(self) -> bool:
        """Nothing more will be asked for."""
        return self.begun and self.asked["changes"] >= self._scenario.changes

    @property
    def waiting(self) -> list[str]:
        """Classes of which an answer is still expected."""
        return [name for name, (client, _) in self._classes.items() if client.busy]

    def operations(self) -> list[str]:
        """Names of all requests so far, for ``Scenario.skip``."""
        return [f"{name}/{n}" for name, count in self.asked.items() for n in range(count)]

    def _ask(self, name: str, client: Client, every_ms: int) -> None:
        number = self.asked[name]
        alive = self._brokers()
        if alive:
            self.asked[name] += 1
            if f"{name}/{number}" not in self._scenario.skip:
                client.rng = Random(f"{self._seed} {name} {number}")
                client.one(alive)
        if not self.over:
            self._scheduler.after(every_ms * MS, lambda: self._ask(name, client, every_ms))
