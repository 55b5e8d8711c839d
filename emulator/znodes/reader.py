"""Reading the whole tree by multiRead: an incremental reader without long steps.

The tree is read level by level: children of ``/brokers/topics`` first, then per topic its
partitions and its data, then the states; folders of partitions have no data and are not read.
20,000 partitions take about 26,000 reads. A request asks for at most as many znodes as the limit of
an answer should hold: the number of partitions says how long a topic's data is, the longest of the
last answers how long other znodes are; a request of one read may exceed it. The result is
consistent only if no other client writes: claim first.

A lost connection costs the requests that it left without an answer. Whether what was read before
still holds is for the owner to know: no controller may have written since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.tree import Tree, TreeNode
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import (
    GetChildren,
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    ZkRead,
    ZkResult,
)

READS_MAX: Final = 500
"""Reads in one request: more would delay other clients of the server."""
PATH_BYTES_MAX: Final = 250_000
"""Paths in one request: ZooKeeper accepts four times as many; each may have a chroot."""
READ_BYTES: Final = 14
"""Bytes of a read in a multiRead besides its path."""
STAT_BYTES: Final = 81
"""Bytes of an answer to a read besides the data."""
TOPIC_BYTES_PER_PARTITION: Final = 60
"""Bytes of a partition in a topic's data, with three replicas of large ids or a reassignment."""
UNKNOWN_BYTES: Final = 1_000
"""Taken for the data of the first znodes of a kind."""
UNKNOWN_LIST_BYTES: Final = 20_000
"""Taken for the first lists of children of a kind: a topic may have 10,000 partitions."""
TOP_LEVEL: Final = (
    "/admin",
    "/admin/delete_topics",
    "/brokers",
    "/brokers/ids",
    "/brokers/seqid",
    "/brokers/topics",
    "/config",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/topics",
    "/config/users",
    "/consumers",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)
"""Znodes that Kafka creates first, without data. Parents are before children."""
SINGLE: Final = (
    "/admin/preferred_replica_election",
    "/admin/reassign_partitions",
    "/cluster/id",
    "/controller",
    "/controller_epoch",
    "/kraft_bridge",
    "/migration",
)
TOPICS: Final = "/brokers/topics"
LISTED: Final = (
    TOPICS,
    "/admin/delete_topics",
    "/brokers/ids",
    "/config/topics",
)
WALKED: Final = tuple(root for entity in ENTITIES_WITHOUT_SECRETS for root in entity.roots)
"""Paths that are read with everything below them."""
FOLDERS: Final = tuple(
    dict.fromkeys(path for entity in ENTITIES_WITHOUT_SECRETS for path in entity.folders)
)
OTHERS: Final = "/brokers/ids"
"""What others write while the claim is ours: the brokers that run."""
_WITH_LISTS: Final = frozenset((*TOP_LEVEL, *FOLDERS))
"""Znodes whose children are listed anyway, or not wanted."""

__all__ = ["TOP_LEVEL", "Tree", "TreeNode", "TreeReader", "TreeTag"]


class TreeTag(msgspec.Struct, frozen=True, eq=False):
    """Tag of one request of one reader."""

    reader: TreeReader
    reads: tuple[ZkRead, ...]


