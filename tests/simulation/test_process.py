"""One life of a simulated controller: a step's effects happen whole and in order, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from emulator.seam import AppendFile, Connect, Effect
from emulator.simulation.checkers.base import Checker
from emulator.simulation.models.process import Process
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.world import World


class Interrupts(Checker):
    """Does something once, between a step that has effects of a kind and the first of them."""

    name = "interrupts"

    def __init__(self, world: World, kind: type[Effect], action: Callable[[Process], None]) -> None:
        super().__init__(world)
        self._kind = kind
        self._action: Callable[[Process], None] | None = action
        self.process: Process | None = None
        self.files: dict[str, bytes] = {}
        """Of the process's disk, right after the action."""

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        if self._action is not None and any(isinstance(one, self._kind) for one in effects):
            action, self._action = self._action, None
            action(process)
            self.process, self.files = process, dict(process.disk.files)


def begun(kind: type[Effect], action: Callable[[Process], None]) -> tuple[World, Interrupts]:
    """A world that has come to just behind the interrupted step."""
    world = World(1, Scenario())
    onlooker = Interrupts(world, kind, action)
    world.onlookers.append(onlooker)
    world.begin()
    while onlooker.process is None:
        world.scheduler.step()
    return world, onlooker


@pytest.mark.parametrize("end", [Process.crash, Process.kill])
def test_a_process_that_ends_before_the_first_effect_of_a_step_performs_none(end):
    world, seen = begun(AppendFile, end)
    assert not seen.process.alive
    assert seen.process.disk.files == seen.files
    assert world.process is seen.process


def test_a_process_that_is_stopped_takes_sigterm_when_it_goes_on():
    world, seen = begun(Connect, Process.freeze)
    process = seen.process
    process.shutdown()
    for _ in range(100):
        world.scheduler.step()
    assert process.alive
    assert not any("stopping: " in line for line in world.scheduler.lines)
    world.active.may_halt = "it was asked to stop"
    process.thaw()
    while process.alive:
        world.scheduler.step()
    assert any("stopping: " in line for line in world.scheduler.lines)


def test_a_dead_process_opens_no_connection():
    world, _ = begun(Connect, Process.crash)
    assert not world.network.between("controller", "zookeeper")


def test_the_effects_of_a_stop_come_behind_those_of_the_step_in_which_it_was_asked_for():
    """Else the batches that it appends would stand before those of the step."""
    asked: list[int] = []

    def stop(process: Process) -> None:
        real = process.node.shutdown

        def shutdown(now_ms: int) -> list[Effect]:
            asked.append(now_ms)
            return real(now_ms)

        process.node.shutdown = shutdown
        process.shutdown()
        assert not asked

    world, seen = begun(AppendFile, stop)
    assert seen.process.disk.files != seen.files
    world.scheduler.step()
    assert asked


@pytest.mark.parametrize("fault", ["controller-crash", "controller-kill", "controller-shutdown"])
@pytest.mark.parametrize("state", ["ZK_MIGRATION", "SYNC_KRAFT_TO_ZK", "DUAL_WRITE"])
def test_a_process_that_ends_as_it_reaches_a_state_leaves_nothing_wrong(fault, state):
    run = Run(2, Scenario(faults=(f"{fault}@{state}",), changes=6))
    run.run()
    assert run.world.active.lives == 2


def test_no_two_processes_have_one_name():
    """Checkers tell processes apart by their names, also those of two backups."""
    run = Run(2, Scenario())
    world = run.world
    names = set()
    for _ in range(2):
        backup = world.second_host(world.copy(world.active), "backup")
        names |= {world.start_process(backup).name, world.start_process(backup).name}
        world.remove(backup)
    assert len(names) == 4
