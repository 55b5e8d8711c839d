"""The answers that clients receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.seam import Effect, Log
from emulator.simulation.checkers.base import Checker
from emulator.simulation.process import Process
from emulator.simulation.violation import Violated

FAILED: Final = "a request failed with an internal error"
"""The event that the log tells of a request whose handler raised, or whose answer did not fit."""


class HandlersCope(Checker):
    """No handler raises, and every answer fits its version: such a caller is told nothing."""

    name = "handlers-cope"

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look for the log line of a request that failed."""
        for effect in effects:
            if isinstance(effect, Log) and effect.event == FAILED:
                raise Violated(self.name, f"{process.name}: {dict(effect.fields)}")


class AnsweredIsCommitted(Checker):
    """Invariant 5: every change that was acknowledged is in the log; later answers hold too."""

    name = "answered-is-committed"

    def unrest(self) -> str:
        """Nobody waits for an answer."""
        waiting = self.world.traffic.waiting
        return f"answers are missing: {waiting}" if waiting else ""

    def ended(self) -> None:
        """Compare what clients were promised."""
        self.world.traffic.load.compare()
