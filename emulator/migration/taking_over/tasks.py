"""The ZooKeeper conversations of the driver's states: recover, check, claim; copy is `copying`.

A task is begun once, takes the outcomes of its own requests, and ends with a result: done, reasons
to wait, or lost (the connection was lost; begin again). The driver's table decides which task comes
next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias, cast

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.position import Claimer, Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round
from emulator.migration.taking_over import claim, preconditions, recover
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.zk import Zk
from emulator.migration.zk_tree import migration, topics
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.seam import Effect
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    GetChildren,
    Multi,
    NodeData,
    ReadValue,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

CHECKS_PER_STEP = 20
"""Pieces of the check in one step: 1,000 znodes of topics, or 20 other entities."""
READ_AGAIN_MS = 30_000
"""How old a reading of the tree may be whose reasons are shown while a broker is missing."""
_IN_BETWEEN = (GetChildren("/brokers/ids"), GetChildren(topics.ROOT))
"""What is read again before that."""


class Done(msgspec.Struct, frozen=True):
    """The task has reached its end."""


class Missing(msgspec.Struct, frozen=True):
    """The task cannot succeed until the reasons are removed."""

    reasons: tuple[Reason, ...]


class Lost(msgspec.Struct, frozen=True):
    """The connection was lost, or a concurrent write came first: begin again."""


class Claimed(msgspec.Struct, frozen=True):
    """The claim succeeded; holds the start of the chain of multis."""

    term: Term
    counters: Counters
    position: Position


TaskResult: TypeAlias = Done | Missing | Lost | Claimed


class Task:
    """One conversation; see the module's docstring."""

    def __init__(self, zk: Zk) -> None:
        self._zk = zk
        self._round: Round | None = None
        self.result: TaskResult | None = None
        self.guards_passed: bool | None = None
        """What the guards of the claim said; None: they were not asked."""

    def guards_said(self, before: bool | None) -> bool | None:
        """What is known of the guards now, after ``before``: a lost claim adds nothing to it."""
        lost = isinstance(self.result, Lost)
        return before if lost or self.guards_passed is None else self.guards_passed

    @property
    def busy(self) -> bool:
        """Whether :meth:`tick` should be called at once, outcomes or not."""
        return False

    def begin(self, now_ms: int) -> list[Effect]:
        """Send the first requests."""
        raise NotImplementedError

    def tick(self, _now_ms: int) -> list[Effect]:
        """Do the next piece of work that needs no outcome."""
        return []

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take an outcome; those of other conversations are ignored."""
        if self._round is None or not self._round.take(outcome):
            return []
        answered, self._round = self._round, None
        if answered.lost:
            self.result = Lost()
            return []
        return self._answered(answered.outcomes, now_ms)

    def _answered(self, outcomes: Sequence[ZkOutcome], now_ms: int) -> list[Effect]:
        raise NotImplementedError

    def _ask(self, requests: Sequence[ZkRequest], now_ms: int) -> list[Effect]:
        self._round = Round(requests)
        return self._round.begin(self._zk, now_ms)


class RecoverTask(Task):
    """Create the top-level znodes and ``/migration``, and check that ``/migration`` parses."""

    def __init__(self, zk: Zk, cluster_id: str) -> None:
        super().__init__(zk)
        self._cluster_id = cluster_id
        self._asked_whose = False

    def begin(self, now_ms: int) -> list[Effect]:
        """Read the cluster id; nothing is written into another cluster's ZooKeeper."""
        return self._ask(recover.WHOSE, now_ms)

    def _answered(self, outcomes: Sequence[ZkOutcome], now_ms: int) -> list[Effect]:
        if not self._asked_whose:
            self._asked_whose = True
            if (other := recover.other_cluster(outcomes[-1], self._cluster_id)) is None:
                return self._ask(recover.REQUESTS, now_ms)
            self.result = Missing((other,))
            return []
        failed = [
            _unreadable(recover.PATHS[index], outcome.code)
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, ZkFailed) and outcome.code != ZkCode.NODE_EXISTS
        ]
        last = outcomes[-1]
        if isinstance(last, ZkResult) and isinstance(last.value, NodeData):
            try:
                migration.parse(last.value.data)
            except ZnodeError as error:
                failed.append(Reason(Why.MIGRATION_ZNODE, error.path, str(error), fatal=True))
        self.result = Missing(tuple(failed)) if failed else Done()
        return []


class Attempt(msgspec.Struct, frozen=True):
    """What an attempt to claim is made from. A claim makes its own check, from the same values."""

    image: Image
    log: LogView
    who: Claimer
    entities: Entities
    cluster_id: str


