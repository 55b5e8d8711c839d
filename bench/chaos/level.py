"""The stores as they are once what was committed has reached them; time decides nothing."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.judge.stores import Entities, differences, from_dump, from_log
from bench.rig.waiting import PATIENCE_S
from bench.rig.zk_dump import UnreadableError, dump

Records: TypeAlias = Sequence[Mapping[str, Any]]
"""Of a log, as `bench.judge.stores.dump_log` returns them."""
_AGAIN_S: Final = 0.5
_NO_OP: Final = "NO_OP_RECORD"
_LATE: Final = 5


def end_of(records: Records) -> int:
    """Offset of a log's last record; -1 of an empty one."""
    return int(records[-1]["offset"]) if records else -1


def whole_logs(
    read: Callable[[int], Records],
    node_ids: Iterable[int],
    committed: int,
    patience_s: float = PATIENCE_S,
) -> dict[int, Records]:
    """The log of each controller, read again until it has what was committed, or time is over.

    Args:
        read: the log of a controller as it is now; it may fail while the log is written to.
        node_ids: of the controllers.
        committed: high watermark.
        patience_s: how long to wait.

    Raises:
        CalledProcessError: a log could not be read in all that time.
    """
    end = time.monotonic() + patience_s
    found: dict[int, Records] = {}
    for node_id in node_ids:
        while True:
            late = time.monotonic() > end
            try:
                found[node_id] = read(node_id)
            except subprocess.CalledProcessError:
                if late:
                    raise
            else:
                if late or end_of(found[node_id]) >= committed - 1:
                    break
            time.sleep(_AGAIN_S)
    return found


class Store:
    """ZooKeeper, read raw.

    Args:
        hosts: connect string.
        kafkas: so many controllers are Kafka's.
    """

    def __init__(self, hosts: str, *, kafkas: int) -> None:
        self._hosts = hosts
        self._kafkas = kafkas

    def offset(self) -> int:
        """The offset in ``/migration``: ZooKeeper has what the log has up to it."""
        client = KazooClient(self._hosts)
        client.start(timeout=PATIENCE_S)
        try:
            data, _ = client.get("/migration")
            return int(json.loads(data)["kraft_metadata_offset"])
        finally:
            client.stop()
            client.close()

    def tree(self) -> Entities:
        """Every entity, read one after the other."""
        tree = from_dump(dump(self._hosts, with_secrets=True, timeout_s=PATIENCE_S))
        if self._kafkas:  # a controller of Kafka's compares no versions when it is elected
            tree.versions = None
        return tree


def differing(
    offset: Callable[[], int],
    tree: Callable[[], Entities],
    log: Callable[[], Records],
    ready: Callable[[], object],
    patience_s: float = PATIENCE_S,
) -> list[str]:
    """What differs between ZooKeeper and the log, as of one offset.

    All is read again while ``/migration`` lacks a change of the log, which was read last: else
    nothing was written while ZooKeeper was read, what differs is a fault, and is not waited for.

    Args:
        offset: the one in ``/migration``.
        tree: the content of ZooKeeper.
        log: that of the leader.
        ready: called first each time.
        patience_s: how long to wait.

    Raises:
        KazooException, KazooTimeoutError, UnreadableError: ZooKeeper could not be read by then.
        CalledProcessError: the log could not.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            ready()
            reached, entities, records = offset(), tree(), log()
        except (KazooException, KazooTimeoutError, UnreadableError, subprocess.CalledProcessError):
            if time.monotonic() > end:
                raise
            time.sleep(_AGAIN_S)
            continue
        late = [one for one in records if one["offset"] > reached and one["type"] != _NO_OP]
        if not late and end_of(records) >= reached:
            return differences(entities, from_log(records))
        if time.monotonic() > end:
            return [
                f"ZooKeeper at offset {reached} lacks {one['type']} at {one['offset']}"
                for one in late[:_LATE]
            ] or [f"ZooKeeper at offset {reached} is ahead of the leader's log"]
        time.sleep(_AGAIN_S)
