"""Of three controllers one has no migration flag: it delays the migration, and never leads it."""

from __future__ import annotations

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.node import introspection
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.requests import create_topics

PLAIN = 3001
GIVEN_UP = "gives its leadership up"


class Story:
    """A cluster that the test steps."""

    def __init__(self, world):
        self.world = world

    def until(self, holds, ms=60_000):
        world = self.world
        end_ms = world.scheduler.now_ms + ms
        while not holds():
            world.scheduler.step()
            assert world.scheduler.now_ms < end_ms, "\n".join(world.scheduler.lines[-20:])

    def wait(self, ms):
        end_ms = self.world.scheduler.now_ms + ms
        self.until(lambda: self.world.scheduler.now_ms >= end_ms, ms + 1_000)

    def restart(self, node_id, *, flag):
        """kill -9; the next life has the flag, or not."""
        self.world.set_flag(node_id, flag=flag)
        host = self.world.controllers[node_id]
        life = host.process
        life.kill()
        self.until(lambda: host.process is not life and host.process.alive)

    def nodes(self):
        return {each: host.process.node for each, host in self.world.controllers.items()}

    def in_state(self, state):
        drivers = [node.driver for node in self.nodes().values()]
        return any(driver is not None and driver.state is state for driver in drivers)

    def waiting(self):
        """Why and about whom the active controller waits."""
        now_ms = self.world.scheduler.now_ms
        return {
            (one["why"], one["subject"])
            for node in self.nodes().values()
            if node.active and node.driver is not None
            for one in introspection.status(node, now_ms)["migration"]["waiting"]
        }


@pytest.mark.requirement("T05")
@pytest.mark.parametrize("version", ["3.6-IV2", "3.9-IV0"])
def test_the_migration_waits_for_a_controller_without_the_flag_and_names_it(
    simulated_world, version
):
    world = simulated_world(1, Scenario(controllers=3, metadata_version=version))
    world.set_flag(PLAIN, flag=False)
    world.begin()
    story = Story(world)
    named = {("controller_not_ready", str(PLAIN))}
    story.until(lambda: story.waiting() == named)
    story.wait(15_000)
    assert story.waiting() == named
    states = {node.controller.stable.migration_state for node in story.nodes().values()}
    assert states == {MigrationState.PRE_MIGRATION}
    story.restart(PLAIN, flag=True)
    story.until(lambda: story.in_state(State.DUAL_WRITE))


@pytest.mark.requirement("U07", "U08", "U10")
@pytest.mark.parametrize("snapshots", [False, True])
def test_one_without_the_flag_that_is_elected_resigns_and_the_quorum_works_on(simulator, snapshots):
    """It learns from its log, or from a snapshot, that a migration is under way."""
    interval = {"snapshot_interval_ms": 2_000} if snapshots else {}
    run: Run = simulator(2, Scenario(controllers=3, changes=5, **interval))
    run.run()
    world = run.world
    story = Story(world)
    plain = next(each for each in world.controllers if each != world.active.node_id)
    story.restart(plain, flag=False)
    node = world.controllers[plain].process.node
    assert (node.raft.latest_snapshot is not None) is snapshots
    story.until(lambda: node.controller.stable.migration_state == MigrationState.MIGRATION)

    def given_up():
        return any(GIVEN_UP in line and f"-{plain}" in line for line in world.scheduler.lines)

    for _ in range(30):
        if given_up():
            break
        # Until it is the one that is elected.
        story.restart(world.active.node_id, flag=True)
        story.until(lambda: story.in_state(State.DUAL_WRITE))
    assert given_up()
    assert world.active.node_id != plain
    assert world.controllers[plain].process.alive
    assert node is world.controllers[plain].process.node, "it is up all the time"
    states = {one.controller.stable.migration_state for one in story.nodes().values()}
    assert states == {MigrationState.MIGRATION}
    answers = []
    request = create_topics("after", timeout_ms=4_000)
    next(iter(world.brokers.values())).ask(request, 5, answers.append)
    story.until(lambda: bool(answers))
    assert [one.error_code for one in answers[0].topics] == [0]
