"""The check before the claim: everything is read and nothing written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain, islice
from typing import TypeAlias

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.reading import Reading
from emulator.migration.rounds import Zk
from emulator.migration.taking_over import claim, preconditions, tasks
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.taking_over.tasks import (
    Attempt,
    Awaited,
    Claimed,
    Done,
    Lost,
    Missing,
    Outcomes,
    Talk,
    Task,
    found_of,
)
from emulator.znodes import controller, topics
from emulator.znodes.tree import FREED_PER_STEP
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import GetChildren, ZkFailed, ZkOutcome, ZkResult

READING_MS_MAX = 300_000
"""How long a reading before the claim goes on over lost connections: nothing keeps the tree as it
is meanwhile. The copy checks again what it reads.
"""
CHECKS_PER_STEP = 20
"""Pieces of the check in one step: 1,000 znodes of topics, or 20 other entities."""
READ_AGAIN_MS = 30_000
"""How old a reading of the tree may be whose reasons are shown while a broker is missing."""
_IN_BETWEEN = (GetChildren("/brokers/ids"), GetChildren(topics.ROOT))
"""What is read again before that."""


class Checked(msgspec.Struct, frozen=True):
    """What a check has found, for the tasks after it; nothing of the tree that was read."""

    image: Image
    reasons: tuple[Reason, ...]
    read_ms: int = -READ_AGAIN_MS
    """When the tree was read whole; it is still to be read if that is long ago."""
    topics: frozenset[str] = frozenset()
    """Those of that reading."""
    ended_ms: int = -1
    """When the whole tree had been checked, and nothing was missing."""

    def holds(self, image: Image, now_ms: int) -> bool:
        """Whether it has just ended, without a reason, and would end so with ``image``."""
        if self.ended_ms != now_ms or self.image.features != image.features:
            return False
        # Those that register are unfenced next, which makes no difference.
        one, other = (
            {each: broker.is_migrating_zk_broker for each, broker in some.brokers.items()}
            for some in (self.image, image)
        )
        return one == other


Checking: TypeAlias = Generator[Awaited, Outcomes, Checked]


def check(task: Task, of: Attempt, earlier: Checked | None = None) -> Checking:
    """Read everything, write nothing, and report the unmet preconditions of a migration.

    The whole tree is not read again for each broker that registers: while a running one is missing
    and there are the same topics, its reasons are those of the last reading and of the brokers.

    Args:
        task: which asks; takes what the guards of the claim say.
        of: what the check is made from.
        earlier: the last check of this term.
    """
    # A broker may have written the cluster's id since the recovery, when there was none.
    outcomes = yield (*tasks.WHOSE, *claim.READ)
    whose = outcomes[len(tasks.WHOSE) - 1]
    if (other := tasks.other_cluster(whose, of.cluster_id)) is not None:
        # No other reason is reported: all others are about the brokers of another cluster.
        task.guards_passed = False
        return Checked(of.image, (other,))
    found = found_of(outcomes)
    if isinstance(found, Reason):
        reasons = [found]
    else:
        reasons = claim.guard(found, of.image, of.log, of.claimer)
        task.guards_passed = not reasons
        if task.guards_passed and claim.already_ours(found, of.claimer):
            # It was applied although its answer was lost: the copy checks the tree itself.
            return Checked(of.image, ())
    if not reasons and earlier is not None and task.now_ms < earlier.read_ms + READ_AGAIN_MS:
        brokers, named = yield _IN_BETWEEN
        if (renewed := _renewed(earlier, of.image, brokers, named)) is not None:
            return renewed
    before = task.unfinished
    if before is not None and task.now_ms >= before.began_ms + READING_MS_MAX:
        return Checked(of.image, (*reasons, _interrupted(before)))
    reading = before or Reading(task.zk)
    yield reading
    if reading.tree is None:
        assert reading.failure is not None
        return Checked(of.image, (*reasons, reading.failure))
    read_ms, names = task.now_ms, frozenset(reading.tree.children(topics.ROOT))
    checks = preconditions.check(reading.tree, of.image, of.entities)
    freed = reading.tree.emptied(FREED_PER_STEP // CHECKS_PER_STEP)
    reasons += yield from checked(chain(checks, freed))
    ended_ms = -1 if reasons else task.now_ms
    return Checked(of.image, tuple(reasons), read_ms, names, ended_ms)


def checked(
    pieces: Iterator[Reason | None], *, all_of_them: bool = True
) -> Generator[Awaited, Outcomes, list[Reason]]:
    """Check a tree, :data:`CHECKS_PER_STEP` pieces in a step; unless all, until one is refused."""
    reasons: list[Reason] = []
    count = CHECKS_PER_STEP
    while count == CHECKS_PER_STEP and (all_of_them or not reasons):
        yield _at_once
        step = list(islice(pieces, CHECKS_PER_STEP))
        count, reasons = len(step), reasons + [one for one in step if one is not None]
    return reasons


def _at_once() -> bool:
    return True


def _renewed(
    earlier: Checked, image: Image, brokers: ZkOutcome, named: ZkOutcome
) -> Checked | None:
    """The earlier check with what brokers say now; None: the tree must be read.

    It need not while a broker that runs is missing, and there are the same topics.
    """
    alive = _names(brokers)
    missing = preconditions.waits_for(image, alive)
    if not missing or not earlier.reasons or earlier.topics != _names(named):
        return None
    renewed = {Why.NO_BROKERS.value, *alive}
    kept = [one for one in earlier.reasons if not renewed & {one.why.value, one.subject}]
    # The reading knew more of a broker than that it runs.
    known = {(one.why, one.subject): one for one in earlier.reasons}
    missing = [known.get((one.why, one.subject), one) for one in missing]
    return Checked(image, (*missing, *kept), earlier.read_ms, earlier.topics)


def _interrupted(reading: Reading) -> Reason:
    """A reading before the claim was interrupted for too long; the next begins anew."""
    text = (
        "reading the tree in ZooKeeper begins anew, as what was read may have changed: connections "
        f"lost meanwhile: {reading.interruptions + 1}, in more than {READING_MS_MAX // 1_000} s"
    )
    return Reason(Why.UNREADABLE, "/", text)


def _names(listed: ZkOutcome) -> frozenset[str]:
    """The children that were listed; a missing parent has none."""
    found = listed.value if isinstance(listed, ZkResult) else ()
    assert isinstance(found, tuple)
    return frozenset(map(str, found))


class CheckTask(Task):
    """See :func:`check`."""

    def __init__(
        self,
        zk: Zk,
        attempt: Attempt,
        earlier: Checked | None = None,
        unfinished: Reading | None = None,
    ) -> None:
        super().__init__(zk, unfinished)
        self._of = attempt, earlier
        self.checked: Checked | None = None

    def talk(self) -> Talk:
        """Check."""
        self.checked = yield from check(self, *self._of)
        return Missing(self.checked.reasons) if self.checked.reasons else Done()


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
        super().__init__(zk, unfinished)
        self._attempt = attempt
        self._checked = checked or attempt.image.migration_state is MigrationState.MIGRATION
        self.raised = False
        """Whether this task has raised the epoch."""

    def talk(self) -> Talk:
        """Check if need be; read, ask the guards, write, and read back until the claim is ours."""
        of = self._attempt
        if not self._checked and (missing := (yield from check(self, of)).reasons):
            return Missing(missing)
        written = -1, -1
        while True:
            found = found_of((yield claim.READ))
            if isinstance(found, Reason):
                return Missing((found,))
            read = found.epoch_created, found.epoch_version
            assert read >= written, f"{controller.EPOCH_PATH} went back to {read} from {written}"
            reasons = claim.guard(found, of.image, of.log, of.claimer)
            self.guards_passed = not reasons
            if claim.already_ours(found, of.claimer):
                claimed = Claimed(*claim.claimed(found, of.claimer))
                return Missing(tuple(reasons)) if reasons else claimed
            reasons += preconditions.unwritable(of.image, of.entities)
            if not reasons:
                reasons += preconditions.unreachable(of.image, of.listener)
            if reasons:
                return Missing(tuple(reasons))
            sent = claim.multi(found, of.log, of.claimer, self.now_ms)
            (outcome,) = yield (sent,)
            if isinstance(outcome, ZkFailed):
                race = outcome.code in {ZkCode.BAD_VERSION, ZkCode.NO_NODE, ZkCode.NODE_EXISTS}
                return Lost() if race else Missing((claim.refused(outcome, sent),))
            self.raised, written = True, (found.epoch_created, found.epoch_version + 1)
