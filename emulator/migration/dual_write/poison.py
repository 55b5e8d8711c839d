"""Operations that ZooKeeper refuses permanently, and the configured reaction.

A refusal that a full comparison repairs (the znode is missing, or exists already) is not poison
unless it is repeated. Every other refusal (no permission, too large for a frame) is poison. With
``kraftbridge.zk.write.behind.poison=block`` nothing after it is written, and it is retried with
back-off; with ``skip`` the znode is left as it is, and tried again every
:data:`SKIPPED_RETRY_MS`, one znode at a time. The path and the cause are always shown in the
status, a metric and the log. The chain's own znodes are never skipped. A znode that must be read
and cannot be is reported in the same way.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import msgspec

from emulator.migration.dual_write.pipeline import MULTI_TOO_LARGE, MULTI_TOO_SLOW, Refused
from emulator.migration.plan import Group
from emulator.seam import Log
from emulator.znodes import controller, migration, own
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

REPAIRABLE: Final = frozenset({ZkCode.NO_NODE, ZkCode.NODE_EXISTS, ZkCode.NOT_EMPTY})
CHAIN: Final = frozenset({controller.EPOCH_PATH, migration.PATH, own.PATH})
REPAIRS_MAX: Final = 2
REPAIRED_MAX: Final = 100
"""Of so many the oldest are forgotten."""
RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 30_000
_UNANSWERED: Final = {
    MULTI_TOO_LARGE: "larger than ZooKeeper's limit of a request (jute.maxbuffer)",
    MULTI_TOO_SLOW: "it takes longer than 2/3 of the session timeout until ZooKeeper has it, each "
    "time; a longer zookeeper.session.timeout.ms gives it more",
}
SKIPPED_RETRY_MS: Final = 15 * 60_000
"""A retry of a skipped znode compares the whole tree, twice if the znode is refused again."""
SUBTREES: Final = (
    ("/brokers/topics/", "topic"),
    ("/config/topics/", "config of topic"),
    ("/config/brokers/", "config of broker"),
    ("/config/users/", "quotas and SCRAM credentials of user"),
    ("/config/clients/", "quotas of client id"),
    ("/config/ips/", "quotas of ip"),
    ("/kafka-acl", "access control entries of resource"),
    ("/delegation_token/tokens/", "delegation token"),
)
"""Prefix of a path -> what the znode holds; the name follows the prefix, up to the next slash."""
SKIP: Final = (
    "or restart with kraftbridge.zk.write.behind.poison=skip, which leaves the znode as it is"
)
TRIES: Final = "it is tried again within 30 s"
TRIES_SKIPPED: Final = "one skipped znode is tried again every 15 minutes, and all at each start"


class Reaction(Enum):
    """What to do about a refused operation."""

    RECONCILE = auto()
    BLOCK = auto()


class Repaired(msgspec.Struct):
    """Refusals of one znode in one way, each of which made the whole tree be compared."""

    path: str
    error: str
    first_ms: int
    last_ms: int
    times: int = 1


class Poisoned(msgspec.Struct, frozen=True):
    """One znode that cannot be written."""

    path: str
    cause: str
    skipped: bool
    remedy: str
    """What an operator does about it."""

    def log(self) -> Log:
        """A log line of this znode."""
        fields: dict[str, object] = {
            "path": self.path,
            "cause": self.cause,
            "remedy": self.remedy,
        }
        return Log("error", "zookeeper refuses a znode permanently", fields)


class Poison:
    """The znodes that cannot be written, and the time of the next retry."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self._refusals: dict[str, int] = {}
        self.not_empty: set[str] = set()
        """Znodes that could not be deleted because they have children, which must be read."""
        self._blocked: Poisoned | None = None
        self._unreadable: Poisoned | None = None
        self._skipped: dict[str, Poisoned] = {}
        self._tried_again: dict[str, Poisoned] = {}
        """The skipped znode that is being tried again."""
        self.skipped_retry_ms: int | None = None
        """When a skipped znode is tried again; None: none is skipped."""
        self._repaired: dict[tuple[str, str], Repaired] = {}
        self._retries = 0
        self.retry_ms = 0
        self.since_ms: int | None = None
        """Since when a znode blocks all writing; None: no znode does."""

    @property
    def znodes(self) -> tuple[Poisoned, ...]:
        """Every znode that is poisoned now."""
        blocked = (one for one in (self._unreadable, self._blocked) if one is not None)
        return (*blocked, *self.skipped)

    @property
    def repaired(self) -> tuple[Repaired, ...]:
        """What a comparison repaired, or is about to, in the order in which it was refused last."""
        return tuple(self._repaired.values())

    @property
    def skipped(self) -> tuple[Poisoned, ...]:
        """The znodes that are left as they are; ZooKeeper does not hold what is committed."""
        return tuple((self._tried_again | self._skipped).values())

    def try_skipped_again(self, now_ms: int) -> None:
        """Let the znode that was skipped first be written by the next comparison."""
        path = next(iter(self._skipped), None)
        if path is not None:
            self._tried_again = {path: self._skipped.pop(path)}
        self.skipped_retry_ms = now_ms + SKIPPED_RETRY_MS if path is not None else None

    def refused(self, refusal: Refused, now_ms: int) -> Reaction:
        """Decide what to do about a refused data operation."""
        assert refusal.op is not None
        path = refusal.op.path
        self._refusals[path] = self._refusals.get(path, 0) + 1
        if refusal.code == ZkCode.NOT_EMPTY:
            self.not_empty.add(path)
        if refusal.code in REPAIRABLE and self._refusals[path] <= REPAIRS_MAX:
            self._compared(path, code_name(refusal.code), now_ms)
            return Reaction.RECONCILE
        operation = f"{type(refusal.op).__name__}: {code_name(refusal.code)}"
        cause = _UNANSWERED.get(refusal.code, operation)
        if refusal.code == ZkCode.NO_AUTH:
            cause += f" ({_lacks(refusal.op)})"
        skippable = path not in CHAIN
        skipped = self._skip and skippable
        how = remedy(
            path,
            forbidden=refusal.code == ZkCode.NO_AUTH,
            skippable=skippable and not skipped,
            skipped=skipped,
        )
        found = Poisoned(path, cause, skipped, how)
        if skipped:
            self._tried_again.pop(path, None)
            self._skipped[path] = found
            if self.skipped_retry_ms is None:
                self.skipped_retry_ms = now_ms + SKIPPED_RETRY_MS
            return Reaction.RECONCILE
        self._blocked = found
        self._back_off(now_ms)
        return Reaction.BLOCK

    def _compared(self, path: str, error: str, now_ms: int) -> None:
        one = self._repaired.pop((path, error), None) or Repaired(path, error, now_ms, now_ms, 0)
        one.last_ms, one.times = now_ms, one.times + 1
        self._repaired[path, error] = one
        if len(self._repaired) > REPAIRED_MAX:
            del self._repaired[next(iter(self._repaired))]

    def unreadable(self, path: str, cause: str, now_ms: int) -> None:
        """Write nothing more until ``path`` has been read: try again at ``retry_ms``."""
        how = "give the controller READ in its ACL; it is read again within 30 s"
        self._unreadable = Poisoned(path, cause, skipped=False, remedy=how)
        self._back_off(now_ms)

    def readable(self) -> None:
        """The unreadable znode has been read."""
        self._unreadable = None
        if self._blocked is None:
            self.since_ms = None

    def _back_off(self, now_ms: int) -> None:
        if self.since_ms is None:
            self.since_ms = now_ms
        self.retry_ms = now_ms + min(RETRY_MS_MIN << min(self._retries, 10), RETRY_MS_MAX)
        self._retries += 1

    def healed(self) -> None:
        """Everything that was refused before has been written, but for what is skipped."""
        if self._tried_again:
            # ZooKeeper refuses it no more: perhaps it takes the next one too.
            self._tried_again.clear()
            self.skipped_retry_ms = 0 if self._skipped else None
        self._refusals.clear()
        self.not_empty.clear()
        self._blocked = None
        self._retries = 0
        if self._unreadable is None:
            self.since_ms = None

    def forget(self) -> None:
        """A new claim: try everything again."""
        self.healed()
        self._skipped.clear()
        self.skipped_retry_ms = None

    def filter(self, groups: list[Group]) -> list[Group]:
        """Remove the operations on skipped znodes, and on znodes below them.

        The first operation of a group is a change, the others create its notifications. If the
        znode of the change is skipped, the whole group is removed. If only the znode of a
        notification is skipped, the change stays.
        """
        if not self._skipped:
            return groups
        return [
            (first, *(op for op in notifications if not self._skips(op.path)))
            for first, *notifications in groups
            if not self._skips(first.path)
        ]

    def _skips(self, path: str) -> bool:
        """Whether it or a znode above it is skipped; there may be thousands of skipped ones."""
        while path:
            if path in self._skipped:
                return True
            path = path.rpartition("/")[0]
        return False


