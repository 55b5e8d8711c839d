"""Conversations with ZooKeeper, one for each state of the driver; here the first: recovery.

A task is begun once, takes the outcomes of its own requests, and ends with a result: done, reasons
to wait, or lost (the connection was lost; begin again). What it asks and does is one generator,
which reads as if ZooKeeper answered at once; :class:`Task` runs it. ``conversations`` decides which
comes next; the others are in ``checking``, ``copying`` and ``purge``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeAlias, cast

import msgspec

from emulator.metadata.image import Image
from emulator.migration.position import Claimer, Counters, Position, Term
from emulator.migration.reading import Reading
from emulator.migration.rounds import Round, Zk
from emulator.migration.taking_over import claim
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.seam import Effect
from emulator.znodes import cluster, migration, own
from emulator.znodes.entity import Entities
from emulator.znodes.reader import TOP_LEVEL
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Create,
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    Sync,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

# Creates ZooKeeper's top-level znodes and ``/migration``, before anything else.
#
# Of several voters only the leader creates them, those that it does not find: a follower only
# reads.
#
# Source: ZkMigrationClient.getOrCreateMigrationRecoveryState, KafkaZkClient.createTopLevelPaths,
# Kafka 3.9: a controller with the migration flag writes these before any migration begins. Each may
# exist already. Beyond Kafka: nothing is written into the ZooKeeper of another cluster, nor of one
# that was rolled back: the guards of the claim say so.

WHOSE: Final[Sequence[ZkRequest]] = (Sync("/"), GetData(cluster.PATH))
"""Which cluster's ZooKeeper this is; read before anything is written."""
PATHS: Final = (*TOP_LEVEL, migration.PATH)
"""What is needed, parents before children."""
LOOK: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(path) for path in PATHS)))
"""Reads all of it."""


def creation(paths: Sequence[str]) -> Sequence[ZkRequest]:
    """Create some of :data:`PATHS`, if they are missing; the last request reads ``/migration``."""
    initial = migration.encode(migration.INITIAL)
    creates = (Create(path, initial if path == migration.PATH else None) for path in paths)
    return (*creates, Sync("/"), GetData(migration.PATH))


