"""Invariant 8: final is final."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.seam import Effect
from emulator.simulation import tree_check
from emulator.simulation.checkers.base import CONTROLLER, EPOCH, MIGRATION, OWN, Checker
from emulator.simulation.facts import EMPTY
from emulator.simulation.models.process import Process
from emulator.simulation.violation import ensure
from emulator.simulation.world import FINALISED, World


class FinalIsFinal(Checker):
    """After the final record there is no other state, no broker in ZooKeeper mode, and no write.

    The final record comes when no voter has the flag any more: nothing may be on its way from one
    that has.
    """

    name = "final-is-final"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._facts = EMPTY
        self._final = False

    @property
    def final(self) -> bool:
        """Whether the final record was committed."""
        return self._final

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look at every new state of the log."""
        del process, effects
        facts = self.world.facts
        if facts is self._facts:
            return
        self._facts = facts
        if facts.migration_state == FINALISED:
            self._final = True
        if self._final:
            state = f"the state of the migration is {facts.migration_state} after the final record"
            ensure(facts.migration_state == FINALISED, self.name, state)
            left = [one.id for one in facts.brokers.values() if one.is_migrating_zk_broker]
            ensure(not left, self.name, f"brokers {left} are registered in ZooKeeper mode")

    def served(self, changed: frozenset[str], client: str) -> None:
        """A controller writes nothing to ZooKeeper any more."""
        if not self._final or self.world.host_of(client) is None:
            return
        ours = {
            path
            for path in changed
            if tree_check.covered(path) or path in {CONTROLLER, EPOCH, MIGRATION, OWN}
        }
        ensure(not ours, self.name, f"{client} changes {sorted(ours)}")

    def unrest(self) -> str:
        """Whoever finalises comes to the end; then every broker is in KRaft mode."""
        world = self.world
        if not world.finalising:
            return ""
        if world.facts.migration_state != FINALISED:
            return "the migration is not final"
        there = [one for one in world.brokers.values() if one.id not in world.departed]
        left = [one.name for one in there if not one.in_kraft_mode]
        return f"in ZooKeeper mode: {left}" if left else ""
