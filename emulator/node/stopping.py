"""The orderly stop of a node: new work is refused, what is committed goes to ZooKeeper first."""

from __future__ import annotations

from typing import Final, NamedTuple

from emulator.controller.machine import Controller
from emulator.metadata.migration_state import MigrationState
from emulator.migration.side import MigrationSide, NoMigration
from emulator.raft.machine import Raft
from emulator.seam import Effect, Log

DRAIN_MS_MAX: Final = 60_000
"""How long an orderly stop waits for ZooKeeper before it ends with an error."""
STOPPING: Final = (
    "stopping: remaining changes are written to ZooKeeper, for at most "
    f"{DRAIN_MS_MAX // 1000} s; a second signal stops at once"
)


class End(NamedTuple):
    """The process may end."""

    why: str
    exit_code: int


class OrderlyStop:
    """The machines of a node on their way to its end."""

    def __init__(
        self, raft: Raft, controller: Controller, migration: MigrationSide | NoMigration
    ) -> None:
        self._raft = raft
        self._controller = controller
        self._migration = migration
        self._since_ms: int | None = None

    @property
    def begun(self) -> bool:
        """Whether the stop has begun."""
        return self._since_ms is not None

    @property
    def deadline_ms(self) -> int | None:
        """When it ends whatever ZooKeeper does; None before it has begun."""
        return None if self._since_ms is None else self._since_ms + DRAIN_MS_MAX

    def begin(self, now_ms: int) -> list[Effect]:
        """Refuse new work, write what is left."""
        self._since_ms = now_ms
        effects: list[Effect] = [Log("info", STOPPING, {})]
        effects += self._raft.shutdown(now_ms)
        self._controller.end()
        return effects + self._migration.drain(now_ms)

    def go_on(self, now_ms: int) -> tuple[list[Effect], End | None]:
        """What is to do now, and the end if it has come."""
        deadline_ms, migration = self.deadline_ms, self._migration
        if deadline_ms is None:
            return [], None
        late = now_ms >= deadline_ms
        behind = self._controller.busy or self._raft.dirty or not migration.drained
        if not late and behind:
            # Records that are not committed yet must still go to ZooKeeper.
            return [], None
        if not migration.drained:
            why = "stopped, but changes are missing in ZooKeeper: it did not answer"
            return [], End(why, 1)
        effects, closing = migration.close(now_ms)
        if closing and not late:
            return effects, None
        dual_write = self._controller.stable.migration_state == MigrationState.MIGRATION
        if migration.driver is None or not dual_write:
            return effects, End("stopped", 0)
        why = migration.out_of_charge()
        if not why:
            return effects, End("everything committed is in ZooKeeper", 0)
        return effects, End(f"stopped; changes may be missing in ZooKeeper: {why}", 1)
