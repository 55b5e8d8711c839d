"""Faults of one voter of several, or of all: those that a quorum must survive.

Most of them strike the active controller. A disk is lost only while no other voter may lack what it
has acknowledged (``voter-state``), and the newest epoch has its leader: a record that two of three
voters have lost may be gone for good. An older disk is put in the place of one only while every
other voter has all that is committed: a voter that starts on it cannot detect that it is older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.raft import layout
from emulator.simulation.faults.strike import Recipe, Strike
from emulator.simulation.models.disk import Operation, SimulatedDisk
from emulator.simulation.models.host import Host
from emulator.simulation.models.process import Process
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios import settings

PATIENCE_MS: Final = 10_000
DOWN_MS: Final = (0, 0, 0, 2_500, 8_000)
"""How long a machine stays down, beside the time that a start takes."""
PAUSES_MS: Final = (50, 500, 1_500, 3_500, 8_000)
"""Shorter and longer than the times of elections."""
PARTED_MS: Final = (300, 1_500, 3_500, 8_000, 15_000)
SYNCS_MS: Final = ((50, 300), (300, 900), (1_500, 4_000))
ACTIVE: Final = 0.6
"""How often the active controller is struck."""


def voter_crash(strike: Strike) -> None:
    """The machine of a voter goes down: what was not synced is lost."""
    if (host := _one(strike)) is not None:
        _down(strike, host, lambda process: process.crash())


def voter_kill(strike: Strike) -> None:
    """SIGKILL of a voter; its machine stays up."""
    if (host := _one(strike)) is not None:
        _down(strike, host, lambda process: process.kill())


def voter_crash_in_step(strike: Strike) -> None:
    """The machine goes down between two effects of one step."""
    host = _one(strike)
    if host is not None and host.process is not None:
        host.process.crash_after(strike.rng.randint(1, 40))


def voter_shutdown(strike: Strike) -> None:
    """SIGTERM of a voter: an active one hands over; then it is started again."""
    host = _one(strike)
    if host is None or host.process is None:
        return
    process, host.may_halt = host.process, "it was asked to stop"
    strike.add_line(f"{process.name} is asked to stop")
    process.shutdown()

    def insist(left_ms: int) -> None:
        if process.alive and left_ms > 0:
            strike.after_ms(100, lambda: insist(left_ms - 100))
        elif process.alive:
            process.crash()

    insist(PATIENCE_MS)


def voter_pause(strike: Strike) -> None:
    """SIGSTOP of a voter, and SIGCONT: what had arrived meanwhile is taken late."""
    host = _one(strike)
    if host is None or host.process is None:
        return
    process = host.process
    process.freeze()

    def thaw() -> None:
        if process.alive:
            process.thaw()

    strike.after_ms(strike.rng.choice(PAUSES_MS), thaw)


def voters_parted(strike: Strike) -> None:
    """A voter and the others, or two voters, do not reach each other, or one of both not."""
    world, rng = strike.world, strike.rng
    names = [host.name for host in world.controllers.values()]
    one = chosen(strike).name
    others = [name for name in names if name != one]
    if rng.random() < 0.3:
        others = [rng.choice(others)]
    if rng.random() < 0.3:
        others += [f"broker-{broker_id}" for broker_id in world.brokers]
    ways = rng.choice(("both", "both", "in", "out"))
    pairs = [(one, other) for other in others if ways != "in"]
    pairs += [(other, one) for other in others if ways != "out"]
    strike.add_line(f"{one} and {', '.join(others)} are parted: {ways}")
    for pair in pairs:
        world.network.part(*pair)

    def join() -> None:
        strike.add_line(f"{one} is joined again")
        for pair in pairs:
            world.network.join(*pair)

    strike.after_ms(rng.choice(PARTED_MS), join)


def voter_disk_slow(strike: Strike) -> None:
    """Every sync of a voter takes long, for a while."""
    host = _one(strike)
    if host is None or host.process is None:
        return
    process, (low_ms, high_ms) = host.process, strike.rng.choice(SYNCS_MS)
    process.sync_us = (low_ms * MS, high_ms * MS)
    strike.add_line(f"syncs of {process.name} take {low_ms} to {high_ms} ms")

    def mend() -> None:
        process.sync_us = strike.world.scenario.sync_us

    strike.after_ms(strike.rng.choice(PARTED_MS), mend)


def voter_disk_error(strike: Strike) -> None:
    """EIO of one operation of a voter's disk: its process must end, unless it is a snapshot's."""
    host = _one(strike)
    if host is None or host.process is None:
        return
    process = host.process
    operation: Operation = strike.rng.choice(("append", "sync", "replace"))
    host.disk.fail_next(operation, after=strike.rng.randint(0, 3))
    strike.add_line(f"the disk of {process.name} will fail")
    strike.when(lambda: not process.alive, lambda: None, within_ms=5_000)


def voter_disk_lost(strike: Strike) -> None:
    """The folder of a voter is gone; it is formatted anew, and the voter started."""

    def lose(host: Host) -> None:
        formatted = settings.formatted(strike.world.scenario, host.node_id)
        host.disk = SimulatedDisk(formatted)
        strike.add_line(f"the disk of {host.name} is lost")

    _other_disk(strike, chosen(strike), lose, needs_all=False)


def voter_disk_restored(strike: Strike) -> None:
    """A backup takes the place of a voter's disk."""
    host = chosen(strike)
    backup = SimulatedDisk(host.disk.files)
    strike.add_line(f"a backup of {host.name} is made")

    def restore(host: Host) -> None:
        host.disk = backup
        strike.add_line(f"the backup of {host.name} takes the place of its disk")

    def take_place() -> None:
        _other_disk(strike, host, restore, needs_all=True)

    strike.after_ms(strike.rng.randint(500, 10_000), take_place)


