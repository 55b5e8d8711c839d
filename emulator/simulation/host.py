"""One machine that runs controllers, one process after the other, on one disk."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.simulation.disk import SimulatedDisk
from emulator.simulation.ledger import Ledger, end_of_log
from emulator.simulation.process import Process


@dataclass(slots=True)
class Host:
    """A disk, what its log has made durable, and the life that runs on it.

    ``listens``: brokers reach it. ``written``: the last offset that a multi of this host, or of the
    one whose disk was copied, has brought to ZooKeeper.
    """

    name: str
    disk: SimulatedDisk
    ledger: Ledger
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


@dataclass(frozen=True, slots=True)
class Copy:
    """A folder as it was at some instant."""

    files: dict[str, bytes]
    ledger: Ledger
    written: int

    @property
    def end_offset(self) -> int:
        """First offset that the files do not hold, synced or not."""
        return end_of_log(self.files)
