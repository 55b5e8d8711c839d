"""One machine that runs controllers, one process after the other, on one disk."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.simulation.committed import CommittedLog
from emulator.simulation.models.disk import SimulatedDisk
from emulator.simulation.models.disk_ledger import DiskLedger, end_of_log
from emulator.simulation.models.process import Process
from emulator.simulation.models.voters import Voters
from emulator.simulation.scenarios import settings
from emulator.simulation.scenarios.scenario import Scenario


@dataclass(slots=True)
class Host:
    """A disk, what its log has made durable, and the life that runs on it.

    ``listens``: brokers reach it. ``written``: the last offset that a multi of this host, or of the
    one whose disk was copied, has brought to ZooKeeper.
    """

    name: str
    node_id: int
    disk: SimulatedDisk
    ledger: DiskLedger
    listens: bool = True
    process: Process | None = None
    lives: int = 0
    written: int = -1
    restarts: bool = True
    """A life that ends is followed by another."""
    may_halt: str = ""
    """Why a life of it may end by itself; "" when it may not."""
    never_writes: bool = False
    """ZooKeeper has what its log does not: nothing it does there can be right."""
    leads_alone: bool = True
    """No other host has a log that began as this one's and went its own way."""

    @property
    def committed(self) -> CommittedLog:
        """The log of the quorum that this host is in."""
        return self.ledger.committed


@dataclass(frozen=True, slots=True)
class Copy:
    """A folder as it was at some instant."""

    node_id: int
    files: dict[str, bytes]
    ledger: DiskLedger
    written: int

    @property
    def end_offset(self) -> int:
        """First offset that the files do not hold, synced or not."""
        return end_of_log(self.files)


def machines(scenario: Scenario) -> tuple[dict[int, Host], Voters | None]:
    """A machine for each voter, by node id; and what their disks prove, if there are several."""
    committed = CommittedLog(znodes=scenario.migration)
    several = scenario.controllers > 1
    voters = Voters(scenario.controllers, committed) if several else None
    hosts = {
        node_id: Host(
            name,
            node_id,
            SimulatedDisk(settings.formatted(scenario, node_id, new_quorum=True)),
            DiskLedger(committed, voters, node_id),
        )
        for node_id, (name, _port) in settings.voters(scenario).items()
    }
    return hosts, voters
