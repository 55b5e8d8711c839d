"""The claim as a conversation: check if need be, read, decide, write, read back."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.metadata.migration_state import MigrationState
from emulator.migration.reading import Reading
from emulator.migration.taking_over import claim, preconditions
from emulator.migration.taking_over.checking import CheckTask
from emulator.migration.taking_over.preconditions import Reason
from emulator.migration.taking_over.tasks import (
    Attempt,
    Claimed,
    Done,
    Lost,
    Missing,
    Task,
    found_of,
)
from emulator.migration.zk import Zk
from emulator.seam import Effect
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Multi, ZkFailed, ZkOutcome


class ClaimTask(Task):
    """Claim ``/controller`` and ``/controller_epoch``, unless a guard refuses.

    Before a first copy everything is checked again, unless it was ``checked`` in this moment: the
    claim may have been refused for hours, and after it there is no ZooKeeper-mode controller any
    more.
    """

    def __init__(
        self,
        zk: Zk,
        attempt: Attempt,
        *,
        checked: bool = False,
        unfinished: Reading | None = None,
    ) -> None:
        super().__init__(zk)
        self._attempt = attempt
        self._check: CheckTask | None = None
        if attempt.image.migration_state is not MigrationState.MIGRATION and not checked:
            self._check = CheckTask(zk, attempt, unfinished=unfinished)
        self._claim: Multi | None = None
        self.raised = False
        """Whether this task has raised the epoch."""

    @property
    def busy(self) -> bool:
        """Whether the tree that was read is being checked."""
        return self._check is not None and self._check.busy

    def begin(self, now_ms: int) -> list[Effect]:
        """Begin the check, or read the znodes to claim."""
        if self._check is not None:
            return self._check.begin(now_ms)
        return self._ask(claim.READ, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Continue the check."""
        if self._check is None:
            return []
        return self._check.tick(now_ms) + self._checked(self._check, now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take an outcome of the check or of the claim."""
        if self._check is None:
            return super().outcome(outcome, now_ms)
        return self._check.outcome(outcome, now_ms) + self._checked(self._check, now_ms)

    def _checked(self, check: CheckTask, now_ms: int) -> list[Effect]:
        if check.result is None:
            return []
        self._check, self.guards_passed = None, check.guards_passed
        self.unfinished = check.unfinished
        if not isinstance(check.result, Done):
            self.result = check.result
            return []
        return self._ask(claim.READ, now_ms)

    def _answered(self, outcomes: Sequence[ZkOutcome], now_ms: int) -> list[Effect]:
        if self._claim is not None:
            sent, self._claim = self._claim, None
            return self._after_multi(sent, outcomes[0], now_ms)
        found = found_of(outcomes)
        if isinstance(found, Reason):
            self.result = Missing((found,))
            return []
        of = self._attempt
        reasons = claim.guard(found, of.image, of.log, of.claimer)
        self.guards_passed = not reasons
        if claim.already_ours(found, of.claimer):
            claimed = Claimed(*claim.claimed(found, of.claimer))
            self.result = Missing(tuple(reasons)) if reasons else claimed
            return []
        reasons += preconditions.unwritable(of.image, of.entities)
        if not reasons:
            reasons += preconditions.unreachable(of.image, of.listener)
        if reasons:
            self.result = Missing(tuple(reasons))
            return []
        self._claim = claim.multi(found, of.log, of.claimer, now_ms)
        return self._ask((self._claim,), now_ms)

    def _after_multi(self, sent: Multi, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        if isinstance(outcome, ZkFailed):
            races = (ZkCode.BAD_VERSION, ZkCode.NO_NODE, ZkCode.NODE_EXISTS)
            if outcome.code in races:
                self.result = Lost()
            else:
                self.result = Missing((claim.refused(outcome, sent),))
            return []
        self.raised = True
        return self._ask(claim.READ, now_ms)