class TreeReader:
    """Reads the tree in pieces; after a failed request begin with a new reader.

    Args:
        reads_max: reads in one request; parsing an answer of 500 takes about 2 ms.
        limit: bytes of one request and of its answer; None: what every server takes.
        in_flight_max: maximum requests in flight.
        below: other paths whose children are read too: znodes that could not be deleted because
            another client created children there.
        only: read these paths with everything below them, and nothing else.
    """

    def __init__(
        self,
        *,
        reads_max: int = READS_MAX,
        in_flight_max: int = 2,
        limit: FrameLimit | None = None,
        below: Iterable[str] = (),
        only: Iterable[str] | None = None,
    ) -> None:
        self.tree = Tree()
        self.reads_count = 0
        self._reads_max = reads_max
        self._in_flight_max = in_flight_max
        self._in_flight: list[TreeTag] = []
        self._limit = FrameLimit() if limit is None else limit
        self._todo: deque[ZkRead] = deque()
        self._later: deque[Iterator[ZkRead]] = deque()
        """What follows from long lists of names, made when it is needed."""
        self._lengths: dict[tuple[type, int], int] = {}
        """Bytes of the longest of the last answers, by kind of read and depth of the path."""
        self._listed: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        """The last names of children, as they came and in order: many topics have the same."""
        self._below = tuple(path + "/" for path in below)
        if only is None:
            self._todo.extend(GetData(path) for path in (*TOP_LEVEL, *SINGLE, *FOLDERS))
            only = (*LISTED, *WALKED)
        self._todo.extend(GetChildren(path) for path in only)
        self._todo.extend(GetChildren(path[:-1]) for path in self._below)

    @property
    def complete(self) -> bool:
        """Whether everything has been read, so ``tree`` may be used."""
        return not (self._todo or self._later or self._in_flight)

    def owns(self, tag: object) -> bool:
        """Whether an outcome is for this reader, and for a request that it still waits for."""
        return isinstance(tag, TreeTag) and tag.reader is self and tag in self._in_flight

    def requests(self) -> list[tuple[TreeTag, MultiRead]]:
        """The requests to submit now; call again after every outcome."""
        out = []
        while self._todo and len(self._in_flight) < self._in_flight_max:
            reads = tuple(self._next_reads())
            self.reads_count += len(reads)
            self._in_flight.append(TreeTag(self, reads))
            out.append((self._in_flight[-1], MultiRead(reads)))
            self._refill()
        return out

    def _refill(self) -> None:
        """Make the reads of the next request."""
        while self._later and len(self._todo) < self._reads_max:
            some = tuple(islice(self._later[0], self._reads_max))
            self._todo.extend(some)
            if not some:
                self._later.popleft()

    def _next_reads(self) -> Iterator[ZkRead]:
        path_bytes = answer_bytes = 0
        path_bytes_max = min(PATH_BYTES_MAX, self._limit.bytes // 2)
        for count in range(self._reads_max):
            if not self._todo:
                return
            path_bytes += READ_BYTES + len(self._todo[0].path.encode())
            answer_bytes += self._expected(self._todo[0])
            if count and (path_bytes > path_bytes_max or answer_bytes > self._limit.answer_bytes):
                return
            yield self._todo.popleft()

    def _expected(self, read: ZkRead) -> int:
        """Bytes of the answer to a read, as far as they can be known before it."""
        path = read.path
        if path.startswith(TOPICS) and isinstance(read, GetData):
            partitions = self.tree.lists.get(f"{path}/partitions")
            if partitions is not None:
                return STAT_BYTES + TOPIC_BYTES_PER_PARTITION * len(partitions)
        length = self._lengths.get((type(read), path.count("/")))
        if length is None:
            length = UNKNOWN_LIST_BYTES if isinstance(read, GetChildren) else UNKNOWN_BYTES
        return STAT_BYTES + length

    def _learn(self, read: ZkRead, size: int) -> None:
        kind = (type(read), read.path.count("/"))
        self._lengths[kind] = max(size, (15 * self._lengths.get(kind, 0) + size) // 16)

    def outcome(self, result: ZkResult) -> None:
        """Take one answer."""
        assert isinstance(result.tag, TreeTag)
        assert isinstance(result.value, list)
        self._in_flight.remove(result.tag)
        for read, value in zip(result.tag.reads, result.value, strict=True):
            self._take(read, value)  # type: ignore[arg-type]  # what was read decides the type
        self._refill()

    def again(self) -> None:
        """Go on in another session: read what was not answered, and anew what others write."""
        for tag in reversed(self._in_flight):
            self._todo.extendleft(reversed(tag.reads))
        self._in_flight.clear()
        self._todo.appendleft(GetChildren(OTHERS))

    def _take(self, read: ZkRead, value: ReadValue) -> None:
        path = read.path
        if isinstance(value, NodeData):
            stat = value.stat
            self._learn(read, stat.data_length)
            self.tree.nodes[path] = TreeNode(
                value.data, stat.version, stat.czxid, stat.ephemeral_owner
            )
            if stat.children_count and self._is_odd(path, stat.children_count):
                self._todo.append(GetChildren(path))
            return
        folder = _is_folder(path)
        if folder:
            self._todo.append(GetData(_topic_of(path)))
        if isinstance(value, ReadFailed):
            if value.code != ZkCode.NO_NODE:
                self.tree.unreadable[path] = value.code
            return
        if value is not self._listed[0]:
            self._listed = value, tuple(sorted(value))
        names = self._listed[1]
        self._learn(read, sum(map(len, names)) + 4 * len(names))
        self.tree.lists[path] = names
        reads = self._next_level(path, names, folder=folder)
        if len(names) > self._reads_max:
            self._later.append(reads)
        else:
            self._todo.extend(reads)

    def _is_odd(self, path: str, children_count: int) -> bool:
        """Whether children of a znode whose data was read are wanted."""
        if self._below and path.startswith(self._below):
            return True
        if path.startswith(TOPICS + "/"):
            parts = path.split("/")
            folder = len(parts) == 4 or parts[4] == "partitions"
            return not folder or (len(parts) == 4 and children_count > 1)
        return path not in _WITH_LISTS and path.startswith(WALKED)

    @staticmethod
    def _next_level(path: str, names: tuple[str, ...], *, folder: bool) -> Iterator[ZkRead]:
        if folder:
            for name in names:
                yield GetData(f"{path}/{name}/state")
        elif path == TOPICS:
            for name in names:
                yield GetChildren(f"{TOPICS}/{name}/partitions")
        elif path == "/admin/delete_topics":
            return
        elif path.startswith(TOPICS) and path.count("/") == 3:
            for name in names:
                if name != "partitions":
                    yield GetData(f"{path}/{name}")
        else:
            for name in names:
                yield GetData(f"{path}/{name}")


def _is_folder(path: str) -> bool:
    """Whether it is the folder of a topic's partitions."""
    return path.startswith(TOPICS + "/") and path.endswith("/partitions") and path.count("/") == 4


def _topic_of(folder: str) -> str:
    return folder.removesuffix("/partitions")
