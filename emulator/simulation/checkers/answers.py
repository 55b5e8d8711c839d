"""What clients were promised."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.seam import Effect
from emulator.simulation.checkers.base import Checker
from emulator.simulation.process import Process
from emulator.simulation.violation import ensure


class HandlersCope(Checker):
    """No handler raises, and every answer fits its version: such a caller is told nothing."""

    name = "handlers-cope"

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:  # noqa: ARG002
        """Every request was answered by its handler."""
        failed = process.node.controller.answers.failures.total
        ensure(not failed, self.name, f"{dict(failed)}")


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
