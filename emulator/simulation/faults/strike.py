"""One fault in progress."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from emulator.simulation.world import World


class Strike:
    """What a recipe works with.

    ``rng`` is this fault's alone. The fault is over when nothing that it put off is still to come.
    ``at_leader``: it is aimed at a state of the migration, so that of several voters the leader is
    to be struck.
    """

    def __init__(self, world: World, name: str, rng: Random, *, at_leader: bool = False) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.at_leader = at_leader
        self.ended_us: int | None = None
        """When it ended; None before that."""
        self._to_come = 0

    @property
    def over(self) -> bool:
        """Whether the fault has ended."""
        return self._to_come == 0

    def look(self) -> None:
        """Note it if the fault is over now."""
        if self.over:
            self.ended_us = self.world.scheduler.now_us

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later, as a part of the fault."""
        self._to_come += 1

        def act() -> None:
            self._to_come -= 1
            action()
            self.look()

        self.world.after_ms(delay_ms, act)

    def when(
        self, holds: Callable[[], bool], action: Callable[[], None], *, within_ms: int = 20_000
    ) -> None:
        """Do something as soon as a condition holds; give up when it does not in time."""
        if holds():
            action()
        elif within_ms > 0:
            self.after_ms(50, lambda: self.when(holds, action, within_ms=within_ms - 50))
        else:
            self.world.scheduler.add_line("fault", f"{self.name} finds no occasion")

    def add_line(self, what: str) -> None:
        """Add a line to the story."""
        self.world.scheduler.add_line("fault", f"{self.name}: {what}")


Recipe: TypeAlias = Callable[[Strike], None]
