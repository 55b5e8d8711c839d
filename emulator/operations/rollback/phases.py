"""Where a cluster stands on its way to KRaft and back, as far as going back is concerned."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from emulator.metadata.migration_state import MigrationState
from emulator.migration.phases import OperatorPhase
from emulator.operations.preflight.stage import MigrationStage
from emulator.operations.rollback.situation import Situation
from emulator.znodes import migration

NOT_NOW: Final = "NOT NOW"
"""What the verdict begins with where something is to be done first; ``status`` has it too."""


class RollbackPhase(Enum):
    """What going back begins from; the words are those of every verb."""

    NOT_BEGUN = OperatorPhase.NOT_MIGRATING.value
    PRE_MIGRATION = OperatorPhase.WAITING.value
    COPYING = OperatorPhase.COPYING.value
    DUAL_WRITE = OperatorPhase.DUAL_WRITE.value
    RELEASED = OperatorPhase.RELEASED.value
    ROLLED_BACK = OperatorPhase.ROLLED_BACK.value
    FINALISED = OperatorPhase.FINAL.value
    UNKNOWN = OperatorPhase.UNKNOWN.value


MEANINGS: Final[Mapping[RollbackPhase, str]] = MappingProxyType(
    {
        RollbackPhase.NOT_BEGUN: "no migration was begun: there is nothing to go back from",
        RollbackPhase.PRE_MIGRATION: "a broker in ZooKeeper mode is the controller, nothing was "
        "copied",
        RollbackPhase.COPYING: "a KRaft controller holds /controller and copies",
        RollbackPhase.DUAL_WRITE: "a KRaft controller holds /controller, both stores are written",
        RollbackPhase.RELEASED: "the KRaft controllers have given /controller back, and no broker "
        "was elected yet",
        RollbackPhase.ROLLED_BACK: "a broker in ZooKeeper mode is the controller again",
        RollbackPhase.FINALISED: "the migration is finalised",
        RollbackPhase.UNKNOWN: "the tree does not show where the migration stands",
    }
)


def phase_of(seen: Situation) -> RollbackPhase:
    """The phase that the tree, the folders and the controllers show."""
    stage = seen.stage
    if _finalised(seen):
        return RollbackPhase.FINALISED
    if stage.unreadable or stage.stage is MigrationStage.FINALISED:
        return RollbackPhase.UNKNOWN
    if stage.in_kraft:
        return RollbackPhase.DUAL_WRITE if _copied(seen) else RollbackPhase.COPYING
    if not seen.held:
        if seen.marked:
            return RollbackPhase.RELEASED
        if stage.complete or seen.mine is not None:
            # Somebody deleted it by hand.
            return RollbackPhase.DUAL_WRITE if _copied(seen) else RollbackPhase.COPYING
        return RollbackPhase.NOT_BEGUN if _untouched(seen) else RollbackPhase.PRE_MIGRATION
    if stage.complete or seen.marked or seen.mine is not None:
        return RollbackPhase.ROLLED_BACK
    return RollbackPhase.NOT_BEGUN if _untouched(seen) else RollbackPhase.PRE_MIGRATION


def _finalised(seen: Situation) -> bool:
    reported = [one.migration.get("migration_state") for one in seen.controllers]
    logged = [one.state for one in seen.survey.folders]
    return MigrationState.POST_MIGRATION.name in reported or MigrationState.POST_MIGRATION in logged


def _copied(seen: Situation) -> bool:
    """Whether callers may have been served by the KRaft controllers."""
    logged = [one.state for one in seen.survey.folders]
    reported = [one.migration.get("migration_state") for one in seen.controllers]
    return (
        seen.stage.complete
        or MigrationState.MIGRATION in logged
        or MigrationState.MIGRATION.name in reported
    )


def _untouched(seen: Situation) -> bool:
    begun = any(one.state == MigrationState.PRE_MIGRATION for one in seen.survey.folders)
    waiting = any(one.migration for one in seen.controllers)
    return migration.PATH not in seen.survey.nodes and not begun and not waiting