class CheckTask(Task):
    """Read everything, write nothing, and report the unmet preconditions of a migration.

    The whole tree is not read again for each broker that registers: while a running one is missing
    and there are the same topics, its reasons are those of the last reading and of the brokers.
    """

    def __init__(self, zk: Zk, attempt: Attempt, earlier: CheckTask | None = None) -> None:
        super().__init__(zk)
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
        return self._ask((*recover.WHOSE, *claim.READ), now_ms)

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
        self._reading = self._earlier = None
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
        whose = outcomes[len(recover.WHOSE) - 1]
        if (other := recover.other_cluster(whose, self._attempt.cluster_id)) is not None:
            # No other reason is told: all of it is about somebody else's brokers.
            self.guards_passed = False
            self.result = Missing((other,))
            return []
        found = _found(outcomes)
        if isinstance(found, Reason):
            self._reasons.append(found)
        else:
            of = self._attempt
            self._reasons += claim.guard(found, of.image, of.log, of.who)
            self.guards_passed = not self._reasons
            if self.guards_passed and claim.already_ours(found, of.who):
                # The claim was applied although its answer was lost: the copy checks the tree
                # itself.
                self.result = Done()
                return []
        earlier = self._earlier
        if self._reasons or earlier is None or now_ms >= earlier.read_ms + READ_AGAIN_MS:
            return self._read(now_ms)
        self._asked_brokers = True
        return self._ask(_IN_BETWEEN, now_ms)

    def _running(self, brokers: ZkOutcome, named: ZkOutcome, now_ms: int) -> list[Effect]:
        """Wait on if a broker that runs is missing; else the tree must be read."""
        alive = _names(brokers)
        missing = preconditions.waits_for(self._attempt.image, alive)
        earlier = self._earlier
        if not missing or earlier is None or not isinstance(earlier.result, Missing):
            return self._read(now_ms)
        if earlier.topics != _names(named):
            return self._read(now_ms)
        told = {Why.NO_BROKERS.value, *alive}
        kept = [one for one in earlier.result.reasons if not told & {one.why.value, one.subject}]
        # The reading knew more of a broker than that it runs.
        known = {(one.why, one.subject): one for one in earlier.result.reasons}
        missing = [known.get((one.why, one.subject), one) for one in missing]
        self.result = Missing((*missing, *kept))
        self.read_ms, self.topics = earlier.read_ms, earlier.topics
        return []

    def _read(self, now_ms: int) -> list[Effect]:
        self._reading = Reading(self._zk)
        return self._reading.begin(now_ms)

    def _judge(self, reading: Reading, now_ms: int) -> None:
        if reading.lost:
            self.result = Lost()
        elif reading.failure is not None:
            self.result = Missing((*self._reasons, reading.failure))
        elif reading.tree is not None:
            of, self.read_ms = self._attempt, now_ms
            self.topics = frozenset(reading.tree.children(topics.ROOT))
            self._checks = preconditions.check(reading.tree, of.image, of.entities)


class ClaimTask(Task):
    """Claim ``/controller`` and ``/controller_epoch``, unless a guard refuses.

    Before a first copy everything is checked again, unless it was ``checked`` in this moment: the
    claim may have been refused for hours, and after it there is no ZooKeeper-mode controller any
    more.
    """

    def __init__(self, zk: Zk, attempt: Attempt, *, checked: bool = False) -> None:
        super().__init__(zk)
        self._attempt = attempt
        self._check: CheckTask | None = None
        if attempt.image.migration_state is not MigrationState.MIGRATION and not checked:
            self._check = CheckTask(zk, attempt)
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
        if not isinstance(check.result, Done):
            self.result = check.result
            return []
        return self._ask(claim.READ, now_ms)

    def _answered(self, outcomes: Sequence[ZkOutcome], now_ms: int) -> list[Effect]:
        if self._claim is not None:
            sent, self._claim = self._claim, None
            return self._after_multi(sent, outcomes[0], now_ms)
        found = _found(outcomes)
        if isinstance(found, Reason):
            self.result = Missing((found,))
            return []
        of = self._attempt
        reasons = claim.guard(found, of.image, of.log, of.who)
        self.guards_passed = not reasons
        if claim.already_ours(found, of.who):
            claimed = Claimed(*claim.claimed(found, of.who))
            self.result = Missing(tuple(reasons)) if reasons else claimed
            return []
        reasons += preconditions.unwritable(of.image, of.entities)
        if reasons:
            self.result = Missing(tuple(reasons))
            return []
        self._claim = claim.multi(found, of.log, of.who, now_ms)
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


def _found(outcomes: Sequence[ZkOutcome]) -> claim.Found | Reason:
    read = outcomes[-1]
    if isinstance(read, ZkFailed):
        return _unreadable("/controller", read.code)
    assert isinstance(read, ZkResult)
    assert isinstance(read.value, list)
    return claim.parse(cast("list[ReadValue]", read.value))


def _names(listed: ZkOutcome) -> frozenset[str]:
    """The children that were listed; a missing parent has none."""
    found = listed.value if isinstance(listed, ZkResult) else ()
    assert isinstance(found, tuple)
    return frozenset(map(str, found))


def _unreadable(path: str, code: int) -> Reason:
    return Reason(Why.UNREADABLE, path, f"{path}: ZooKeeper answers {code_name(code)}")
