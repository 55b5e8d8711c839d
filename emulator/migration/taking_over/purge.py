"""Deletes in ZooKeeper what nobody else would: old notifications, and late deletions of topics.

Notifications older than 15 minutes: ZooKeeper-mode brokers delete them whenever they process one.
If there are no such brokers, because all run in KRaft mode or none has an authorizer, those of the
dual write would never be deleted. So the controller deletes them too, its own and those of others.

Deletions that a broker, which did not know the KRaft controller yet, wrote into
``/admin/delete_topics`` behind the last comparison with the tree: their callers got an error or no
answer, and ask again. After a rollback ZooKeeper's controller would carry them out, also on a topic
that was created again under such a name. So they are deleted, and named in the log.

Runs in DUAL_WRITE once a minute, outside the counted chain: a purge that is lost or refused does no
harm and is repeated later. It is fenced like every write, by a check of ``/controller_epoch``. At
most 100 znodes are in flight at a time; notifications go oldest first, until one is too young.

The age is our clock minus the znode's ctime, as in Kafka. But if our clock is fast, a notification
would go that a broker has not read yet, which then never hears of the change: by how much it is
fast ``/controller`` shows, which holds the time of our claim and ZooKeeper's. Source:
ZkNodeChangeNotificationListener.purgeObsoleteNotifications, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias, cast

from emulator.migration.rounds import Zk
from emulator.migration.taking_over.tasks import Done, Outcomes, Talk, Task, TaskResult
from emulator.seam import Effect, Log
from emulator.znodes import acls, cluster, configs, controller, delegation_tokens
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Check,
    Delete,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    Stat,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

AGE_MS: Final = 15 * 60_000
LOOK_MS: Final = 60_000
"""Time between two purges."""
BATCH: Final = 100
"""Znodes read, or deleted, in one request."""
LISTED_MAX: Final = 1_000
"""Above this many notifications in a folder their names are computed, not listed in one answer."""
PREFIXES: Final = {
    configs.CHANGES: "config_change_",
    acls.CHANGES: acls.CHANGE,
    acls.EXTENDED_CHANGES: acls.CHANGE,
    delegation_tokens.CHANGES: "token_change_",
}
"""Folders of notifications, and the prefix of the names in each."""

HEADS: Final = (controller.PATH, cluster.DELETE_TOPICS, *PREFIXES)
"""What is read first."""

_Part: TypeAlias = Generator[Sequence[ZkRequest], Outcomes, None]


class PurgeTask(Task):
    """Purge once; see the module's docstring.

    Args:
        zk: the client.
        epoch_version: znode version of ``/controller_epoch`` since our claim.
    """

    def __init__(self, zk: Zk, epoch_version: int) -> None:
        super().__init__(zk)
        self._epoch_version = epoch_version
        self._failure: str | None = None
        self._asked: list[str] = []
        """Deletions that are under way."""
        self.purged = self._fast_ms = 0

    def talk(self) -> Talk:
        """Ask what there is, and purge each folder that has something."""
        yield from self._purge()
        if self._failure is not None:
            self.effects.append(
                Log("warning", "cannot purge notifications", {"why": self._failure})
            )
        elif self.purged:
            self.effects.append(Log("info", "notifications purged", {"count": self.purged}))
        return Done()

    def _purge(self) -> _Part:
        (outcome,) = yield (MultiRead(tuple(GetData(path) for path in HEADS)),)
        if not isinstance(outcome, ZkResult):
            self._refused(outcome)
            return
        assert isinstance(outcome.value, list)
        claim, deletions, *folders = outcome.value
        self._fast_ms = _fast_ms(claim) if isinstance(claim, NodeData) else 0
        for folder, head in zip(PREFIXES, folders, strict=True):
            if isinstance(head, NodeData) and head.stat.children_count and self._failure is None:
                yield from self._purge_folder(folder, head.stat)
        if isinstance(deletions, NodeData) and deletions.stat.children_count:
            yield from self._drop_deletions()

    def _drop_deletions(self) -> _Part:
        (outcome,) = yield (GetChildren(cluster.DELETE_TOPICS),)
        if not isinstance(outcome, ZkResult):
            self._refused(outcome)
            return
        waiting = iter(sorted(cast("tuple[str, ...]", outcome.value)))
        while names := [*islice(waiting, BATCH)]:
            # One by one: a znode that cannot be deleted must not keep the others.
            paths = (f"{cluster.DELETE_TOPICS}/{one}" for one in names)
            self._asked = names
            outcomes = yield tuple(self._deletion([path]) for path in paths)
            self._asked = []
            dropped = []
            for name, outcome in zip(names, outcomes, strict=True):
                if isinstance(outcome, ZkResult):
                    dropped.append(name)
                else:
                    self._refused(outcome)
            self.effects += _dropped(dropped)

    def end(self, result: TaskResult | None = None) -> list[Effect]:
        """See :class:`Task`; deletions whose answer is lost may be gone, so they are named too."""
        return [*super().end(result), *_dropped(self._asked)]

    def _purge_folder(self, folder: str, head: Stat) -> _Part:
        names: Iterable[str]
        if head.children_count > LISTED_MAX:
            names = _counted_off(PREFIXES[folder], head)
        else:
            (outcome,) = yield (GetChildren(folder),)
            if not isinstance(outcome, ZkResult):
                self._refused(outcome)
                return
            names = _ours(PREFIXES[folder], cast("tuple[str, ...]", outcome.value))
        waiting = iter(names)
        while batch := [f"{folder}/{name}" for name in islice(waiting, BATCH)]:
            (outcome,) = yield (MultiRead(tuple(GetData(path) for path in batch)),)
            if not isinstance(outcome, ZkResult):
                self._refused(outcome)
                return
            assert isinstance(outcome.value, list)
            zk_ms = self.now_ms - self._fast_ms
            ages = [
                one.stat.ctime_ms if isinstance(one, NodeData) else None for one in outcome.value
            ]
            old = [
                path
                for path, at in zip(batch, ages, strict=True)
                if at is not None and at + AGE_MS < zk_ms
            ]
            if old:
                (outcome,) = yield (self._deletion(old),)
                if not isinstance(outcome, ZkResult):
                    self._refused(outcome)
                    return
                self.purged += len(old)
            if any(at is not None and at + AGE_MS >= zk_ms for at in ages):
                return

    def _deletion(self, paths: Iterable[str]) -> Multi:
        check = Check(controller.EPOCH_PATH, self._epoch_version)
        return Multi((check, *(Delete(path) for path in paths)))

    def _refused(self, outcome: ZkOutcome) -> None:
        """A znode that a broker deleted first is no failure; other errors are, and are retried."""
        if isinstance(outcome, ZkFailed) and outcome.code != ZkCode.NO_NODE:
            self._failure = code_name(outcome.code)


def _dropped(topics: list[str]) -> list[Effect]:
    return [Log("warning", "topic deletions dropped", {"topics": topics})] if topics else []


def _fast_ms(claim: NodeData) -> int:
    """By how much our clock was ahead of ZooKeeper's at the claim; it took some time itself."""
    znode = controller.try_parse(claim.data)
    return 0 if znode is None else max(0, znode.timestamp_ms - claim.stat.ctime_ms)


def _ours(prefix: str, names: Sequence[str]) -> list[str]:
    """Names of notifications, oldest first, by their ten digits; other names are ignored."""
    number = re.compile(re.escape(prefix) + r"\d{10}")
    return sorted(name for name in names if number.fullmatch(name))


def _counted_off(prefix: str, head: Stat) -> Iterator[str]:
    """Names of the notifications if all older ones are deleted, oldest first.

    The number of a notification is how many were created before it. Notifications that gaps hide
    here are found by name when fewer are left.

    >>> head = Stat(0, 0, 0, 0, 0, 17, 0, 0, 0, 3, 0)
    >>> list(_counted_off("config_change_", head))[0]
    'config_change_0000000007'
    """
    made = (head.cversion + head.children_count) // 2
    return (f"{prefix}{number:010d}" for number in range(made - head.children_count, made))
