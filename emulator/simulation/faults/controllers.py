"""Faults of controllers and of copies of their folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.simulation.faults.strike import Strike
from emulator.simulation.models.host import Copy
from emulator.simulation.models.zookeeper_mode import elect
from emulator.simulation.world import MIGRATION

PATIENCE_MS: Final = 70_000
"""How long an orderly stop may take."""


def controller_crash(strike: Strike) -> None:
    """SIGKILL between two steps; another life begins on the same disk."""
    strike.world.process.crash()


def controller_crash_in_step(strike: Strike) -> None:
    """SIGKILL between two effects of one step: some files written, some bytes sent."""
    strike.world.process.crash_after(strike.rng.randint(1, 40))


def controller_shutdown(strike: Strike) -> None:
    """SIGTERM: what is left goes to ZooKeeper, then the process ends and is started again."""
    _stop_in_order(strike, PATIENCE_MS, lambda: None)


def controller_pause(strike: Strike) -> None:
    """A machine is paused, another takes over its disk; then the first runs on, unaware of it.

    The same as a second controller with an older epoch: its next write must fail and be its last.
    It wakes only after a later one has claimed: before that no other voter could have stopped it
    from committing, and with one voter the two logs would part.
    """
    world = strike.world
    if not world.process.alive or world.committed.in_transaction:
        return
    old = world.take_over(strike.rng)
    epoch = old.node.raft.leader_epoch
    pause_ms = strike.rng.randint(50, 2_000)
    strike.after_ms(
        pause_ms,
        lambda: strike.when(
            lambda: world.numbers("/kraft_bridge").get("kraft_epoch", -1) > epoch,
            old.thaw,
            within_ms=60_000,
        ),
    )


def controller_kill(strike: Strike) -> None:
    """SIGKILL of the process alone: the next life reads what was written, synced or not."""
    strike.world.process.kill()


def disk_restored(strike: Strike) -> None:
    """A backup of the folder takes the place of the disk, though ZooKeeper has more than it holds.

    The life that runs on it is at the address that brokers know. It must write nothing, and take
    nothing back from brokers. Then the right disk is put back.
    """
    world = strike.world
    if world.committed.in_transaction:
        strike.after_ms(20, lambda: disk_restored(strike))
        return
    copy = world.copy(world.active)
    strike.add_line(f"a backup is made; the log ends at {copy.end_offset}")

    def outdated() -> bool:
        return world.kraft_offset >= copy.end_offset and world.process.alive

    def lead_astray() -> None:
        main, right = world.active, (world.active.disk, world.active.ledger)
        main.restarts = False
        world.process.crash()
        backup = world.second_host(copy, "backup", listens=True)
        backup.never_writes = True
        world.start_process(backup)

        def put_back() -> None:
            world.remove(backup)
            strike.add_line("the right disk is put back")
            assert right == (main.disk, main.ledger)
            main.restarts = True
            world.start_process(main)

        strike.after_ms(strike.rng.randint(1_000, 6_000), put_back)

    strike.after_ms(
        strike.rng.randint(100, 3_000), lambda: strike.when(outdated, lead_astray, within_ms=5_000)
    )


def controller_cloned(strike: Strike) -> None:
    """A second machine is started from a copy of the folder, at once or with the next life.

    Both have one id; brokers know only the first. In the end the second is switched off.
    """
    world = strike.world
    if world.committed.in_transaction or "clone" in world.hosts:
        return
    together = strike.rng.random() < 0.6

    def begin(copy: Copy) -> None:
        if "clone" in world.hosts:
            return
        clone = world.second_host(copy, "clone")
        world.active.leads_alone = False
        world.start_process(clone)

        def switch_off() -> None:
            world.remove(clone)
            strike.add_line("the second machine is switched off")
            if world.process.alive:
                world.process.crash()

        strike.after_ms(strike.rng.randint(500, 6_000), switch_off)

    if together and world.process.alive:
        world.process.crash()
        copy = world.copy(world.active)
        strike.when(lambda: world.process.alive, lambda: begin(copy))
    else:
        begin(world.copy(world.active))


def rollback(strike: Strike) -> None:
    """An operator goes back to ZooKeeper mode, and somebody starts the old controller again.

    The controller is stopped in order, or killed, and ``/controller`` is deleted. A broker is
    elected in ZooKeeper mode, and changes the config of a topic, or makes one. The life that begins
    then on the old folder must write nothing to ZooKeeper, and stays refused.
    """
    world = strike.world

    def copied() -> bool:
        return world.facts.migration_state == MIGRATION and world.kraft_offset > 0

    def stop() -> None:
        world.active.restarts = False
        if strike.rng.random() < 0.6:
            _stop_in_order(strike, strike.rng.randint(2_000, PATIENCE_MS), change_hands)
        else:
            world.process.crash()
            change_hands()

    def change_hands() -> None:
        if world.zookeeper.frozen or not world.goes_back(elect(world.tree, strike.rng)):
            strike.after_ms(100, change_hands)
            return
        strike.add_line("a broker is elected in ZooKeeper mode")
        strike.after_ms(strike.rng.randint(10, 3_000), begin_again)

    def begin_again() -> None:
        if not world.process.alive:
            world.active.restarts = True
            world.start_process(world.active)

    strike.when(copied, stop)


def _stop_in_order(strike: Strike, patience_ms: int, then: Callable[[], None]) -> None:
    """Ask the process to stop, crash it if that takes too long, and go on when it has ended."""
    process = strike.world.process
    strike.world.active.may_halt = "it was asked to stop"
    process.shutdown()

    def look(left_ms: int) -> None:
        if process.alive and left_ms > 0:
            strike.after_ms(100, lambda: look(left_ms - 100))
            return
        if process.alive:
            process.crash()
        then()

    look(patience_ms)
