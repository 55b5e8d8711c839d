"""Reads the stores after all committed records have reached them, however long that takes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import Final

from bench.judge.stores import (
    Entities,
    Records,
    at_one_offset,
    differences,
    end_of,
    from_dump,
    from_log,
)
from emulator.servers.patience import patiently
from emulator.servers.seeded import connected
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zk_dump import dump

_AGAIN_S: Final = 0.5


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
        with connected(self._hosts) as client:
            data, _ = client.get("/migration")
            return int(json.loads(data)["kraft_metadata_offset"])

    def tree(self) -> Entities:
        """Every entity, read one after the other."""
        tree = from_dump(dump(self._hosts, with_secrets=True))
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
    """What differs between ZooKeeper and the log, as of one offset; why, if there is none.

    Args:
        offset: the one in ``/migration``.
        tree: the content of ZooKeeper.
        log: that of the leader.
        ready: called first each time.
        patience_s: how long to wait.
    """

    def read() -> tuple[Entities, Records]:
        ready()
        return at_one_offset(offset, tree, log)

    try:
        entities, records = patiently("/migration at the end of the log", read, [], patience_s)
    except TimeoutError as late:
        return [str(late)]
    return differences(entities, from_log(records))
