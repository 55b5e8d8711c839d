"""A simulated migration is finalised: controllers restart without the flag, among deaths.

The cluster is migrated, under load and faults, by an ordinary run. Then its brokers are restarted
in KRaft mode, all of them or not, and its controllers one by one. Until then every checker of the
run looks; afterwards those look that need no ZooKeeper, and that nobody writes there is looked at
here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.simulation.checkers import OF_MIGRATION
from emulator.simulation.checkers.base import Checker
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import ensure
from tests.kit.shares import rest_slow

FINAL = MigrationState.POST_MIGRATION
SCENARIOS = {
    1: Scenario(changes=20, faults=("controller-crash",)),
    3: Scenario(controllers=3, changes=20, faults=("voter-crash",)),
}


class FinalIsFinal(Checker):
    """No multi, no control request and no other state after the final record."""

    name = "final-is-final"

    def __init__(self, world):
        super().__init__(world)
        self.seen = False

    def _looks(self):
        state = self.world.facts.migration_state
        self.seen = self.seen or state == FINAL
        ensure(not self.seen or state == FINAL, self.name, f"state {state} follows it")

    def stepped(self, process, effects):
        self._looks()
        if self.seen:
            modes = {one.is_migrating_zk_broker for one in self.world.facts.brokers.values()}
            ensure(modes <= {False}, self.name, "a broker is in ZooKeeper mode")

    def served(self, changed, client):
        znodes = {path for path in changed if not path.startswith("/brokers/ids")}
        ensure(not (self.seen and znodes), self.name, f"{client} wrote {sorted(znodes)}")

    def control_request_received(self, broker, request):
        ensure(not self.seen, self.name, f"{broker.name} was sent {type(request).__name__}")

    def unrest(self):
        return ""


class Finalising:
    """One cluster after its migration."""

    def __init__(self, simulator: type[Run], seed: int, scenario: Scenario) -> None:
        self.run = simulator(seed, scenario)
        self.world = self.run.world
        self.rng = Random(f"finalising {seed}")
        self.run.run()
        self.final = FinalIsFinal(self.world)
        self.kept = [one for one in self.run.checkers if not isinstance(one, OF_MIGRATION)]
        gone = [one for one in self.run.checkers if one not in self.kept]
        others = [one for one in self.world.onlookers if one not in gone]
        self.world.onlookers = [*others, self.final]

    def until(self, holds, what, ms=60_000):
        self.run._until(holds, ms, what)

    def roll(self, *ids: int) -> None:
        """Restart brokers in KRaft mode, until they are unfenced."""
        lives = self.world.lives
        for broker_id in ids:
            lives.turn(broker_id)
            lives.kill(lives.now[broker_id])

        def there() -> bool:
            found = self.world.facts.brokers
            return not any(found[one].is_migrating_zk_broker or found[one].fenced for one in ids)

        self.until(there, "brokers in KRaft mode")

    def stop(self, node_id: int) -> None:
        """SIGTERM; the next life has no flag."""
        world = self.world
        host = world.controllers[node_id]
        config = world._configs[node_id]
        world._configs[node_id] = replace(config, migration_enabled=False)
        host.may_halt = "it was asked to stop"
        life = host.process
        life.shutdown()
        self.until(lambda: host.process is not life and host.process.alive, "the next life")

    def wait(self, ms: int) -> None:
        end_ms = self.world.scheduler.now_ms + ms
        self.until(lambda: self.world.scheduler.now_ms >= end_ms, "time passes", ms + 1_000)

    @property
    def order(self) -> list[int]:
        """The controllers, in any order."""
        return self.rng.sample(sorted(self.world.controllers), len(self.world.controllers))

    @property
    def states(self) -> set[MigrationState]:
        return {
            host.process.node.controller.stable.migration_state
            for host in self.world.controllers.values()
        }

    def ended(self) -> None:
        """All show it; every checker that is left is content, and so are the brokers."""
        self.until(lambda: self.states == {FINAL}, "the final record")
        self.until(lambda: not any(one.unrest() for one in self.kept), "rest")
        for checker in self.kept:
            checker.ended()
        assert self.final.seen


@pytest.mark.requirement("F07")
@pytest.mark.parametrize("controllers", SCENARIOS)
@pytest.mark.parametrize("seed", rest_slow(range(4), 1))
def test_the_last_restart_without_the_flag_ends_it(simulator, seed, controllers):
    story = Finalising(simulator, seed, SCENARIOS[controllers])
    story.roll(*story.world.brokers)
    for node_id in story.order:
        assert FINAL not in story.states
        story.wait(story.rng.randint(0, 3_000))
        story.stop(node_id)
    story.ended()
    story.wait(5_000)


@pytest.mark.requirement("F08")
@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_while_one_has_the_flag_it_goes_on_and_a_death_does_not_end_it(simulator, seed):
    story = Finalising(simulator, seed, SCENARIOS[3])
    story.roll(*story.world.brokers)
    *others, last = story.order
    for node_id in others:
        story.stop(node_id)
    host = story.world.controllers[last]

    def writes() -> bool:
        driver = host.process.node.driver
        return driver is not None and driver.state is State.DUAL_WRITE

    story.until(writes, "dual write")
    host.restarts = False
    host.process.crash()
    story.wait(8_000)
    assert FINAL not in story.states
    host.restarts = True
    story.world.start_process(host)
    story.until(writes, "dual write again")
    story.stop(last)
    story.ended()


@pytest.mark.requirement("F12")
@pytest.mark.parametrize("seed", rest_slow(range(2), 1))
def test_while_a_broker_is_in_zookeeper_mode_nobody_finalises(simulator, seed):
    story = Finalising(simulator, seed, SCENARIOS[3])
    first, *others = story.world.brokers
    story.roll(*others)
    for node_id in story.order:
        story.stop(node_id)
    story.wait(8_000)
    assert FINAL not in story.states
    assert story.world.facts.brokers[first].is_migrating_zk_broker