def all_power(strike: Strike) -> None:
    """All voters go down at once."""
    for host in strike.world.controllers.values():
        if host.process is not None:
            host.process.crash()


def _one(strike: Strike) -> Host | None:
    """A voter that runs, the active one most of the time; None if none runs."""
    wanted = chosen(strike)
    running = [
        host
        for host in strike.world.controllers.values()
        if host.process is not None and host.process.alive and not host.process.frozen
    ]
    if wanted in running or not running:
        return wanted if running else None
    return strike.rng.choice(running)


def chosen(strike: Strike) -> Host:
    """The host that is to be struck: that of the active controller most of the time."""
    world = strike.world
    if strike.at_leader or strike.rng.random() < ACTIVE:
        return world.active
    return strike.rng.choice(list(world.controllers.values()))


def _down(strike: Strike, host: Host, end: Callable[[Process], None]) -> None:
    """End the process of a host, which begins again after a while."""
    assert host.process is not None
    down_ms = strike.rng.choice(DOWN_MS)
    if not down_ms:
        end(host.process)
        return
    host.restarts = False
    end(host.process)
    strike.after_ms(down_ms, lambda: _start(strike, host))


def _start(strike: Strike, host: Host) -> None:
    host.restarts = True
    if host.process is None or not host.process.alive:
        strike.world.start_process(host)


def _other_disk(
    strike: Strike, host: Host, exchange: Callable[[Host], None], *, needs_all: bool
) -> None:
    """Change the disk of a voter as soon as a quorum must survive that.

    Args:
        strike: the fault.
        host: whose disk.
        exchange: changes it.
        needs_all: whether each of the others must have all that is committed.
    """
    world = strike.world

    def survivable() -> bool:
        assert world.voters is not None
        others = [one for one in world.controllers.values() if one is not host]
        end, epoch = world.committed.end_offset, host.ledger.epoch
        newest = max(epoch, *(one.ledger.epoch for one in others))
        agreed = newest in world.voters.leaders
        whole = all(_is_whole(one) for one in others)
        if needs_all:
            agreed &= all(one.ledger.epoch == newest for one in others)
            whole &= all(one.ledger.held_end >= end for one in others)
        return host.restarts and end > 0 and agreed and whole

    def change() -> None:
        host.restarts = False
        if host.process is not None:
            host.process.crash()
        exchange(host)
        host.ledger.is_another()
        strike.after_ms(strike.rng.randint(100, 3_000), lambda: _start(strike, host))

    strike.when(survivable, change)


def _is_whole(host: Host) -> bool:
    """Whether a voter knows that it has lost nothing: until then it votes for no candidate."""
    state = host.disk.read(layout.VOTER_STATE)
    return state is not None and b"whole" in state


VOTERS: Final[dict[str, Recipe]] = {
    "voter-crash": voter_crash,
    "voter-crash-in-step": voter_crash_in_step,
    "voter-kill": voter_kill,
    "voter-shutdown": voter_shutdown,
    "voter-pause": voter_pause,
    "voters-parted": voters_parted,
    "voter-disk-slow": voter_disk_slow,
    "voter-disk-error": voter_disk_error,
    "voter-disk-lost": voter_disk_lost,
    "voter-disk-restored": voter_disk_restored,
    "all-power": all_power,
}


# Faults that strike the leader of several voters in a migration.


def zookeeper_parted(strike: Strike) -> None:
    """A voter and ZooKeeper do not reach each other, or one of both not; the voters do.

    For shorter or longer than the session timeout: ZooKeeper may end a session whose owner leads.
    """
    world, rng = strike.world, strike.rng
    one = chosen(strike).name
    ways = rng.choice(("both", "both", "in", "out"))
    pairs = [(one, "zookeeper")] * (ways != "in") + [("zookeeper", one)] * (ways != "out")
    strike.add_line(f"{one} and zookeeper are parted: {ways}")
    for pair in pairs:
        world.network.part(*pair)

    def join() -> None:
        strike.add_line(f"{one} and zookeeper are joined again")
        for pair in pairs:
            world.network.join(*pair)

    strike.after_ms(rng.choice(PARTED_MS), join)


LEADERS: Final[dict[str, Recipe]] = {"zookeeper-parted": zookeeper_parted}
