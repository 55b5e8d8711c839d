"""The check before the claim: everything is read and nothing written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.reading import Reading
from emulator.migration.rounds import Zk
from emulator.migration.taking_over import claim, preconditions, tasks
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.taking_over.tasks import (
    Attempt,
    Claimed,
    Done,
    Lost,
    Missing,
    Rounds,
    found_of,
)
from emulator.seam import Effect
from emulator.znodes import topics
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import GetChildren, Multi, ZkFailed, ZkOutcome, ZkResult

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


class CheckTask(Rounds):
    """Read everything, write nothing, and report the unmet preconditions of a migration.

    The whole tree is not read again for each broker that registers: while a running one is missing
    and there are the same topics, its reasons are those of the last reading and of the brokers.
    """

    def __init__(
        self,
        zk: Zk,
        attempt: Attempt,
        earlier: CheckTask | None = None,
        unfinished: Reading | None = None,
    ) -> None:
        super().__init__(zk, unfinished)
        self._attempt = attempt
        self._earlier = earlier
        self._asked_brokers = False
        self.read_ms = -READ_AGAIN_MS
        """When the tree was read whole; it is still to be read by this task if that is long ago."""
        self.topics: frozenset[str] = frozenset()
        """Those of that reading."""
        self.ended_ms = -1
        """When everything was checked, and nothing was missing."""
        self._reading: Reading | None = None
        self._checks: Iterator[Reason | None] | None = None
        self._reasons: list[Reason] = []

    @property
    def busy(self) -> bool:
        """Whether the tree that was read is being checked."""
        return self._checks is not None

    def begin(self, now_ms: int) -> list[Effect]:
        """Read the cluster's id and the four znodes of the controllers.

        A broker may have written the id since the recovery, when there was none.
        """
        return self._ask((*tasks.WHOSE, *claim.READ), now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take an outcome of the round or of the reading of the tree."""
        if self._reading is None or not self._reading.owns(outcome.tag):
            return super().outcome(outcome, now_ms)
        effects = self._reading.outcome(outcome, now_ms)
        self._judge(self._reading, now_ms)
        return effects

    def holds(self, image: Image, now_ms: int) -> bool:
        """Whether it has just ended, without a reason, and would end so with ``image``; once."""
        ended_ms, self.ended_ms = self.ended_ms, -1
        if ended_ms != now_ms or self._attempt.image.features != image.features:
            return False
        # Those that register are unfenced next, which makes no difference.
        one, other = (
            {each: broker.is_migrating_zk_broker for each, broker in some.brokers.items()}
            for some in (self._attempt.image, image)
        )
        return one == other

    def ended(self) -> CheckTask:
        """Without what it was made from: kept, each would keep the tree of the one before it."""
        self._reading = self._earlier = self.unfinished = None
        return self

    def tick(self, now_ms: int) -> list[Effect]:
        """Check the next piece of the tree."""
        if self._checks is None:
            return []
        pieces = list(islice(self._checks, CHECKS_PER_STEP))
        self._reasons += [reason for reason in pieces if reason is not None]
        if len(pieces) < CHECKS_PER_STEP:
            self._checks = None
            self.result = Missing(tuple(self._reasons)) if self._reasons else Done()
            self.ended_ms = -1 if self._reasons else now_ms
        return []

    def _answered(self, outcomes: Sequence[ZkOutcome], now_ms: int) -> list[Effect]:
        if self._asked_brokers:
            brokers, named = outcomes
            return self._running(brokers, named, now_ms)
        whose = outcomes[len(tasks.WHOSE) - 1]
        if (other := tasks.other_cluster(whose, self._attempt.cluster_id)) is not None:
            # No other reason is reported: all others are about the brokers of another cluster.
            self.guards_passed = False
            self.result = Missing((other,))
            return []
        found = found_of(outcomes)
        if isinstance(found, Reason):
            self._reasons.append(found)
        else:
            of = self._attempt
            self._reasons += claim.guard(found, of.image, of.log, of.claimer)
            self.guards_passed = not self._reasons
            if self.guards_passed and claim.already_ours(found, of.claimer):
                # The claim was applied although its answer was lost: the copy checks the tree
                # itself.
                self.result = Done()
                return []
        earlier = self._earlier
        if self._reasons or earlier is None or now_ms >= earlier.read_ms + READ_AGAIN_MS:
            return self._read_all(now_ms)
        self._asked_brokers = True
        return self._ask(_IN_BETWEEN, now_ms)

    def _running(self, brokers: ZkOutcome, named: ZkOutcome, now_ms: int) -> list[Effect]:
        """Wait on if a broker that runs is missing; else the tree must be read."""
        alive = _names(brokers)
        missing = preconditions.waits_for(self._attempt.image, alive)
        earlier = self._earlier
        if not missing or earlier is None or not isinstance(earlier.result, Missing):
            return self._read_all(now_ms)
        if earlier.topics != _names(named):
            return self._read_all(now_ms)
        renewed = {Why.NO_BROKERS.value, *alive}
        kept = [one for one in earlier.result.reasons if not renewed & {one.why.value, one.subject}]
        # The reading knew more of a broker than that it runs.
        known = {(one.why, one.subject): one for one in earlier.result.reasons}
        missing = [known.get((one.why, one.subject), one) for one in missing]
        self.result = Missing((*missing, *kept))
        self.read_ms, self.topics = earlier.read_ms, earlier.topics
        return []

    def _read_all(self, now_ms: int) -> list[Effect]:
        before = self.unfinished
        if before is not None and now_ms >= before.began_ms + READING_MS_MAX:
            self.result = Missing((*self._reasons, _interrupted(before)))
            return []
        self._reading = before or Reading(self._zk)
        return self._read(self._reading, now_ms)

    def _judge(self, reading: Reading, now_ms: int) -> None:
        if reading.lost:
            self.result, self.unfinished = Lost(), reading
        elif reading.failure is not None:
            self.result = Missing((*self._reasons, reading.failure))
        elif reading.tree is not None:
            of, self.read_ms = self._attempt, now_ms
            self.topics = frozenset(reading.tree.children(topics.ROOT))
            self._checks = preconditions.check(reading.tree, of.image, of.entities)


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


# The claim as a conversation: check if need be, read, decide, write, read back.


class ClaimTask(Rounds):
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
