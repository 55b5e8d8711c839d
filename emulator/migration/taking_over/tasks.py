"""Conversations with ZooKeeper, one for each state of the driver; here the first: recovery.

A task is begun once, takes the outcomes of its own requests, and ends with a result: done, reasons
to wait, or lost (the connection was lost; begin again). ``conversations`` decides which comes next;
the others are in ``checking``, ``claiming``, ``copying`` and ``purge``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec

from emulator.metadata.image import Image
from emulator.migration.position import Claimer, Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round
from emulator.migration.taking_over import claim, recover
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.zk import Zk
from emulator.migration.zk_tree import migration
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.seam import Effect
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    NodeData,
    ReadValue,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)


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

    def __init__(self, zk: Zk, unfinished: Reading | None = None) -> None:
        self._zk = zk
        self._round: Round | None = None
        self.result: TaskResult | None = None
        self.unfinished = unfinished
        """A reading that was interrupted, with which the next task of the state goes on."""
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

    def _read(self, reading: Reading, now_ms: int) -> list[Effect]:
        """Begin a reading of the tree, or go on with it."""
        self.unfinished = None
        return reading.resume(now_ms) if reading.lost else reading.begin(now_ms)

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


def found_of(outcomes: Sequence[ZkOutcome]) -> claim.Found | Reason:
    """The four znodes of the controllers, read by the last of these requests."""
    read = outcomes[-1]
    if isinstance(read, ZkFailed):
        return _unreadable("/controller", read.code)
    assert isinstance(read, ZkResult)
    assert isinstance(read.value, list)
    return claim.parse(cast("list[ReadValue]", read.value))


def _unreadable(path: str, code: int) -> Reason:
    return Reason(Why.UNREADABLE, path, f"{path}: ZooKeeper answers {code_name(code)}")