def other_cluster(answer: ZkOutcome, cluster_id: str) -> Reason | None:
    """Why this ZooKeeper must not be written; None if it has our cluster id or none (C12).

    Args:
        answer: the result of reading ``/cluster/id``.
        cluster_id: the id our folder was formatted with.
    """
    if isinstance(answer, ZkFailed) and answer.code != ZkCode.NO_NODE:
        text = f"{cluster.PATH}: ZooKeeper answers {code_name(answer.code)}"
        return Reason(Why.UNREADABLE, cluster.PATH, text)
    if not isinstance(answer, ZkResult) or not isinstance(answer.value, NodeData):
        return None
    try:
        found = cluster.parse(answer.value.data)
    except ZnodeError as error:
        return Reason(Why.MALFORMED_ZNODE, error.path, str(error), fatal=True)
    if found == cluster_id:
        return None
    return Reason(
        Why.OTHER_CLUSTER,
        cluster.PATH,
        f"ZooKeeper belongs to cluster {found} ({cluster.PATH}), this controller was formatted for "
        f"cluster {cluster_id}: correct zookeeper.connect, or format an empty folder "
        f"with -t {found}",
        fatal=True,
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
Awaited: TypeAlias = Sequence[ZkRequest] | Reading | Callable[[], bool]
"""What a conversation waits for: the outcomes of requests that are sent together; the end of a
reading of the tree; or the first step in which something holds."""
Outcomes: TypeAlias = Sequence[ZkOutcome]
Talk: TypeAlias = Generator[Awaited, Outcomes, TaskResult]
"""A conversation. It is sent the outcomes of its requests, in order, or nothing."""


class Task:
    """Runs one conversation, :meth:`talk`; see the module's docstring.

    A lost connection ends it with :class:`Lost` where it waits, so it needs not ask for that.

    Args:
        zk: the ZooKeeper client.
        unfinished: a reading that an earlier task has left; see the attribute.
    """

    def __init__(self, zk: Zk, unfinished: Reading | None = None) -> None:
        self.zk = zk
        self.now_ms = 0
        self.effects: list[Effect] = []
        """What the conversation does beside asking; returned with its next requests."""
        self.result: TaskResult | None = None
        self.unfinished = unfinished
        """A reading that was interrupted, with which the next task of the state goes on."""
        self.guards_passed: bool | None = None
        """Whether the guards of the claim passed; None: they were not asked."""
        self._talk = self.talk()
        self._awaited: Round | Reading | Callable[[], bool] | None = None

    def talk(self) -> Talk:
        """The conversation."""
        raise NotImplementedError

    def guards_result(self, before: bool | None) -> bool | None:
        """What is known of the guards now, after ``before``: a lost claim adds nothing to it."""
        lost = isinstance(self.result, Lost)
        return before if lost or self.guards_passed is None else self.guards_passed

    @property
    def busy(self) -> bool:
        """Whether :meth:`tick` should be called at once, outcomes or not."""
        return callable(self._awaited) and self._awaited()

    def begin(self, now_ms: int) -> list[Effect]:
        """Send the first requests."""
        self.now_ms = now_ms
        return self._go_on(None)

    def tick(self, now_ms: int) -> list[Effect]:
        """Do the next piece of work that needs no outcome."""
        self.now_ms = now_ms
        return self._go_on(()) if self.busy else []

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take an outcome; those of other conversations are ignored."""
        awaited, self.now_ms = self._awaited, now_ms
        if isinstance(awaited, Round) and awaited.take(outcome):
            return self.end(Lost()) if awaited.lost else self._go_on(awaited.outcomes)
        if not isinstance(awaited, Reading) or not awaited.owns(outcome.tag):
            return []
        effects = awaited.outcome(outcome, now_ms)
        if awaited.lost:
            self.unfinished = awaited
            return effects + self.end(Lost())
        ended = awaited.failure is not None or awaited.tree is not None
        return effects + self._go_on(()) if ended else effects

    def end(self, result: TaskResult | None = None) -> list[Effect]:
        """Go no further. What the conversation holds, such as a tree, is freed at once."""
        self._awaited, self.result = None, result
        self._talk.close()
        return []

    def _go_on(self, outcomes: Outcomes | None) -> list[Effect]:
        """Run the conversation until it waits again, and begin what it waits for."""
        self._awaited = None
        try:
            wanted = next(self._talk) if outcomes is None else self._talk.send(outcomes)
        except StopIteration as end:
            self.result, wanted = end.value, ()
        effects, self.effects = self.effects, []
        if isinstance(wanted, Reading):
            self._awaited, self.unfinished = wanted, None
            return effects + (wanted.resume if wanted.lost else wanted.begin)(self.now_ms)
        if callable(wanted):
            self._awaited = wanted
        elif wanted:
            self._awaited = Round(wanted)
            effects += self._awaited.begin(self.zk, self.now_ms)
        return effects


def _says_rolled_back(mark: ZkOutcome) -> bool:
    found = mark.value if isinstance(mark, ZkResult) else None
    return isinstance(found, NodeData) and own.rolled_back(own.try_parse(found.data))


class RecoverTask(Task):
    """Create the top-level znodes and ``/migration``, and check that ``/migration`` parses.

    Args:
        zk: the ZooKeeper client.
        cluster_id: the id our folder was formatted with.
        look: read first, and create only what is missing.
        create: create at all; else ``look`` is all it does.
    """

    def __init__(self, zk: Zk, cluster_id: str, *, look: bool = False, create: bool = True) -> None:
        super().__init__(zk)
        self.create = create
        self._cluster_id = cluster_id
        self._look = look

    def talk(self) -> Talk:
        """Read the cluster id and our mark, which may forbid to write anything; then create."""
        outcomes = yield (*WHOSE, GetData(own.PATH))
        if (other := other_cluster(outcomes[len(WHOSE) - 1], self._cluster_id)) is not None:
            return Missing((other,))
        if _says_rolled_back(outcomes[-1]):
            return Done()
        paths: Sequence[str] = PATHS
        if self._look:
            outcomes = yield LOOK
            paths, failed = _looked(outcomes[-1])
            if failed or not paths or not self.create:
                return Missing(tuple(failed)) if failed else Done()
        outcomes = yield creation(paths)
        failed = [
            _unreadable(path, outcome.code)
            for path, outcome in zip((*paths, "/", migration.PATH), outcomes, strict=True)
            if isinstance(outcome, ZkFailed) and outcome.code != ZkCode.NODE_EXISTS
        ]
        last = outcomes[-1]
        if isinstance(last, ZkResult):
            failed += _unparsable(last.value)
        return Missing(tuple(failed)) if failed else Done()


def _looked(read: ZkOutcome) -> tuple[Sequence[str], list[Reason]]:
    """What of :data:`PATHS` is absent, and why something there cannot be used."""
    if isinstance(read, ZkFailed):
        return (), [_unreadable(migration.PATH, read.code)]
    assert isinstance(read, ZkResult)
    values = dict(zip(PATHS, cast("list[ReadValue]", read.value), strict=True))
    refused = {path: one.code for path, one in values.items() if isinstance(one, ReadFailed)}
    absent = [path for path, code in refused.items() if code == ZkCode.NO_NODE]
    failed = [_unreadable(path, refused[path]) for path in refused.keys() - set(absent)]
    return absent, failed + _unparsable(values[migration.PATH])


class Attempt(msgspec.Struct, frozen=True):
    """What an attempt to claim is made from. A claim makes its own check, from the same values."""

    image: Image
    log: LogView
    claimer: Claimer
    entities: Entities
    cluster_id: str
    listener: str | None = None
    """The listener of brokers for control requests; None: nothing is propagated to brokers."""


def found_of(outcomes: Sequence[ZkOutcome]) -> claim.Found | Reason:
    """The four znodes of the controllers, read by the last of these requests."""
    read = outcomes[-1]
    if isinstance(read, ZkFailed):
        return _unreadable("/controller", read.code)
    assert isinstance(read, ZkResult)
    assert isinstance(read.value, list)
    return claim.parse(cast("list[ReadValue]", read.value))


class GuardTask(Task):
    """Ask the guards of the claim alone: read the cluster id and the four znodes, write nothing.

    Until they have passed the other voters are refused as all callers are, and cannot register as
    ready; a claim waits for that.
    """

    def __init__(self, zk: Zk, attempt: Attempt) -> None:
        super().__init__(zk)
        self._attempt = attempt
        self.found: claim.Found | None = None
        """What was read, if it can be used."""

    def talk(self) -> Talk:
        """Read, and ask."""
        of, outcomes = self._attempt, (yield (*WHOSE, *claim.READ))
        reasons: list[Reason] = []
        if (other := other_cluster(outcomes[len(WHOSE) - 1], of.cluster_id)) is not None:
            reasons.append(other)
        elif isinstance(found := found_of(outcomes), Reason):
            reasons.append(found)
        else:
            self.found = found
            reasons += claim.guard(found, of.image, of.log, of.claimer)
        self.guards_passed = not reasons
        return Missing(tuple(reasons)) if reasons else Done()


def _unparsable(found: object) -> list[Reason]:
    """Why ``/migration`` cannot be used, if it is there."""
    if isinstance(found, NodeData):
        try:
            migration.parse(found.data)
        except ZnodeError as error:
            return [Reason(Why.MIGRATION_ZNODE, error.path, str(error), fatal=True)]
    return []


def _unreadable(path: str, code: int) -> Reason:
    return Reason(Why.UNREADABLE, path, f"{path}: ZooKeeper answers {code_name(code)}")
