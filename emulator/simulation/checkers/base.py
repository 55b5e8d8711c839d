"""The base class of all checkers."""

from __future__ import annotations

from typing import Final

from emulator.simulation.onlooker import Onlooker
from emulator.simulation.world import World

OWN: Final = "/kraft_bridge"
MIGRATION: Final = "/migration"
EPOCH: Final = "/controller_epoch"
CONTROLLER: Final = "/controller"


class Checker(Onlooker):
    """Observes a run and changes nothing; every method may raise Violated.

    Each judges by what can be seen from outside: the bytes on the disks, ZooKeeper's tree, what
    arrives at brokers and clients. ``name`` is explained in ``docs/dev/simulation.md``.
    """

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def unrest(self) -> str:
        """What has not come to rest yet; empty when all has."""
        return ""

    def ended(self) -> None:
        """Everything is quiet."""
