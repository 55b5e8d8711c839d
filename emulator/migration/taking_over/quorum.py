"""Decides from the quorum's log, at the start of a term, how the migration continues.

Source: KRaftMigrationDriver.WaitForControllerQuorumEvent,
QuorumFeatures.reasonAllControllersZkMigrationNotReady, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Reason, Why

WhyNot: TypeAlias = Callable[[int], str]
"""Voter -> why it is not ready by its own answer to ApiVersions; empty if it is."""


def next_state(image: Image, voters: Iterable[int], why_not: WhyNot) -> tuple[State, list[Reason]]:
    """The state after WAIT_FOR_CONTROLLER_QUORUM, and the reasons to wait if it stays there."""
    match image.migration_state:
        case MigrationState.PRE_MIGRATION:
            missing = _not_ready(image, voters, why_not)
            return State.WAIT_FOR_CONTROLLER_QUORUM if missing else State.WAIT_FOR_BROKERS, missing
        case MigrationState.MIGRATION:
            return State.BECOME_CONTROLLER, []
        case MigrationState.NONE:
            text = "this metadata log was started without a migration, and none can be added"
        case MigrationState.POST_MIGRATION:
            text = "the migration was finalised; it cannot be started again"
    name = MigrationState(image.migration_state).name
    return State.INACTIVE, [Reason(Why.MIGRATION_STATE, name, text, fatal=True)]


def _not_ready(image: Image, voters: Iterable[int], why_not: WhyNot) -> list[Reason]:
    """Every voter must have registered as ready; below 3.7-IV0, where none does, have said so."""
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return [
            Reason(Why.CONTROLLER_NOT_READY, str(voter), f"controller {voter}: {why}")
            for voter in sorted(voters)
            if (why := why_not(voter))
        ]
    result = []
    for voter in sorted(voters):
        known = image.controllers.get(voter)
        if known is None or not known.zk_migration_ready:
            state = "has not registered" if known is None else "has no migration configured"
            reason = Reason(Why.CONTROLLER_NOT_READY, str(voter), f"controller {voter} {state}")
            result.append(reason)
    return result