def _lacks(op: ZkOp) -> str:
    """The permission we lack for a refused operation, and the znode whose ACL refuses it."""
    parent = op.path.rpartition("/")[0] or "/"
    match op:
        case Create():
            return f"the ACL of {parent} does not give us CREATE"
        case Delete():
            return f"the ACL of {parent} does not give us DELETE"
        case SetData():
            return "its ACL does not give us WRITE"
        case _:
            return "its ACL does not give us READ"


def remedy(path: str, *, forbidden: bool, skippable: bool, skipped: bool = False) -> str:
    """The instruction to the operator for a znode that ZooKeeper refuses, as one sentence.

    Args:
        path: of the znode.
        forbidden: the cause is a right that we lack.
        skippable: it may be left as it is.
        skipped: it was left as it is.

    >>> remedy("/config/topics/t", forbidden=False, skippable=False)
    'delete what the znode holds (config of topic t): deletions are still accepted'
    """
    if forbidden:
        then = TRIES_SKIPPED if skipped else TRIES
        text = f"give the controller the permission that it lacks; {then}"
    else:
        what = f"delete what the znode holds ({_what(path)})"
        text = f"{what}: deletions are still accepted"
    return f"{text}; {SKIP}" if skippable else text


def _what(path: str) -> str:
    for prefix, what in SUBTREES:
        if path.startswith(prefix):
            rest = path.removeprefix(prefix)
            name = rest.rpartition("/")[2] if prefix == "/kafka-acl" else rest.partition("/")[0]
            return f"{what} {name}"
    return path
