"""A quorum of several controllers: which one is active, what is committed, which disks have it.

What the disks prove is checked where it is found out (``DiskLedger``, ``Voters``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.seam import Effect
from emulator.simulation.checkers.base import Checker
from emulator.simulation.models.process import Process
from emulator.simulation.violation import ensure
from emulator.simulation.world import World

BEHIND_MAX: Final = 4
"""NoOps that may be on their way to a follower while nothing happens."""


class OneActive(Checker):
    """In one epoch only one process says that it is the active controller."""

    name = "one-active"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.epochs: dict[int, str] = {}
        """The controller that was active, by epoch."""

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look what it says of itself."""
        del effects
        epoch, host = process.active_epoch, self.world.host_of(process.name)
        if epoch < 0:
            return
        known = self.epochs.setdefault(epoch, process.name)
        what = f"{known} and {process.name} are active in epoch {epoch}"
        ensure(known == process.name, self.name, what)
        assert host is not None
        assert self.world.voters is not None
        self.world.voters.leads(host.node_id, epoch)


class MarkIsCommitted(Checker):
    """The high watermark of a controller is not above what a majority of the disks has."""

    name = "mark-is-committed"

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Hold the mark, which answers and the gauges name, against the disks."""
        del effects
        mark, end = process.node.raft.high_watermark, self.world.committed.end_offset
        ensure(mark <= end, self.name, f"{process.name} says {mark}, committed is {end}")


class VotersAgree(Checker):
    """At the end one controller is active, and the disk of each has all that is committed."""

    name = "voters-agree"

    def unrest(self) -> str:
        """Look at the active controller, and at every disk."""
        world = self.world
        if not any(
            host.process and host.process.active_epoch >= 0 for host in world.hosts.values()
        ):
            return "no controller is active"
        end = world.committed.end_offset
        for host in world.controllers.values():
            held = host.ledger.held_end
            if held < end - BEHIND_MAX:
                return f"the disk of {host.name} has the log up to {held} of {end}"
        return ""
